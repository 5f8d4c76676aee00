//! How an event is spelled in an entry of a stream: a field per CloudEvents attribute beside `data`, or all in `data`.

use std::collections::BTreeMap;

use postroom::envelope::{CLOUDEVENTS_JSON, JSON};
use postroom::{Entry, Envelope, Letter, Mode};

/// Attributes stand in fields of this prefix.
const PREFIX: &str = "ce_";
/// The attribute that is the media type of the body, and the field that holds it.
const DATA_CONTENT_TYPE: &str = "datacontenttype";
const CONTENT_TYPE: &str = "content-type";
const DATA: &str = "data";
/// A script cannot pass on arbitrarily many fields: an event with more attributes goes in structured mode.
const ATTRIBUTES_MAX: usize = 1_000;

/// Fields and values of an entry of a stream.
pub(crate) type Fields = Vec<(String, Vec<u8>)>;

/// What is written for an entry of the outbox.
pub(crate) fn of_entry(entry: &Entry, mode: Mode) -> Fields {
    let envelope = Envelope::of(entry);
    match mode {
        Mode::Binary if envelope.attributes.len() <= ATTRIBUTES_MAX => {
            let data = String::from(Box::<str>::from(envelope.data));
            of_parts(envelope.attributes, JSON, data.into_bytes())
        }
        Mode::Binary | Mode::Structured => of_parts(BTreeMap::new(), CLOUDEVENTS_JSON, envelope.to_structured()),
    }
}

/// What is written for a dead letter.
pub(crate) fn of_letter(letter: &Letter) -> Fields {
    let content_type = letter.content_type.as_deref().unwrap_or_default();
    let mut fields = of_parts(letter.attributes.clone(), content_type, letter.body.clone());
    let about = [
        ("origin-topic", letter.origin.topic.clone()),
        ("origin-place", letter.origin.place.clone()),
        ("group", letter.group.clone()),
        ("error", letter.error.clone()),
        ("attempts", letter.attempts.to_string()),
    ];
    fields.extend(about.map(|(name, value)| (format!("postroom-{name}"), value.into_bytes())));
    fields
}

fn of_parts(attributes: BTreeMap<String, String>, content_type: &str, data: Vec<u8>) -> Fields {
    let beside = attributes.into_iter().filter(|(name, _)| name != DATA_CONTENT_TYPE);
    let mut fields: Fields = beside
        .take(ATTRIBUTES_MAX)
        .map(|(name, value)| (format!("{PREFIX}{name}"), value.into_bytes()))
        .collect();
    fields.push((CONTENT_TYPE.to_owned(), content_type.as_bytes().to_vec()));
    fields.push((DATA.to_owned(), data));
    fields
}

/// What was read: the media type, the attributes, the body. Fields of other names are nobody's.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) content_type: Option<String>,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Content {
    /// Reads fields and values in turn, as the server sends them.
    pub(crate) fn read(flat: Vec<Vec<u8>>) -> Self {
        let mut content = Self::default();
        let mut flat = flat.into_iter();
        while let (Some(name), Some(value)) = (flat.next(), flat.next()) {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            match name.as_slice() {
                b"data" => content.body = value,
                b"content-type" => content.content_type = Some(text(&value)),
                name => {
                    let attribute = name.strip_prefix(PREFIX.as_bytes()).map(text);
                    content.attributes.extend(attribute.map(|name| (name, text(&value))));
                }
            }
        }
        if let (Some(kind), false) = (&content.content_type, content.attributes.is_empty()) {
            let kind = kind.clone();
            content.attributes.entry(DATA_CONTENT_TYPE.to_owned()).or_insert(kind);
        }
        content
    }
}
