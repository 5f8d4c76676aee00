//! The hashes of a client's address and `User-Agent`, which are stored with its events if the settings say so.

use serde_json::{Map, Value};

/// The property with the hash of the address.
pub(crate) const ADDRESS: &str = "clientIpHash";
/// The property with the hash of the `User-Agent`.
pub(crate) const USER_AGENT: &str = "userAgentHash";

/// The hashes that are stored of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientTrace {
    pub(super) address: Option<String>,
    pub(super) user_agent: Option<String>,
}

impl ClientTrace {
    pub(super) fn mark(&self, properties: &mut Map<String, Value>) {
        let hashes = [(ADDRESS, &self.address), (USER_AGENT, &self.user_agent)];
        let stored = hashes
            .into_iter()
            .filter_map(|(name, hash)| Some((name.to_owned(), hash.clone()?.into())));
        properties.extend(stored);
    }
}
