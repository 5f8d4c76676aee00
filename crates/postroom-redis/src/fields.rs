//! How an event is spelled in an entry of a stream: a field per CloudEvents attribute beside `data`, or all in `data`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use postroom::envelope::{self, CLOUDEVENTS_JSON, JSON};
use postroom::{Entry, Envelope, Letter, Mode};
use redis::Cmd;

/// Attributes stand in fields of this prefix.
const PREFIX: &str = "ce_";
/// The attribute that is the media type of the body, and the field that holds it.
const DATA_CONTENT_TYPE: &str = "datacontenttype";
const CONTENT_TYPE: &str = "content-type";
const DATA: &str = "data";
/// A script cannot pass on arbitrarily many fields: an event with more attributes goes in structured mode.
const ATTRIBUTES_MAX: usize = 1_000;

/// Fields and values of an entry of a stream.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    /// Without their prefix.
    attributes: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    content_type: &'a str,
    data: Cow<'a, [u8]>,
    /// What else there is to say.
    about: Vec<(&'static str, Cow<'a, str>)>,
}

impl<'a> Fields<'a> {
    fn new(
        attributes: impl Iterator<Item = (&'a str, Cow<'a, str>)>,
        content_type: &'a str,
        data: impl Into<Cow<'a, [u8]>>,
    ) -> Self {
        let beside = attributes.filter(|(name, _)| *name != DATA_CONTENT_TYPE);
        let beside = beside.map(|(name, value)| (name.into(), value));
        Self {
            attributes: beside.take(ATTRIBUTES_MAX).collect(),
            content_type,
            data: data.into(),
            about: Vec::new(),
        }
    }

    /// How many fields there are.
    pub(crate) fn len(&self) -> usize {
        self.attributes.len() + 2 + self.about.len()
    }

    /// About how many bytes they have.
    pub(crate) fn bytes(&self) -> usize {
        let attributes = self.attributes.iter().map(|(name, value)| name.len() + value.len());
        attributes.sum::<usize>() + self.len() * PREFIX.len() + CONTENT_TYPE.len() * 2 + self.data.len()
    }

    /// Adds names and values in turn to a command.
    pub(crate) fn write(&self, command: &mut Cmd) {
        let mut field = PREFIX.to_owned();
        for (name, value) in &self.attributes {
            field.truncate(PREFIX.len());
            field.push_str(name);
            command.arg(&field).arg(value.as_ref());
        }
        command.arg(CONTENT_TYPE).arg(self.content_type);
        command.arg(DATA).arg(self.data.as_ref());
        for (name, value) in &self.about {
            command.arg(*name).arg(value.as_ref());
        }
    }
}

/// What is written for an entry of the outbox.
pub(crate) fn of_entry(entry: &Entry, mode: Mode) -> Fields<'_> {
    if mode == Mode::Binary {
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

/// What is written for a dead letter.
pub(crate) fn of_letter(letter: &Letter) -> Fields<'_> {
    let content_type = letter.content_type.as_deref().unwrap_or_default();
    let about = vec![
        ("postroom-origin-topic", letter.origin.topic.as_str().into()),
        ("postroom-origin-place", letter.origin.place.as_str().into()),
        ("postroom-group", letter.group.as_str().into()),
        ("postroom-error", letter.error.as_str().into()),
        ("postroom-attempts", letter.attempts.to_string().into()),
    ];
    let attributes = letter.attributes.iter();
    let attributes = attributes.map(|(name, value)| (name.as_str(), value.into()));
    let fields = Fields::new(attributes, content_type, letter.body.as_slice());
    Fields { about, ..fields }
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
