//! Kafka records as defined by the Kafka binding of `CloudEvents`. In binary mode attributes are headers `ce_…` and the value
//! is the data; in structured mode the value is the whole JSON document. The key is the aggregate id in both modes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use postroom::envelope::{self, CLOUDEVENTS_JSON, JSON};
use postroom::{Batch, Entry, Envelope, Fields, Letter, Mark, Message, Mode, Origin, Topic, Written};
use rdkafka::Message as _;
use rdkafka::message::{BorrowedMessage, Header, Headers as _, OwnedHeaders};
use rdkafka::producer::FutureRecord;

/// Header prefix of an attribute.
const ATTRIBUTE_PREFIX: &str = "ce_";
/// The header with the media type. In binary mode it replaces the attribute `datacontenttype`.
const CONTENT_TYPE: &str = "content-type";
const DATA_CONTENT_TYPE: &str = "datacontenttype";
/// A longer error text is truncated, because brokers limit the size of a message.
const ERROR_BYTES_MAX: usize = 8_000;

/// A message to send.
#[derive(Clone, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) topic: String,
    pub(crate) key: Option<Cow<'a, str>>,
    /// Names are without prefix.
    attributes: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    pub(crate) headers: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    pub(crate) value: Cow<'a, [u8]>,
    /// Why there is no message of this entry: its writer has failed.
    pub(crate) rejected: Option<String>,
}

impl<'a> Record<'a> {
    /// The records of a batch's entries.
    pub(crate) fn all(batch: &Batch<'a>, topic: &Topic, mode: &Mode) -> Vec<Self> {
        let entries = batch.entries.iter();
        entries.map(|entry| Self::of(entry, topic, mode)).collect()
    }

    /// The record of an entry.
    fn of(entry: &'a Entry, topic: &Topic, mode: &Mode) -> Self {
        let record = Self {
            topic: topic.of(&entry.event.event_type),
            key: Some(entry.event.aggregate_id.as_str().into()),
            attributes: Vec::new(),
            headers: Vec::new(),
            value: Cow::default(),
            rejected: None,
        };
        match mode {
            Mode::Binary => {
                let others = envelope::attributes(entry).filter(|(name, _)| *name != DATA_CONTENT_TYPE);
                Self {
                    attributes: others.map(|(name, value)| (name.into(), value)).collect(),
                    headers: vec![(CONTENT_TYPE.into(), JSON.into())],
                    value: entry.event.payload.get().as_bytes().into(),
                    ..record
                }
            }
            Mode::Structured => Self {
                headers: vec![(CONTENT_TYPE.into(), format!("{CLOUDEVENTS_JSON}; charset=UTF-8").into())],
                value: Envelope::of(entry).to_structured().into(),
                ..record
            },
            Mode::Own(writer) => match writer.write(entry) {
                Ok(written) => record.written(written),
                Err(error) => Self {
                    rejected: Some(error.report()),
                    ..record
                },
            },
        }
    }

    /// The record with a message in a form of its own.
    fn written(self, written: Written) -> Self {
        let content_type = (CONTENT_TYPE.into(), written.content_type.into());
        let headers = written.headers.into_iter();
        let headers = headers.map(|(name, value)| (name.into(), value.into()));
        Self {
            headers: std::iter::once(content_type).chain(headers).collect(),
            value: written.body.into(),
            ..self
        }
    }

    /// The record of a dead letter: the original message, with headers for its origin and error.
    pub(crate) fn of_letter(letter: &'a Letter) -> Self {
        let inside = letter.attributes.get(DATA_CONTENT_TYPE);
        let content_type = letter.content_type.as_ref().or(inside);
        let mut headers: Vec<(Cow<'_, str>, Cow<'_, str>)> = Vec::new();
        headers.extend(content_type.map(|kind| (CONTENT_TYPE.into(), kind.into())));
        let marks = letter.marks();
        let is_mark = |name: &str| marks.iter().any(|(mark, _)| *mark == name);
        let own = letter.fields.iter().filter(|(name, _)| !is_mark(name));
        headers.extend(own.map(|(name, value)| (name.into(), String::from_utf8_lossy(value))));
        let short = |mut text: String| {
            text.truncate(text.floor_char_boundary(ERROR_BYTES_MAX));
            text
        };
        headers.extend(marks.map(|(name, value)| (name.into(), short(value).into())));
        let others = letter.attributes.iter().filter(|(name, _)| *name != DATA_CONTENT_TYPE);
        Self {
            topic: format!("{}.DLT", letter.origin.topic),
            key: key_of(letter).map(Cow::from),
            attributes: others.map(|(name, value)| (name.into(), value.into())).collect(),
            headers,
            value: letter.body.as_slice().into(),
            rejected: None,
        }
    }

    /// The record as a type of the driver.
    pub(crate) fn borrowed(&self) -> FutureRecord<'_, str, [u8]> {
        let mut headers = OwnedHeaders::new_with_capacity(self.headers.len() + self.attributes.len());
        let mut name = ATTRIBUTE_PREFIX.to_owned();
        for (attribute, value) in &self.attributes {
            name.truncate(ATTRIBUTE_PREFIX.len());
            name.push_str(attribute);
            let (key, value) = (name.as_str(), Some(value.as_ref()));
            headers = headers.insert(Header { key, value });
        }
        for (key, value) in &self.headers {
            let (key, value) = (key.as_ref(), Some(value.as_ref()));
            headers = headers.insert(Header { key, value });
        }
        let record = FutureRecord::to(&self.topic)
            .payload(self.value.as_ref())
            .headers(headers);
        match &self.key {
            Some(key) => record.key(key.as_ref()),
            None => record,
        }
    }
}

/// The message key. A letter does not contain it; it is taken from the event's attributes.
fn key_of(letter: &Letter) -> Option<String> {
    let inside = Envelope::from_structured(&letter.body).ok();
    let attributes = match &inside {
        Some(envelope) if letter.attributes.is_empty() => &envelope.attributes,
        _ => &letter.attributes,
    };
    let names = ["aggregateid", "partitionkey", "subject"];
    names.iter().find_map(|name| attributes.get(*name)).cloned()
}

/// Converts a received message. Replaces invalid UTF-8 in attributes.
pub(crate) fn to_message(message: &BorrowedMessage<'_>) -> Message {
    let mut attributes = BTreeMap::new();
    let (mut content_type, mut fields) = (None, Fields::default());
    for header in message.headers().into_iter().flat_map(|headers| headers.iter()) {
        let Some(value) = header.value else {
            continue;
        };
        let text = || String::from_utf8_lossy(value).into_owned();
        if let Some(name) = header.key.strip_prefix(ATTRIBUTE_PREFIX) {
            attributes.insert(name.to_owned(), text());
        } else if header.key.eq_ignore_ascii_case(CONTENT_TYPE) {
            content_type = Some(text());
        } else {
            fields.insert(header.key, value);
        }
    }
    if let Some(kind) = &content_type
        && attributes.contains_key("specversion")
    {
        attributes.insert(DATA_CONTENT_TYPE.to_owned(), kind.clone());
    }
    let (topic, partition, offset) = (message.topic().to_owned(), message.partition(), message.offset());
    Message {
        origin: Origin {
            topic: topic.clone(),
            place: format!("partition {partition}, offset {offset}"),
        },
        mark: Mark::Offset {
            topic,
            partition,
            offset,
        },
        content_type,
        attributes,
        fields,
        body: message.payload().unwrap_or_default().to_vec(),
        given_up: None,
    }
}
