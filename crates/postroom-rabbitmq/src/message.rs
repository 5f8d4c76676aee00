//! The wire format: CloudEvents over AMQP. In binary mode attributes are headers `cloudEvents:{name}`.

use std::collections::BTreeMap;

use lapin::BasicProperties;
use lapin::message::Delivery;
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use postroom::envelope::{CLOUDEVENTS_JSON, JSON};
use postroom::{Entry, Envelope, Error, ErrorKind, Fields, Letter, Mark, Message, Mode, Origin, Result};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::topology::{Names, Source};

/// Header prefix of attributes in published messages.
const ATTRIBUTE_PREFIX: &str = "cloudEvents:";
/// Prefix of senders that cannot use a colon; accepted in received messages.
const ALTERNATIVE_ATTRIBUTE_PREFIX: &str = "cloudEvents_";
/// The attribute that AMQP has a property for.
const CONTENT_TYPE: &str = "datacontenttype";
/// Prefix of headers that RabbitMQ writes itself.
const SERVER_PREFIX: &str = "x-";
/// Maximum size of a dead letter's other headers, because all headers of a message must fit into one frame.
const FIELDS_BYTES_MAX: usize = 64_000;
/// The delivery mode of messages that RabbitMQ writes to disk.
const PERSISTENT: u8 = 2;

/// A message to send.
#[derive(Clone, Debug)]
pub(crate) struct OutgoingMessage {
    pub(crate) exchange: ShortString,
    pub(crate) routing_key: ShortString,
    pub(crate) properties: BasicProperties,
    pub(crate) body: Vec<u8>,
}

impl OutgoingMessage {
    /// The message of an entry, addressed to its topic.
    pub(crate) fn of(entry: &Entry, topic: &str, names: &Names, mode: &Mode) -> Result<Self> {
        let event = &entry.event;
        let properties = BasicProperties::default()
            .with_message_id(short_string(event.id.to_string())?)
            .with_type(short_string(&*event.event_type)?)
            .with_timestamp(u64::try_from(event.occurred_at.unix_timestamp()).unwrap_or_default())
            .with_delivery_mode(PERSISTENT);
        let (properties, body) = match mode {
            Mode::Structured => (
                properties.with_content_type(short_string(CLOUDEVENTS_JSON)?),
                Envelope::of(entry).to_structured(),
            ),
            Mode::Binary => {
                let Envelope { attributes, data } = Envelope::of(entry);
                let properties = properties.with_content_type(short_string(JSON)?);
                let body = String::from(Box::<str>::from(data)).into_bytes();
                (properties.with_headers(headers(attributes)?), body)
            }
            Mode::Own(writer) => {
                let written = writer.write(entry)?;
                let properties = properties.with_content_type(short_string(written.content_type)?);
                (properties.with_headers(plain_headers(written.headers)?), written.body)
            }
        };
        Ok(Self {
            exchange: short_string(topic)?,
            routing_key: short_string(names.routing_key(event))?,
            properties,
            body,
        })
    }

    /// The copy of a dead letter, addressed to one queue. It has these marks in place of those of the letter.
    pub(crate) fn of_letter(letter: &Letter, queue: &str, marks: &[(&str, String)]) -> Result<Self> {
        let mut table = headers(letter.attributes.clone())?;
        let mut left = FIELDS_BYTES_MAX;
        let own = letter
            .fields
            .iter()
            .filter(|(name, _)| !name.starts_with(SERVER_PREFIX));
        for (name, value) in own {
            let Some(rest) = left.checked_sub(name.len() + value.len()) else {
                continue;
            };
            left = rest;
            table.insert(short_string(name)?, text(value));
        }
        for (name, value) in marks {
            table.insert(short_string(*name)?, text(value.as_str()));
        }
        let id = letter
            .attributes
            .get("id")
            .and_then(|id| short_string(id.as_str()).ok());
        let id = id.map_or_else(|| short_string(letter.event_id.to_string()), Ok)?;
        let mut properties = BasicProperties::default()
            .with_headers(table)
            .with_message_id(id)
            .with_delivery_mode(PERSISTENT);
        if let Some(kind) = &letter.content_type {
            properties = properties.with_content_type(short_string(kind.as_str())?);
        }
        Ok(Self {
            exchange: ShortString::default(),
            routing_key: short_string(queue)?,
            properties,
            body: letter.body.clone(),
        })
    }

    /// The id that identifies the message if RabbitMQ returns it.
    pub(crate) fn id(&self) -> Option<&str> {
        self.properties.message_id().as_ref().map(ShortString::as_str)
    }
}

/// Converts a delivery of a queue; `tag` is its mark for the acknowledgement.
pub(crate) fn to_message(delivery: Delivery, tag: u64, source: &Source) -> Message {
    let properties = &delivery.properties;
    let content_type = properties.content_type().as_ref().map(ToString::to_string);
    let mut attributes = attributes(properties.headers().as_ref());
    if let (false, Some(kind)) = (attributes.is_empty(), &content_type) {
        attributes
            .entry(CONTENT_TYPE.to_owned())
            .or_insert_with(|| kind.clone());
    }
    let id = properties.message_id().as_ref().map(ShortString::as_str);
    let place = match id {
        Some(id) => format!("queue {}, message {id}", source.queue),
        None => format!("queue {}, delivery {}", source.queue, delivery.delivery_tag),
    };
    Message {
        mark: Mark::Tag(tag),
        origin: Origin {
            topic: source.topic.clone(),
            place,
        },
        content_type,
        attributes,
        fields: fields(properties.headers().as_ref()),
        body: delivery.data,
        given_up: None,
    }
}

