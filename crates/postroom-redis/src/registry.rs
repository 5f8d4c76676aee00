//! The registry of connections: one script admits, renews and evicts.
//!
//! The keys of a member are in one slot: `sse:notification:{42}` (connection → since when in ms), `…:lease` (connection → end of its
//! lease) and `…:evicted` (connection → until when it is refused). Entries that other programs make in the first one have no lease;
//! they count, and go when they are the oldest or older than the lifetime.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom::{Error, ErrorKind, Result};
use postroom_shared::Registry;
use postroom_shared::registry::{Admitted, Connection as Member, EVICTED_MAX, Limits};
use redis::Value;
use uuid::Uuid;

use crate::connection::{Connection, failed};
use crate::script::{self, Call};
use crate::shared_state::Prefix;

/// After this time without a call the keys of a member go by themselves. Longer than connections of other programs live.
const KEEP: Duration = Duration::from_hours(24);
/// Keys that one step of a sweep looks at.
const SWEEP_STEP: u32 = 1000;

/// Connections per member, over all instances with this server.
#[derive(Debug)]
pub(crate) struct RedisRegistry {
    connection: Arc<Connection>,
    prefix: Prefix,
}

impl RedisRegistry {
    pub(crate) fn new(connection: &Arc<Connection>, prefix: &Prefix) -> Self {
        Self {
            connection: Arc::clone(connection),
            prefix: prefix.clone(),
        }
    }

    /// The call for connections of one member.
    fn enter<'c>(
        &self,
        limits: &Limits,
        member: &str,
        connections: impl Iterator<Item = (&'c Member, Option<i64>)>,
    ) -> Result<Call> {
        limits.check(member)?;
        let call = Call::on(&script::ADMIT, &self.keys(limits, member))
            .arg(limits.limit)
            .arg(ms(limits.lease))
            .arg(EVICTED_MAX)
            .arg(ms(KEEP))
            .arg(self.prefix.name(&limits.evictions))
            .arg(member);
        Ok(connections.fold(call, |call, (connection, since)| {
            let since = since.map(|since| since.to_string()).unwrap_or_default();
            call.arg(connection.id.to_string()).arg(since)
        }))
    }

    fn places(&self, limits: &Limits, member: &str) -> String {
        self.prefix.name(&format!("{}:{{{member}}}", limits.kind))
    }

    fn keys(&self, limits: &Limits, member: &str) -> [String; 3] {
        let places = self.places(limits, member);
        let [leases, evicted] = ["lease", "evicted"].map(|word| format!("{places}:{word}"));
        [places, leases, evicted]
    }

    /// Sweeps some members, by their keys.
    async fn sweep_some(&self, keys: Vec<String>, lifetime: Duration) -> Result<u64> {
        let sweep = |places: String| {
            let leases = format!("{places}:lease");
            Call::on(&script::SWEEP, &[places, leases]).arg(ms(lifetime))
        };
        let calls = keys.into_iter().map(sweep).collect();
        let removed: Vec<u64> = self.connection.calls("sweep connections in Redis", calls).await?;
        Ok(removed.into_iter().sum())
    }
}

#[async_trait]
impl Registry for RedisRegistry {
    /// If the connection is lost during the call, it runs twice: then the evictions of the first run are announced, and not in the
    /// answer.
    async fn admit(&self, limits: &Limits, connection: &Member) -> Result<Admitted> {
        const DOING: &str = "admit a connection in Redis";
        let call = self.enter(limits, &connection.member, [(connection, None)].into_iter())?;
        let answers: Vec<Vec<String>> = self.connection.call(DOING, call).await?;
        let answer = answers.into_iter().next().unwrap_or_default();
        admitted(&answer)
    }

    async fn renew(&self, limits: &Limits, connections: &[Member]) -> Result<Vec<Admitted>> {
        const DOING: &str = "renew connections in Redis";
        let members: Vec<(&str, Vec<usize>)> = by_name(connections.iter().map(|connection| connection.member.as_str()));
        let mut calls = Vec::with_capacity(members.len());
        for (member, places) in &members {
            let own = places.iter().filter_map(|at| connections.get(*at));
            calls.push(self.enter(limits, member, own.map(|connection| (connection, connection.since)))?);
        }
        let answers: Vec<Vec<Vec<String>>> = self.connection.calls(DOING, calls).await?;
        let mut renewed = vec![Admitted::Evicted; connections.len()];
        for ((_, places), answers) in members.iter().zip(&answers) {
            for (at, answer) in places.iter().zip(answers) {
                if let Some(place) = renewed.get_mut(*at) {
                    *place = admitted(answer)?;
                }
            }
        }
        Ok(renewed)
    }

