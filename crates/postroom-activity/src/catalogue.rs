//! The events that clients may send.

use std::collections::{BTreeMap, BTreeSet};

use postroom::{Error, Result};

use crate::event::ActivityEvent;

/// The events that clients may send, with their versions and properties. A client can send nothing else; by default it can send
/// nothing.
///
/// ```
/// use postroom_activity::Catalogue;
///
/// # fn main() -> postroom::Result<()> {
/// let catalogue = Catalogue::default()
///     .event("page.viewed", "v1", ["path", "referrer"])?
///     .event("button.clicked", "v1", ["button"])?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    /// The properties of each version of each event.
    events: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
}

/// The entry of one event in the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listed<'a> {
    /// It has these properties.
    Yes(&'a BTreeSet<String>),
    /// There are only other versions of it.
    OtherVersion,
    /// There is no event of this name.
    No,
}

impl Catalogue {
    /// Adds an event with its properties. The same name and version twice is an error, and so is a name that cannot be stored.
    pub fn event<P: Into<String>>(
        mut self,
        name: &str,
        version: &str,
        properties: impl IntoIterator<Item = P>,
    ) -> Result<Self> {
        ActivityEvent::new(name, version).check()?;
        let versions = self.events.entry(name.to_owned()).or_default();
        let properties = properties.into_iter().map(Into::into).collect();
        match versions.insert(version.to_owned(), properties) {
            None => Ok(self),
            Some(_) => Err(Error::invalid(format!(
                "the client event {name} {version} is listed twice; remove one"
            ))),
        }
    }

    pub(crate) fn look_up(&self, name: &str, version: &str) -> Listed<'_> {
        let versions = self.events.get(name);
        match versions.map(|versions| versions.get(version)) {
            Some(Some(properties)) => Listed::Yes(properties),
            Some(None) => Listed::OtherVersion,
            None => Listed::No,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_found_by_name_and_version() {
        let catalogue = Catalogue::default().event("page.viewed", "v1", ["path"]).unwrap();
        assert_eq!(
            catalogue.look_up("page.viewed", "v1"),
            Listed::Yes(&["path".to_owned()].into())
        );
        assert_eq!(catalogue.look_up("page.viewed", "v2"), Listed::OtherVersion);
        assert_eq!(catalogue.look_up("page", "v1"), Listed::No);
    }

    #[test]
    fn a_mistake_in_the_list_is_an_error() {
        let catalogue = Catalogue::default().event("page.viewed", "v1", ["path"]).unwrap();
        let twice = catalogue.clone().event("page.viewed", "v1", ["path"]).unwrap_err();
        assert!(twice.report().contains("page.viewed v1 is listed twice"), "{twice}");
        assert!(catalogue.event(&"n".repeat(101), "v1", ["path"]).is_err());
    }
}
