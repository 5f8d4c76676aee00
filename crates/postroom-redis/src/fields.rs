//! The fields of a stream entry: in binary mode `data` and one field per CloudEvents attribute, in structured mode all in `data`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use postroom::envelope::{self, CLOUDEVENTS_JSON, JSON};
use postroom::{Envelope, Letter, Mode, Written};
use redis::Cmd;

use crate::publish_plan::PlannedEntry;

/// Field prefix of attributes.
const ATTRIBUTE_PREFIX: &str = "ce_";
/// The attribute with the media type of the body, and its field.
const DATA_CONTENT_TYPE: &str = "datacontenttype";
const CONTENT_TYPE: &str = "content-type";
const DATA: &str = "data";
/// A script can pass only a limited number of fields. An event with more attributes is written in structured mode.
const ATTRIBUTES_MAX: usize = 1_000;

/// Fields and values of a stream entry.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    /// Names are without prefix.
    attributes: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// None if there is no message.
    content_type: Option<&'a str>,
    data: Cow<'a, [u8]>,
    /// Additional fields.
    extra: Vec<(&'a str, Cow<'a, [u8]>)>,
}

impl<'a> Fields<'a> {
    fn new(
        attributes: impl Iterator<Item = (&'a str, Cow<'a, str>)>,
        content_type: &'a str,
        data: impl Into<Cow<'a, [u8]>>,
    ) -> Self {
        let others = attributes.filter(|(name, _)| *name != DATA_CONTENT_TYPE);
        let others = others.map(|(name, value)| (name.into(), value));
        Self {
            attributes: others.take(ATTRIBUTES_MAX).collect(),
            content_type: Some(content_type),
            data: data.into(),
            extra: Vec::new(),
        }
    }

    /// No message.
    fn none() -> Self {
        Self {
            attributes: Vec::new(),
            content_type: None,
            data: Cow::default(),
            extra: Vec::new(),
        }
    }

    /// Number of fields.
    pub(crate) fn len(&self) -> usize {
        self.attributes.len() + if self.content_type.is_some() { 2 } else { 0 } + self.extra.len()
    }

    /// Approximate size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let attributes = self.attributes.iter().map(|(name, value)| name.len() + value.len());
        attributes.sum::<usize>() + self.len() * ATTRIBUTE_PREFIX.len() + CONTENT_TYPE.len() * 2 + self.data.len()
    }

    /// Appends names and values alternately to a command.
    pub(crate) fn write(&self, command: &mut Cmd) {
        let mut field = ATTRIBUTE_PREFIX.to_owned();
        for (name, value) in &self.attributes {
            field.truncate(ATTRIBUTE_PREFIX.len());
            field.push_str(name);
            command.arg(&field).arg(value.as_ref());
        }
        if let Some(content_type) = self.content_type {
            command.arg(CONTENT_TYPE).arg(content_type);
            command.arg(DATA).arg(self.data.as_ref());
        }
        for (name, value) in &self.extra {
            command.arg(*name).arg(value.as_ref());
        }
    }
}

/// The fields of an outbox entry. None if its writer has failed.
pub(crate) fn of_entry<'a>(planned: &'a PlannedEntry<'_>, mode: &Mode) -> Fields<'a> {
    let entry = planned.entry;
    match &planned.written {
        Some(Ok(written)) => return of_written(written),
        Some(Err(_)) => return Fields::none(),
        None => {}
    }
    if *mode == Mode::Binary {
        let attributes: Vec<_> = envelope::attributes(entry).collect();
        if attributes.len() <= ATTRIBUTES_MAX {
            return Fields::new(attributes.into_iter(), JSON, entry.event.payload.get().as_bytes());
        }
    }
    Fields::new(
        std::iter::empty(),
        CLOUDEVENTS_JSON,
        Envelope::of(entry).to_structured(),
    )
}

/// The fields of a message in a form of its own.
fn of_written(written: &Written) -> Fields<'_> {
    let fields = Fields::new(std::iter::empty(), &written.content_type, written.body.as_slice());
    let own = written.headers.iter();
    Fields {
        extra: own
            .map(|(name, value)| (name.as_str(), value.as_bytes().into()))
            .collect(),
        ..fields
    }
}

/// The fields of a dead letter.
pub(crate) fn of_letter(letter: &Letter) -> Fields<'_> {
    let content_type = letter.content_type.as_deref().unwrap_or_default();
    // A letter that was added to the stream again still has the fields of its first copy.
    let marks = letter.marks();
    let is_mark = |name: &str| marks.iter().any(|(mark, _)| *mark == name);
    let own = letter.fields.iter().filter(|(name, _)| !is_mark(name));
    let mut extra: Vec<(&str, Cow<'_, [u8]>)> = own.map(|(name, value)| (name, value.into())).collect();
    extra.extend(marks.map(|(name, value)| (name, value.into_bytes().into())));
    let attributes = letter.attributes.iter();
    let attributes = attributes.map(|(name, value)| (name.as_str(), value.into()));
    let fields = Fields::new(attributes, content_type, letter.body.as_slice());
    Fields { extra, ..fields }
}

/// The content of a stream entry.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) content_type: Option<String>,
    pub(crate) attributes: BTreeMap<String, String>,
    /// The other fields.
    pub(crate) fields: postroom::Fields,
    pub(crate) body: Vec<u8>,
}

impl Content {
    /// Parses alternating names and values, the format of the server.
    pub(crate) fn read(flat: Vec<Vec<u8>>) -> Self {
        let mut content = Self::default();
        let mut flat = flat.into_iter();
        while let (Some(name), Some(value)) = (flat.next(), flat.next()) {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            match name.as_slice() {
                b"data" => content.body = value,
                b"content-type" => content.content_type = Some(text(&value)),
                name => match name.strip_prefix(ATTRIBUTE_PREFIX.as_bytes()) {
                    Some(attribute) => drop(content.attributes.insert(text(attribute), text(&value))),
                    None => content.fields.insert(text(name), value),
                },
            }
        }
        if let (Some(kind), false) = (&content.content_type, content.attributes.is_empty()) {
            let kind = kind.clone();
            content.attributes.entry(DATA_CONTENT_TYPE.to_owned()).or_insert(kind);
        }
        content
    }
}