/// Converts a name; AMQP allows at most 255 bytes.
pub(crate) fn short_string(name: impl Into<String>) -> Result<ShortString> {
    let name = name.into();
    ShortString::try_new(name.as_str()).map_err(|source| {
        let start: String = name.chars().take(40).collect();
        Error::caused(
            ErrorKind::Invalid,
            format!("the name {start:?}… is too long for RabbitMQ"),
            source,
        )
    })
}

fn headers(attributes: BTreeMap<String, String>) -> Result<FieldTable> {
    let mut table = FieldTable::default();
    for (name, value) in attributes.into_iter().filter(|(name, _)| name != CONTENT_TYPE) {
        table.insert(short_string(format!("{ATTRIBUTE_PREFIX}{name}"))?, text(value));
    }
    Ok(table)
}

/// Headers of a message that is no CloudEvent.
fn plain_headers(headers: Vec<(String, String)>) -> Result<FieldTable> {
    let mut table = FieldTable::default();
    for (name, value) in headers {
        table.insert(short_string(name)?, text(value));
    }
    Ok(table)
}

fn text(value: impl Into<LongString>) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

fn attributes(headers: Option<&FieldTable>) -> BTreeMap<String, String> {
    let pairs = headers.into_iter().flat_map(|table| table.inner());
    let read = |(name, value): (&ShortString, &AMQPValue)| Some((attribute(name)?.to_owned(), plain(value)?));
    pairs.filter_map(read).collect()
}

/// Headers that are no attributes. Lists and tables are left out.
fn fields(headers: Option<&FieldTable>) -> Fields {
    let pairs = headers.into_iter().flat_map(|table| table.inner());
    let others = pairs.filter(|(name, _)| attribute(name).is_none());
    others
        .filter_map(|(name, value)| Some((name.as_str(), plain(value)?)))
        .collect()
}

/// The attribute whose header has this name.
fn attribute(name: &ShortString) -> Option<&str> {
    let name = name.as_str();
    name.strip_prefix(ATTRIBUTE_PREFIX)
        .or_else(|| name.strip_prefix(ALTERNATIVE_ATTRIBUTE_PREFIX))
}

/// An attribute as text. CloudEvents attributes are never lists or tables.
fn plain(value: &AMQPValue) -> Option<String> {
    Some(match value {
        AMQPValue::LongString(text) => String::from_utf8_lossy(text.as_bytes()).into_owned(),
        AMQPValue::ShortString(text) => text.to_string(),
        AMQPValue::ByteArray(bytes) => String::from_utf8_lossy(bytes.as_slice()).into_owned(),
        AMQPValue::Boolean(is) => is.to_string(),
        AMQPValue::ShortShortInt(n) => n.to_string(),
        AMQPValue::ShortShortUInt(n) => n.to_string(),
        AMQPValue::ShortInt(n) => n.to_string(),
        AMQPValue::ShortUInt(n) => n.to_string(),
        AMQPValue::LongInt(n) => n.to_string(),
        AMQPValue::LongUInt(n) => n.to_string(),
        AMQPValue::LongLongInt(n) => n.to_string(),
        AMQPValue::Timestamp(seconds) => {
            let time = OffsetDateTime::from_unix_timestamp(i64::try_from(*seconds).ok()?).ok()?;
            time.format(&Rfc3339).ok()?
        }
        AMQPValue::Float(_)
        | AMQPValue::Double(_)
        | AMQPValue::DecimalValue(_)
        | AMQPValue::FieldArray(_)
        | AMQPValue::FieldTable(_)
        | AMQPValue::Void => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_in_either_spelling_and_of_any_plain_type() {
        let mut table = FieldTable::default();
        let values = [
            ("cloudEvents:id", text("é")),
            ("cloudEvents_type", AMQPValue::ShortString("t".into())),
            ("cloudEvents:sequence", AMQPValue::LongLongInt(7)),
            ("cloudEvents:time", AMQPValue::Timestamp(0)),
            ("cloudEvents:list", AMQPValue::FieldArray(Vec::new().into())),
            ("x-death", text("not ours")),
        ];
        for (name, value) in values {
            table.insert(name.into(), value);
        }
        let read = attributes(Some(&table));
        let expected = [
            ("id", "é"),
            ("sequence", "7"),
            ("time", "1970-01-01T00:00:00Z"),
            ("type", "t"),
        ];
        let expected: BTreeMap<String, String> = expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        assert_eq!(read, expected);
        assert_eq!(fields(Some(&table)), Fields::from_iter([("x-death", "not ours")]));
    }

    #[test]
    fn a_name_that_is_too_long_is_an_error() {
        assert!(short_string("x".repeat(255)).is_ok());
        assert!(short_string("x".repeat(256)).is_err());
    }
}
