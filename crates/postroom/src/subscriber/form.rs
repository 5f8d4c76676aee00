//! A form of messages that is no CloudEvent: how events are written, and read back.

use crate::broker::Message;
use crate::error::{BoxError, Result};
use crate::event::Event;
use crate::event::envelope::{Envelope, Mode};
use crate::event::writer::{Writer, Written};
use crate::subscriber::reader::Reader;

/// The form of messages on a broker, by the specification of an application that knows no CloudEvents.
///
/// ```
/// use postroom::envelope::SOURCE;
/// use postroom::{Envelope, Event, Form, Message, Result, Written};
/// use serde::{Deserialize, Serialize};
/// use serde_json::value::RawValue;
///
/// #[derive(Serialize, Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// struct Body {
///     event_id: String,
///     event_type: String,
///     payload: Box<RawValue>,
/// }
///
/// fn write(event: &Event) -> Result<Written> {
///     Written::json(&Body {
///         event_id: event.id.to_string(),
///         event_type: event.event_type.clone(),
///         payload: event.payload.clone(),
///     })
/// }
///
/// fn read(message: &Message) -> Result<Option<Envelope>, serde_json::Error> {
///     let body: Body = serde_json::from_slice(&message.body)?;
///     let envelope = Envelope::new(body.event_type, body.payload);
///     Ok(Some(envelope.attribute("id", body.event_id).attribute("source", SOURCE)))
/// }
///
/// let form = Form::new(write, read);
/// # drop(form);
/// ```
///
/// Parts of an event that the body has no place for come back from a header ([`Writer`]) if the reader gives the same `id`. A
/// message that another program sends again without that header is the same event only if the reader also gives its `source`:
/// [`SOURCE`](crate::envelope::SOURCE) if events of the application have none of their own.
#[derive(Clone, Debug)]
pub struct Form {
    /// Writes messages.
    pub writer: Writer,
    /// Reads them.
    pub reader: Reader,
}

impl Form {
    /// A form by two functions. An event that cannot be written, and a message that cannot be read, become dead letters at once.
    pub fn new<W, R, WE, RE>(write: W, read: R) -> Self
    where
        W: Fn(&Event) -> Result<Written, WE> + Send + Sync + 'static,
        R: Fn(&Message) -> Result<Option<Envelope>, RE> + Send + Sync + 'static,
        WE: Into<BoxError>,
        RE: Into<BoxError>,
    {
        Self {
            writer: Writer::new(write),
            reader: Reader::new(read),
        }
    }

    /// The mode in which a publisher writes this form.
    pub fn mode(&self) -> Mode {
        Mode::Own(self.writer.clone())
    }
}
