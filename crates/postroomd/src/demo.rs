//! The demonstration of the community: when a process offers it, and the secret of its members' tokens.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, Result};
use community::Demo;
use postroom_access::MemberKeys;
use postroom_host::{Doors, Module, Platform};
use postroom_shared::SharedState;

use crate::config::Config;
use crate::secret_file;

/// The file of the secret, beside the built-in store.
const FILE: &str = "member-secret";

/// A demonstration that a process offers.
#[derive(Debug)]
pub(crate) struct Offered {
    demo: Demo,
    keys: MemberKeys,
    /// Whether another process may share the state: then no frame is lost on purpose.
    is_alone: bool,
}

impl Offered {
    /// The demonstration, if a server at this address may offer it. Without a folder, its secret ends with the process.
    pub(crate) fn at(config: &Config, address: SocketAddr, folder: Option<&Path>) -> Result<Option<Self>> {
        if !is_safe(config, address) {
            return Ok(None);
        }
        let secret = match folder {
            Some(folder) => secret_file::keep(&folder.join(FILE))?,
            None => secret_file::random(),
        };
        let keys = MemberKeys::from_secret(secret.as_bytes()).context("use the secret of the demonstration")?;
        Ok(Some(Self {
            demo: Demo::new(keys.clone()),
            keys,
            is_alone: config.brokers.redis.url.is_none(),
        }))
    }

    /// Adds the page to the community.
    pub(crate) fn join(&self, module: Module) -> Module {
        match module.name {
            community::NAME => self.demo.join(module),
            _ => module,
        }
    }

    /// Lets the process accept the tokens of the demonstration.
    pub(crate) fn open(self, platform: Platform, doors: Doors) -> Platform {
        let platform = platform.doors(doors.members(self.keys));
        match self.is_alone {
            true => platform.shared(self.demo.shared(SharedState::local())),
            false => platform,
        }
    }
}

/// Whether only callers on this machine reach the server, without any token, and no application makes tokens of members. Otherwise the
/// page would give away what others protect.
fn is_safe(config: &Config, address: SocketAddr) -> bool {
    !config.server.is_reachable(address) && !config.access.locked && !config.access.has_members()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unlocked_server_of_this_machine_without_members_offers_it() {
        let folder = tempfile::tempdir().unwrap();
        let check = |toml: &str, address: &str, expected: bool| {
            let config = Config::read(toml, []).unwrap();
            let offered = Offered::at(&config, address.parse().unwrap(), Some(folder.path())).unwrap();
            assert_eq!(offered.is_some(), expected, "{toml} {address}");
            let is_made = folder.path().join(FILE).exists();
            assert_eq!(is_made, expected, "a secret for nothing: {toml} {address}");
        };
        check("", "192.0.2.1:8080", false);
        check("", "0.0.0.0:8080", false);
        check("[access]\nlocked = true", "127.0.0.1:8080", false);
        check(
            "[access.members]\nsecret = \"thirty-two bytes that only tests use\"",
            "127.0.0.1:8080",
            false,
        );
        check("[server]\nhosts = [\"app.example.com\"]", "127.0.0.1:8080", false);
        check("[server]\nplain_http = true", "127.0.0.1:8080", false);
        check("", "127.0.0.1:8080", true);
    }
}
