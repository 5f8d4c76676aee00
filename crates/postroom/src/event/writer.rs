//! A writer: makes messages that are no CloudEvents of events.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde::Serialize;

use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::event::Event;
use crate::event::entry::Entry;
use crate::event::envelope::{JSON, attributes};

/// The header that keeps the CloudEvents attributes of an event whose message is no CloudEvent, as a JSON object of texts.
pub(crate) const CONTEXT: &str = "postroom-attributes";
/// Attributes that say nothing about an event.
const FORMAL: [&str; 2] = ["specversion", "datacontenttype"];

type Write = dyn Fn(&Event) -> Result<Written, BoxError> + Send + Sync;

/// A function that makes messages of events, in the form of a module's own specification. Every transport sends them with a
/// header `postroom-attributes`, which has the event's CloudEvents attributes as a JSON object: source, key, trace and cause survive
/// also in a form that has no place for them.
///
/// ```
/// use postroom::{Event, Writer, Written};
/// use serde_json::json;
///
/// fn write(event: &Event) -> postroom::Result<Written> {
///     Written::json(&json!({ "eventId": event.id, "eventType": event.event_type, "payload": event.payload }))
/// }
///
/// let mode = postroom::Mode::Own(Writer::new(write));
/// # drop(mode);
/// ```
#[derive(Clone)]
pub struct Writer(Arc<Write>);

/// A message as a writer has made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The media type of the body. One of CloudEvents would say that the body is an envelope.
    pub content_type: String,
    /// Headers, on Redis fields. Names must not begin with `ce_` or `cloudEvents`.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Written {
    /// A message whose body is this value in JSON.
    pub fn json(value: &impl Serialize) -> Result<Self> {
        let body = serde_json::to_vec(value)
            .map_err(|source| Error::caused(ErrorKind::Invalid, "write a message in JSON", source))?;
        Ok(Self {
            content_type: JSON.to_owned(),
            headers: Vec::new(),
            body,
        })
    }

    /// The same with one more header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }
}

impl Writer {
    /// A writer by a function. An event that it fails on is rejected: it becomes a dead letter at once.
    pub fn new<F, E>(write: F) -> Self
    where
        F: Fn(&Event) -> Result<Written, E> + Send + Sync + 'static,
        E: Into<BoxError>,
    {
        Self(Arc::new(move |event| write(event).map_err(Into::into)))
    }

    /// The message of an entry, with the header that keeps its attributes. A writer that panics has failed.
    pub fn write(&self, entry: &Entry) -> Result<Written> {
        let written = catch_unwind(AssertUnwindSafe(|| (self.0)(&entry.event)))
            .map_err(|_panic| Error::new(ErrorKind::Failed, "the writer of the message panicked"))?;
        let written = written.map_err(failed)?;
        let attributes: BTreeMap<&str, _> = attributes(entry).filter(|(name, _)| !FORMAL.contains(name)).collect();
        let context = serde_json::to_string(&attributes).unwrap_or_default(); // texts: this cannot fail
        Ok(written.header(CONTEXT, context))
    }
}

fn failed(error: BoxError) -> Error {
    match error.downcast::<Error>() {
        Ok(own) => *own,
        Err(other) => Error::caused(ErrorKind::Invalid, "the writer of the message failed", other),
    }
}

/// Writers are the same if they are clones of one.
impl PartialEq for Writer {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Writer {}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Writer")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::event::parse_payload;

    fn entry(event_type: &str) -> Entry {
        let event = Event::new(event_type, "post", "7", parse_payload("{}").unwrap()).unwrap();
        Entry {
            id: 3,
            event: event.header("traceparent", "00-1-2-01"),
            created_at: crate::clock::now(),
        }
    }

    fn write(event: &Event) -> Result<Written> {
        match event.event_type.as_str() {
            "panic" => unreachable!("a writer that panics"),
            "odd" => Err(Error::invalid("odd")),
            name => Written::json(&json!({ "eventType": name })),
        }
    }

    #[test]
    fn a_message_of_an_own_form_has_its_body_and_the_attributes_in_a_header() {
        let entry = entry("a.b");
        let written = Writer::new(write).write(&entry).unwrap();
        assert_eq!(
            (written.content_type.as_str(), written.body.as_slice()),
            (JSON, br#"{"eventType":"a.b"}"#.as_slice())
        );
        let [(name, context)] = written.headers.as_slice() else {
            unreachable!("{:?}", written.headers)
        };
        let context: Value = serde_json::from_str(context).unwrap();
        assert_eq!(name, CONTEXT);
        assert_eq!(context["id"], entry.event.id.to_string());
        assert_eq!(context["sequence"], "0000000000000000003");
        assert_eq!(context["traceparent"], "00-1-2-01");
        assert_eq!(context.get("specversion"), None);
    }

    #[test]
    fn a_writer_that_fails_or_panics_fails_only_its_message() {
        let says = |event_type: &str| Writer::new(write).write(&entry(event_type)).unwrap_err().report();
        assert_eq!(says("odd"), "odd");
        assert!(says("panic").contains("the writer of the message panicked"));
    }
}
