//! `[modules.activity.client_events]`: the events that clients may send.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::catalogue::Catalogue;

/// The properties of each version of each event: `"page.viewed" = { v1 = ["path", "referrer"] }`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct ClientEvents(BTreeMap<String, BTreeMap<String, Versions>>);

/// The properties of one version. A table here is a name with dots and without quotes, which TOML takes for nested tables.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(
    untagged,
    expecting = "must be a list of properties; a name with dots has quotes: \"page.viewed\" = { v1 = [\"path\"] }"
)]
enum Versions {
    Properties(BTreeSet<String>),
}

impl ClientEvents {
    /// The catalogue with these events too, and every mistake in them: the key, and what is wrong.
    pub(crate) fn add_to(&self, mut catalogue: Catalogue) -> (Catalogue, Vec<(String, String)>) {
        let mut mistakes = Vec::new();
        for (name, versions) in &self.0 {
            let key = format!("client_events.{name:?}");
            if versions.is_empty() {
                mistakes.push((key.clone(), "has no version; write { v1 = [\"path\"] }".to_owned()));
            }
            for (version, Versions::Properties(properties)) in versions {
                match catalogue.clone().event(name, version, properties) {
                    Ok(more) => catalogue = more,
                    Err(error) => mistakes.push((key.clone(), error.report())),
                }
            }
        }
        (catalogue, mistakes)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::catalogue::Listed;

    fn read(section: Value) -> Result<ClientEvents, String> {
        serde_json::from_value(section).map_err(|error| error.to_string())
    }

    #[test]
    fn listed_events_are_in_the_catalogue_beside_those_of_the_code() {
        let code = Catalogue::default().event("page.viewed", "v1", ["path"]).unwrap();
        let events = json!({ "page.viewed": { "v2": ["path", "referrer"] }, "app.opened": { "v1": [] } });
        let (catalogue, mistakes) = read(events).unwrap().add_to(code);
        assert!(mistakes.is_empty(), "{mistakes:?}");
        let properties = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(
            catalogue.look_up("page.viewed", "v1"),
            Listed::Yes(&properties(&["path"]))
        );
        assert_eq!(
            catalogue.look_up("page.viewed", "v2"),
            Listed::Yes(&properties(&["path", "referrer"]))
        );
        assert_eq!(catalogue.look_up("app.opened", "v1"), Listed::Yes(&properties(&[])));
    }

    #[test]
    fn a_mistake_names_the_event() {
        let mistakes = |section: Value| {
            let code = Catalogue::default().event("page.viewed", "v1", ["path"]).unwrap();
            read(section).unwrap().add_to(code).1
        };
        let found = mistakes(json!({ "page.viewed": { "v1": ["path"] }, "a": {}, "b": { "": [] } }));
        let wanted = [
            ("client_events.\"a\"", "has no version; write { v1 = [\"path\"] }"),
            ("client_events.\"b\"", "eventVersion is empty"),
            (
                "client_events.\"page.viewed\"",
                "the client event page.viewed v1 is listed twice; remove one",
            ),
        ];
        assert_eq!(found, wanted.map(|(key, says)| (key.to_owned(), says.to_owned())));
        let nested = read(json!({ "page": { "viewed": { "v1": ["path"] } } })).unwrap_err();
        assert!(nested.contains("a name with dots has quotes"), "{nested}");
    }
}
