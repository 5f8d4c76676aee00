//! The firewall for events that come over HTTP or from a broker, before anything of them is recorded.

use postroom::{Error, Event, Headers, Result, Screen, parse_payload};
use postroom_pii::{Cleaned, Firewall};
use serde::Deserialize as _;
use serde_json::{Map, Value};

use super::{Privacy, pseudonym};
use crate::event::ActivityEvent;

/// The header with the id that an event has outside.
const FOREIGN_ID: &str = "ceid";
/// The names of parts of a message that have no name of their own.
const BODY: &str = "data";
const CONTENT_TYPE: &str = "content-type";

impl Screen for Privacy {
    fn event(&self, event: &mut Event) -> Result<()> {
        let firewall = self.firewall()?;
        for (field, text) in [("type", &event.event_type), ("source", &event.source)] {
            refuse_personal_data(firewall, field, text)?;
        }
        let payload: Value = event.decode()?;
        let payload = match ActivityEvent::deserialize(&payload) {
            Ok(activity) => serde_json::to_value(self.clean(activity)?)?,
            // The handler reports the mistake. Its error may repeat values, so they are cleaned here.
            Err(_no_activity) => self.counted(firewall.clean(payload)),
        };
        event.payload = parse_payload(&payload.to_string())?;
        event.aggregate_id = id(firewall, &event.aggregate_id);
        event.aggregate_type = self.counted(firewall.clean_text(&event.aggregate_type));
        event.headers = self.headers(firewall, std::mem::take(&mut event.headers));
        Ok(())
    }

    fn raw(&self, name: &str, value: &[u8]) -> Vec<u8> {
        let Ok(firewall) = self.firewall() else {
            return Vec::new();
        };
        let text = String::from_utf8_lossy(value);
        if name == BODY || name == CONTENT_TYPE {
            let is_json = text.trim_start().starts_with(['{', '[', '"']);
            return match is_json {
                true => self.counted(firewall.clean_text(&text)).into_bytes(),
                false => bytes(self.counted(firewall.clean(Value::String(text.into_owned())))),
            };
        }
        // The firewall judges a value by its key, so the value is cleaned together with its key. A removed field becomes an empty
        // value.
        let field = Map::from_iter([(name.to_owned(), Value::String(text.into_owned()))]);
        let cleaned = self.counted(firewall.clean(Value::Object(field)));
        let value = cleaned.as_object().and_then(|fields| fields.values().next());
        value.map_or_else(Vec::new, |value| bytes(value.clone()))
    }

    fn said(&self, text: &str) -> String {
        self.firewall()
            .map_or_else(|_closed| String::new(), |firewall| firewall.clean_text(text).value)
    }
}

impl Privacy {
    /// A header whose name has personal data in it is dropped.
    fn headers(&self, firewall: &Firewall, mut headers: Headers) -> Headers {
        let foreign_id = headers.remove(FOREIGN_ID).map(|foreign| id(firewall, &foreign));
        let names: Vec<String> = headers.keys().cloned().collect();
        let document = headers.into_iter().map(|(name, value)| (name, Value::String(value)));
        let cleaned = self.counted(firewall.clean(Value::Object(document.collect())));
        let value = |name: &str| cleaned.get(name).and_then(Value::as_str).map(str::to_owned);
        let kept = names
            .into_iter()
            .filter_map(|name| value(&name).map(|value| (name, value)));
        let foreign_id = foreign_id.map(|foreign| (FOREIGN_ID.to_owned(), foreign));
        kept.chain(foreign_id).collect()
    }

    fn counted<T>(&self, Cleaned { value, removed }: Cleaned<T>) -> T {
        self.count(&removed);
        value
    }
}

/// Refuses an event with personal data in this field. The type and the source identify an event, so they cannot be cleaned.
fn refuse_personal_data(firewall: &Firewall, field: &str, text: &str) -> Result<()> {
    let removed = firewall.clean_text(text).removed;
    let Some((kind, _)) = removed.iter().next() else {
        return Ok(());
    };
    Err(Error::invalid(format!(
        "the {field} of the event contains personal data or a secret ({kind}); remove it"
    )))
}

/// The id, or its hash if the id has personal data in it.
fn id(firewall: &Firewall, text: &str) -> String {
    match firewall.clean_text(text).removed.is_empty() {
        true => text.to_owned(),
        false => pseudonym(firewall, text),
    }
}

fn bytes(cleaned: Value) -> Vec<u8> {
    match cleaned {
        Value::String(text) => text.into_bytes(),
        Value::Null => Vec::new(),
        other => other.to_string().into_bytes(),
    }
}
