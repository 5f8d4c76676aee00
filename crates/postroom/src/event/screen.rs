//! A screen: removes what must not be stored from what comes from outside.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::event::envelope::FOREIGN_ID;

/// Removes what must not be stored from events and messages that come from outside, before anything stores or copies them.
///
/// A screen gives the same result for the same event each time: an event that is sent again is compared with the one that was
/// recorded. It may get an event that it has cleaned before.
///
/// ```
/// use postroom::{Event, Result, Screen, parse_payload};
/// use serde_json::Value;
///
/// /// Keeps only ids.
/// struct OnlyIds;
///
/// impl Screen for OnlyIds {
///     fn event(&self, event: &mut Event) -> Result<()> {
///         let mut payload: Value = event.decode()?;
///         if let Some(fields) = payload.as_object_mut() {
///             fields.retain(|name, _| name.ends_with("Id"));
///         }
///         event.payload = parse_payload(&payload.to_string())?;
///         Ok(())
///     }
///
///     fn raw(&self, name: &str, value: &[u8]) -> Vec<u8> {
///         match name.ends_with("Id") {
///             true => value.to_vec(),
///             false => b"(removed)".to_vec(),
///         }
///     }
/// }
///
/// let payload = parse_payload(r#"{"reviewId":1,"text":"a secret"}"#)?;
/// let mut event = Event::new("shop.review.created.v1", "review", "1", payload)?;
/// (&OnlyIds as &dyn Screen).clean(&mut event)?;
/// assert_eq!(event.payload.get(), r#"{"reviewId":1}"#);
/// # Ok::<(), postroom::Error>(())
/// ```
pub trait Screen: Send + Sync {
    /// Cleans an event: its payload, headers and key. Its id, type and source stay. The header `ceid`, the id of an event that has
    /// another one outside, can be replaced and not removed. An error refuses the event; its text must not repeat what the screen
    /// removes.
    fn event(&self, event: &mut Event) -> Result<()>;

    /// Cleans one part of a message that is no event: a field or an attribute by its name, the body by the name `data`, its media
    /// type by the name `content-type`.
    fn raw(&self, name: &str, value: &[u8]) -> Vec<u8>;

    /// Cleans what is said about a message that is no event: the name of a field or an attribute, or the reason why it is none, which
    /// may repeat a value. Unless a screen says otherwise, it stays.
    fn said(&self, text: &str) -> String {
        text.to_owned()
    }
}

impl dyn Screen + '_ {
    /// Cleans an event, and checks that it is still the same event and within every limit.
    pub fn clean(&self, event: &mut Event) -> Result<()> {
        let identity = |event: &Event| (event.id, event.event_type.clone(), event.source.clone());
        let before = identity(event);
        let foreign_id = event.headers.get(FOREIGN_ID).cloned();
        guarded(|| self.event(event))??;
        if identity(event) != before {
            let (id, event_type, _) = before;
            return Err(Error::invalid(format!(
                "the screen has changed the id, type or source of the event {id} of type {event_type}; it must keep them"
            )));
        }
        if let Some(foreign_id) = foreign_id {
            event.headers.entry(FOREIGN_ID.to_owned()).or_insert(foreign_id);
        }
        event.check()
    }

    /// Cleans a part of a message that is no event. Nothing is left of it if the screen panics.
    pub(crate) fn clean_raw(&self, name: &str, value: &[u8]) -> Vec<u8> {
        guarded(|| self.raw(name, value)).unwrap_or_default()
    }

    /// The same for what is said about it.
    pub(crate) fn clean_said(&self, text: &str) -> String {
        guarded(|| self.said(text)).unwrap_or_default()
    }
}

impl fmt::Debug for dyn Screen + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Screen")
    }
}

/// Calls a screen. The text of a panic is not repeated: it may contain what the screen removes.
fn guarded<T>(call: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|_text| Error::new(ErrorKind::Invalid, "the screen panicked"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::parse_payload;

    struct Change(fn(&mut Event));

    impl Screen for Change {
        fn event(&self, event: &mut Event) -> Result<()> {
            (self.0)(event);
            Ok(())
        }

        fn raw(&self, _name: &str, _value: &[u8]) -> Vec<u8> {
            unreachable!("a secret")
        }
    }

    fn clean(change: fn(&mut Event)) -> Result<Event> {
        let event = Event::new("shop.order.paid.v1", "order", "7", parse_payload("1")?)?;
        let mut event = event.source("/till").header(FOREIGN_ID, "A-1").header("mail", "a@b");
        let screen: &dyn Screen = &Change(change);
        screen.clean(&mut event)?;
        Ok(event)
    }

    #[test]
    fn a_cleaned_event_keeps_its_identity() {
        let cleaned = clean(|event| event.headers.clear()).unwrap();
        assert_eq!(cleaned.headers.get(FOREIGN_ID).map(String::as_str), Some("A-1"));
        assert_eq!(cleaned.headers.len(), 1);
        let replaced = clean(|event| event.headers = [(FOREIGN_ID.to_owned(), "x".to_owned())].into()).unwrap();
        assert_eq!(replaced.headers.get(FOREIGN_ID).map(String::as_str), Some("x"));
        for change in [
            |event: &mut Event| event.id = uuid::Uuid::nil(),
            |event: &mut Event| event.event_type = "other".to_owned(),
            |event: &mut Event| event.source.clear(),
        ] {
            let error = clean(change).unwrap_err().to_string();
            assert!(error.contains("must keep them"), "{error}");
        }
        assert!(
            clean(|event| event.aggregate_id.clear()).is_err(),
            "the limits are checked"
        );
    }

    #[test]
    fn a_screen_that_panics_lets_nothing_through() {
        let error = clean(|_event| unreachable!("a secret")).unwrap_err();
        assert_eq!(error.report(), "the screen panicked");
        let screen: &dyn Screen = &Change(|_event| ());
        assert!(screen.clean_raw("data", b"a secret").is_empty());
        assert_eq!(screen.clean_said("a reason"), "a reason");
    }
}
