//! `[access]`: whether callers need a token, and how the tokens of members are checked.

use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, Result};
use postroom_access::MemberKeys;
use postroom_host::{Access as Level, Doors};

use super::section::Section;
use super::value;

/// The largest accepted difference between our clock and the issuer's.
const LEEWAY_MAX: Duration = Duration::from_secs(5 * 60);

/// `[access]`
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Access {
    /// Whether callers need a token also where only this machine can reach the server. Elsewhere they always do.
    pub(crate) locked: bool,
    metrics: Level,
    members: Option<Members>,
}

impl Default for Access {
    fn default() -> Self {
        Self {
            locked: false,
            metrics: Level::Viewer,
            members: None,
        }
    }
}

/// `[access.members]`
#[derive(Clone, Debug, PartialEq)]
struct Members {
    keys: Keys,
    issuer: Option<String>,
    audience: Option<String>,
    leeway: Duration,
}

/// Where the keys are.
#[derive(Clone, PartialEq)]
enum Keys {
    Secret(String),
    /// PEM.
    Public(String),
    Jwks(String),
}

/// Secrets are not shown; an address may hold one.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret(_) => f.write_str("Secret(…)"),
            Self::Public(_) => f.write_str("Public(…)"),
            Self::Jwks(_) => f.write_str("Jwks(…)"),
        }
    }
}

impl Access {
    /// The doors of a process. Those that other machines can reach are locked.
    pub(crate) fn doors(&self, is_reachable: bool) -> Result<Doors> {
        let doors = match self.locked || is_reachable {
            true => Doors::locked(),
            false => Doors::unlocked(),
        };
        let doors = doors.metrics(self.metrics);
        Ok(match self.members()? {
            Some(keys) => doors.members(keys),
            None => doors,
        })
    }

    /// Whether members have keys.
    pub(crate) fn has_members(&self) -> bool {
        self.members.is_some()
    }

    /// The keys with which the tokens of members are checked.
    pub(crate) fn members(&self) -> Result<Option<MemberKeys>> {
        let Some(members) = &self.members else {
            return Ok(None);
        };
        let keys = match &members.keys {
            Keys::Secret(secret) => MemberKeys::from_secret(secret.as_bytes()),
            Keys::Jwks(url) => MemberKeys::from_jwks(url),
            Keys::Public(pem) => MemberKeys::from_pem(pem),
        };
        let mut keys = keys.context("use [access.members]")?.leeway(members.leeway)?;
        if let Some(issuer) = &members.issuer {
            keys = keys.issuer(issuer);
        }
        if let Some(audience) = &members.audience {
            keys = keys.audience(audience);
        }
        Ok(Some(keys))
    }
}

pub(super) fn read(section: &mut Section<'_>) -> Access {
    let default = Access::default();
    let levels = [("open", Level::Open), ("viewer", Level::Viewer)];
    Access {
        locked: section.take_or("locked", value::flag, default.locked),
        metrics: section.take_or("metrics", value::one_of(&levels), default.metrics),
        members: section.section_if_any("members", read_members).flatten(),
    }
}

fn read_members(section: &mut Section<'_>) -> Option<Members> {
    let sources = [
        section.take("secret", value::secret).map(Keys::Secret),
        section.take("public_keys", value::file).map(Keys::Public),
        section.take("jwks", value::http_url).map(Keys::Jwks),
    ];
    let issuer = section.take("issuer", value::text);
    let audience = section.take("audience", value::text);
    let leeway = section.take("leeway", value::duration);
    if leeway.is_some_and(|leeway| leeway > LEEWAY_MAX) {
        section.wrong("leeway", "must be at most 5m");
    }
    let mut given = sources.into_iter().flatten();
    match (given.next(), given.next()) {
        (Some(keys), None) => Some(Members {
            keys,
            issuer,
            audience,
            leeway: leeway.unwrap_or(Duration::from_secs(30)),
        }),
        (None, _) => {
            section.wrong("secret", "is missing; give a secret, public_keys or jwks");
            None
        }
        (Some(_), Some(_)) => {
            section.wrong("secret", "give one of secret, public_keys and jwks, not several");
            None
        }
    }
}
