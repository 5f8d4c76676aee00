//! Upcasters: from an old version of an event to the newest, so that handlers know one version only.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;

/// Turns the payload of one event type into that of another, usually the next version.
///
/// ```
/// use postroom::Upcaster;
/// use serde_json::{Value, json};
///
/// // Version 2 counts in cents.
/// let upcaster = Upcaster::new("shop.order.paid.v1", "shop.order.paid.v2", |old: Value| {
///     json!({ "order_id": old["order_id"], "amount_cents": old["amount"].as_i64().unwrap_or(0) * 100 })
/// });
/// # let _ = upcaster;
/// ```
#[derive(Clone)]
pub struct Upcaster {
    from: String,
    to: String,
    change: Arc<dyn Fn(Value) -> Value + Send + Sync>,
}

impl Upcaster {
    /// An upcaster from one type to another.
    pub fn new(
        from: impl Into<String>,
        to: impl Into<String>,
        change: impl Fn(Value) -> Value + Send + Sync + 'static,
    ) -> Self {
        Self {
            from: from.into(),
            to: to.into(),
            change: Arc::new(change),
        }
    }

    /// The type it takes.
    pub fn from(&self) -> &str {
        &self.from
    }

    /// The type it makes of it.
    pub fn to(&self) -> &str {
        &self.to
    }

    fn apply(&self, event: &Event) -> Result<Event> {
        let payload = (self.change)(event.decode()?);
        let payload = serde_json::value::to_raw_value(&payload).map_err(|source| {
            Error::caused(
                ErrorKind::Invalid,
                format!("turn {} into {}", self.from, self.to),
                source,
            )
        })?;
        Ok(Event {
            event_type: self.to.clone(),
            payload,
            ..event.clone()
        })
    }
}

impl fmt::Debug for Upcaster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.from, self.to)
    }
}

/// The event in its newest version: from one upcaster to the next, each at most once.
pub(crate) fn upcast<'a>(upcasters: &[Upcaster], event: &'a Event) -> Result<Cow<'a, Event>> {
    let mut newest = Cow::Borrowed(event);
    for _step in upcasters {
        let Some(next) = upcasters.iter().find(|upcaster| upcaster.from == newest.event_type) else {
            break;
        };
        newest = Cow::Owned(next.apply(&newest)?);
    }
    Ok(newest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_old_event_becomes_the_newest_version() {
        let upcasters = [
            Upcaster::new(
                "a.v2",
                "a.v3",
                |old| json!({ "cents": old["cents"], "currency": "KRW" }),
            ),
            Upcaster::new(
                "a.v1",
                "a.v2",
                |old| json!({ "cents": old["amount"].as_i64().unwrap_or(0) * 100 }),
            ),
        ];
        let check = |kind: &str, payload: &str, expected: (&str, &str)| {
            let payload = crate::event::parse_payload(payload).unwrap();
            let event = Event::new(kind, "a", "1", payload).unwrap();
            let newest = upcast(&upcasters, &event).unwrap();
            assert_eq!((newest.event_type.as_str(), newest.payload.get()), expected);
            assert_eq!(newest.id, event.id, "it is still the same event");
        };
        check("a.v1", r#"{"amount":5}"#, ("a.v3", r#"{"cents":500,"currency":"KRW"}"#));
        check("a.v2", r#"{"cents":7}"#, ("a.v3", r#"{"cents":7,"currency":"KRW"}"#));
        check("a.v3", "{}", ("a.v3", "{}"));
        check("b.v1", "1", ("b.v1", "1"));
    }

    #[test]
    fn a_circle_of_upcasters_ends() {
        let circle = [Upcaster::new("a", "b", |old| old), Upcaster::new("b", "a", |old| old)];
        let event = Event::new("a", "k", "1", crate::event::parse_payload("1").unwrap()).unwrap();
        assert_eq!(upcast(&circle, &event).unwrap().event_type, "a");
    }
}
