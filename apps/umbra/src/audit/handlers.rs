//! `umbra-audit`: writes every event of the catalogue once, with its sensitive fields masked.

use std::collections::BTreeMap;

use postroom::{Event, Result, Tx};
use serde_json::value::{RawValue, to_raw_value};

use super::domain::{MASK, is_sensitive};
use super::tables;

pub(crate) async fn record(tx: &mut Tx, event: &Event) -> Result<()> {
    tables::record(tx, event, &masked(event)?).await
}

/// The payload as JSON text, with sensitive fields masked. Every payload is an object.
pub(crate) fn masked(event: &Event) -> Result<String> {
    let mut fields: BTreeMap<String, Box<RawValue>> = event.decode()?;
    for (name, value) in &mut fields {
        if is_sensitive(&event.event_type, name) {
            *value = to_raw_value(MASK)?;
        }
    }
    Ok(serde_json::to_string(&fields)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::events::{UserRegistered, UserSessionCreated};

    #[test]
    fn u_09_only_what_is_sensitive_is_masked() {
        let check = |event: Event, expected: &str| assert_eq!(masked(&event).unwrap(), expected);
        let created = UserSessionCreated {
            user_id: "u".into(),
            session_id: "secret".into(),
        };
        check(Event::of(&created).unwrap(), r#"{"session_id":"***","user_id":"u"}"#);
        let registered = UserRegistered {
            user_id: "u".into(),
            discord_user_id: "7".into(),
        };
        check(
            Event::of(&registered).unwrap(),
            r#"{"discord_user_id":"7","user_id":"u"}"#,
        );
    }
}