    async fn leave(&self, limits: &Limits, connections: &[Member]) -> Result<()> {
        const DOING: &str = "remove connections in Redis";
        for some in connections.chunks(500) {
            let mut commands = Vec::with_capacity(2 * some.len());
            for connection in some {
                // The place first: a lease without a place is nothing, a place without a lease stays.
                let [places, leases, _] = self.keys(limits, &connection.member);
                for key in [places, leases] {
                    let mut remove = redis::cmd("ZREM");
                    remove.arg(key).arg(connection.id.to_string());
                    commands.push(remove);
                }
            }
            for answer in self.connection.commands(DOING, commands, 0).await? {
                answer.map_err(|error| failed(DOING, error))?;
            }
        }
        Ok(())
    }

    async fn sweep(&self, limits: &Limits, lifetime: Duration) -> Result<u64> {
        let pattern = format!("{}{{*}}", literal(&self.prefix.name(&format!("{}:", limits.kind))));
        let (mut removed, mut cursor) = (0, 0);
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(&pattern);
            scan.arg("COUNT").arg(SWEEP_STEP).arg("TYPE").arg("zset");
            let (next, keys): (u64, Vec<Value>) =
                self.connection.command("look for connections in Redis", scan).await?;
            let keys = keys.into_iter().filter_map(|key| redis::from_redis_value(key).ok());
            removed += self.sweep_some(keys.collect(), lifetime).await?;
            cursor = next;
            if cursor == 0 {
                return Ok(removed);
            }
        }
    }

    async fn list(&self, limits: &Limits, member: &str) -> Result<Vec<Member>> {
        const DOING: &str = "list connections in Redis";
        limits.check(member)?;
        let [places, leases, _] = self.keys(limits, member);
        let call = Call::on(&script::LIST, &[places, leases]);
        let answers: Vec<(String, String)> = self.connection.call(DOING, call).await?;
        // Connections that other programs have put there may have ids of another form.
        let known = answers.iter().filter_map(|(id, since)| {
            Some(Member {
                member: member.to_owned(),
                id: Uuid::parse_str(id).ok()?,
                since: Some(since.parse().ok()?),
            })
        });
        Ok(known.collect())
    }
}

/// The answer of the script to one connection. Connections that other programs have put there may have ids of another form.
fn admitted(answer: &[String]) -> Result<Admitted> {
    let Some((since, evicted)) = answer.split_first() else {
        return Ok(Admitted::Evicted);
    };
    let malformed = |_not_a_number| {
        let says = format!("admit connections in Redis: unexpected response {answer:?}");
        Error::new(ErrorKind::Failed, says)
    };
    Ok(Admitted::Yes {
        since: since.parse().map_err(malformed)?,
        evicted: evicted.iter().filter_map(|id| Uuid::parse_str(id).ok()).collect(),
    })
}

/// The places of each name in a list, the names in the order in which they come first.
pub(crate) fn by_name<'n>(names: impl Iterator<Item = &'n str>) -> Vec<(&'n str, Vec<usize>)> {
    let mut groups: Vec<(&str, Vec<usize>)> = Vec::new();
    let mut known: HashMap<&str, usize> = HashMap::new();
    for (at, name) in names.enumerate() {
        let group = *known.entry(name).or_insert_with(|| {
            groups.push((name, Vec::new()));
            groups.len() - 1
        });
        if let Some((_, places)) = groups.get_mut(group) {
            places.push(at);
        }
    }
    groups
}

/// A pattern of SCAN that matches this text only.
fn literal(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for c in text.chars() {
        if "*?[]\\".contains(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

/// Whole milliseconds, at least one.
pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis())
        .unwrap_or(u64::MAX)
        .clamp(1, 1 << 52)
}
