//! A reader: makes events of messages that are no CloudEvents.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::broker::Message;
use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::event::Event;
use crate::event::envelope::Envelope;
use crate::event::writer::CONTEXT;

type Read = dyn Fn(&Message) -> Result<Option<Envelope>, BoxError> + Send + Sync;

/// The function of a subscriber that reads messages which are no CloudEvents.
#[derive(Clone)]
pub struct Reader(Arc<Read>);

impl Reader {
    /// A reader by a function.
    pub fn new<F, E>(read: F) -> Self
    where
        F: Fn(&Message) -> Result<Option<Envelope>, E> + Send + Sync + 'static,
        E: Into<BoxError>,
    {
        Self(Arc::new(move |message| read(message).map_err(Into::into)))
    }

    /// The event in a message that is no CloudEvent, with what the message's sender has kept of it in a header; `None` if the reader
    /// ignores the message.
    pub fn event(&self, message: &Message) -> Result<Option<Event>> {
        let place = message.origin.to_string();
        let context = message.fields.text(CONTEXT);
        let complete = |envelope: Envelope| envelope.in_context(context).completed(&message.origin.topic, &place);
        let envelope = self.read(message)?.map(complete);
        envelope.map(Envelope::into_event).transpose()
    }

    /// Reads a message. A reader that panics has failed. A message without some of its fields is not read.
    fn read(&self, message: &Message) -> Result<Option<Envelope>> {
        if message.fields.left_out() > 0 {
            return Err(Error::invalid(format!(
                "the message has {} fields too many; the limits are 1,000 fields and 1,000,000 bytes of names and values",
                message.fields.left_out()
            )));
        }
        match catch_unwind(AssertUnwindSafe(|| (self.0)(message))) {
            Ok(read) => read.map_err(failed),
            // The text of a panic can quote the message, which is not cleaned yet.
            Err(_panic) => Err(Error::new(ErrorKind::Failed, "the reader panicked")),
        }
    }
}

fn failed(error: BoxError) -> Error {
    match error.downcast::<Error>() {
        Ok(own) => *own,
        Err(other) => Error::caused(ErrorKind::Invalid, "the reader failed", other),
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reader")
    }
}
