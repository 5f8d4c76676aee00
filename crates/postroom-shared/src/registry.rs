//! Registry: which connections each member has, over all instances, with a limit per member.

mod local;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use postroom::{Error, Result};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::fan_out::Message;

pub use local::LocalRegistry;

/// Connections of one member that gave way and are remembered. Beyond it the oldest are forgotten; they are still refused while
/// younger connections have all places.
pub const EVICTED_MAX: usize = 1000;

/// Admits connections of members, at most so many per member; the oldest gives way.
///
/// The contract, which `postroom_testkit::registry_suite` checks:
///
/// 1. After [`Registry::admit`], the member has at most `limit` connections, and the new one is among them. Those that gave way are
///    the oldest, by the clock of the registry; each is named in exactly one answer. This holds for concurrent calls of all
///    instances. Admitting the same connection again keeps its place and its age.
/// 2. Each connection that gave way is also announced to every instance: by an [`Eviction`] on the channel [`Limits::evictions`] of
///    the fan-out that shares the state.
/// 3. A connection holds its place for `lease`; [`Registry::renew`] prolongs that and keeps its age. A connection that was not renewed
///    in time gives its place back, and gets it again when it is renewed after all (the state may have been lost), as old as
///    it was, if it is among the youngest `limit`. Otherwise the answer is [`Admitted::Evicted`].
/// 4. A connection that gave way is refused for at least two leases, also when its place would be free.
/// 5. [`Registry::leave`] gives a place back at once. It ends nothing else, and leaving twice does nothing.
/// 6. [`Registry::sweep`] removes connections older than `lifetime`, and those whose lease has ended, also those that an instance
///    left behind or that were put there by hand, and answers how many. It announces nothing.
/// 7. Members and kinds are independent of each other. A member is any text that is not empty.
/// 8. [`Registry::list`] names the connections of a member that have a place, the oldest first. It changes nothing.
#[async_trait]
pub trait Registry: fmt::Debug + Send + Sync {
    /// Admits a new connection.
    async fn admit(&self, limits: &Limits, connection: &Connection) -> Result<Admitted>;

    /// Prolongs the leases of connections. Returns the answer to each, in the same order.
    async fn renew(&self, limits: &Limits, connections: &[Connection]) -> Result<Vec<Admitted>>;

    /// Gives back the places of connections that have ended.
    async fn leave(&self, limits: &Limits, connections: &[Connection]) -> Result<()>;

    /// Removes connections that began longer ago than this, and those whose lease has ended.
    async fn sweep(&self, limits: &Limits, lifetime: Duration) -> Result<u64>;

    /// The connections of a member, each with its age.
    async fn list(&self, limits: &Limits, member: &str) -> Result<Vec<Connection>>;
}

/// The limits of one kind of connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Names the kind, without braces. The key of a member is `{kind}:{{member}}` with the member in braces, for example
    /// `sse:notification:{42}`.
    pub kind: String,
    /// The channel on which evictions are announced.
    pub evictions: String,
    /// Connections per member, at least 1.
    pub limit: u32,
    /// How long a connection keeps its place without being renewed.
    pub lease: Duration,
}

impl Limits {
    /// Refuses limits and members that no implementation can keep.
    pub fn check(&self, member: &str) -> Result<()> {
        let mistake = match self {
            _ if member.is_empty() => "a member needs a name",
            Self { kind, .. } if kind.is_empty() || kind.contains(['{', '}']) => {
                "the kind of a connection has a name without braces"
            }
            Self { limit: 0, .. } => "the limit of connections is at least 1",
            Self { lease, .. } if lease.is_zero() => "the lease of a connection is longer than nothing",
            _ => return Ok(()),
        };
        Err(Error::invalid(mistake))
    }
}

/// A connection of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The member.
    pub member: String,
    /// The connection.
    pub id: Uuid,
    /// Its age, as [`Admitted::Yes`] said it. `None`: it is new.
    pub since: Option<i64>,
}

impl Connection {
    /// A new connection of a member.
    pub fn new(member: impl Into<String>, id: Uuid) -> Self {
        Self {
            member: member.into(),
            id,
            since: None,
        }
    }
}

/// The answer of the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// It has a place.
    Yes {
        /// When it began, in milliseconds by the clock of the registry; no other connection of the member has the same. Pass it to
        /// [`Registry::renew`].
        since: i64,
        /// The connections of the member that gave way.
        evicted: Vec<Uuid>,
    },
    /// It gave way to younger connections: close it.
    Evicted,
}

/// The announcement that a connection gave way: `{"memberId": "42", "connectionId": "…"}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// The member.
    pub member: String,
    /// The connection.
    pub connection: Uuid,
}

impl Eviction {
    /// The announcement on a channel.
    pub fn message(&self, channel: &str) -> Message {
        let body = json!({ "memberId": self.member, "connectionId": self.connection });
        Message::new(channel, body.to_string())
    }

    /// Reads the body of an announcement. Other programs may announce too, so the member may also be a number.
    pub fn read(body: &[u8]) -> Result<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Body {
            member_id: Value,
            connection_id: Uuid,
        }

        let unreadable = |error| {
            Error::caused(
                postroom::ErrorKind::Invalid,
                "read the announcement of an eviction",
                error,
            )
        };
        let body: Body = serde_json::from_slice(body).map_err(unreadable)?;
        let member = match body.member_id {
            Value::String(member) => member,
            Value::Number(member) => member.to_string(),
            other => {
                return Err(Error::invalid(format!(
                    "the member of an eviction is a text or a number, not {other}"
                )));
            }
        };
        Ok(Self {
            member,
            connection: body.connection_id,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_is_read_as_it_was_written_and_as_other_programs_write_it() {
        let eviction = Eviction {
            member: "\"42\" {한글}".to_owned(),
            connection: Uuid::now_v7(),
        };
        let message = eviction.message("evictions");
        assert_eq!(message.channel, "evictions");
        assert_eq!(Eviction::read(&message.body).unwrap(), eviction);
        let id = eviction.connection;
        let by_hand = format!(r#"{{"connectionId":"{id}","memberId":42,"at":"now"}}"#);
        assert_eq!(Eviction::read(by_hand.as_bytes()).unwrap().member, "42");
        for body in [
            "",
            "42",
            "{}",
            r#"{"memberId":"42","connectionId":"1"}"#,
            r#"{"memberId":[]}"#,
        ] {
            assert!(Eviction::read(body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn limits_that_cannot_be_kept_are_refused() {
        let limits = Limits {
            kind: "sse".to_owned(),
            evictions: "sse:evictions".to_owned(),
            limit: 3,
            lease: Duration::from_secs(60),
        };
        assert!(limits.check("42").is_ok());
        assert!(limits.check("").is_err());
        let broken = [
            Limits {
                kind: String::new(),
                ..limits.clone()
            },
            Limits {
                kind: "a{b".to_owned(),
                ..limits.clone()
            },
            Limits {
                limit: 0,
                ..limits.clone()
            },
            Limits {
                lease: Duration::ZERO,
                ..limits
            },
        ];
        for limits in broken {
            assert!(limits.check("42").is_err(), "{limits:?}");
        }
    }
}
