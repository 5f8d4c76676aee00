//! A limit on failed tries: tokens that were refused, counted per client address and in total.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Of one address: ten failed tries at once, then one per second.
const CLIENT: Limit = Limit {
    at_once: 10,
    interval: Duration::from_secs(1),
};
/// Of all addresses together: a thousand at once, then a hundred per second.
const TOTAL: Limit = Limit {
    at_once: 1_000,
    interval: Duration::from_millis(10),
};
/// Addresses that are remembered, about 1 MB. The oldest is forgotten first.
const CLIENTS_MAX: usize = 10_000;
/// At most one log line per address in this time.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// Limits failed tries per client address, and in total. IPv6 addresses count per /64: one client has at least that.
///
/// After a token was refused, ask [`FailedTries::check`] how to answer, and count it by [`FailedTries::failed`]. Valid tokens cost
/// nothing. Requests that are checked at the same time all pass, so a client can exceed its limit by its parallel requests.
///
/// When the total limit is used up, only addresses with a recent failed try are refused. Others still have one try, so an
/// attack from many addresses does not lock out clients with valid tokens.
#[derive(Debug, Default)]
pub struct FailedTries {
    state: Mutex<State>,
}

/// A client must wait this long before its next try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryAfter(pub Duration);

impl RetryAfter {
    /// The whole seconds for the header `Retry-After`, rounded up.
    pub fn seconds(self) -> u64 {
        self.0.as_secs() + u64::from(self.0.subsec_nanos() > 0)
    }
}

impl fmt::Display for RetryAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "too many refused tokens; try again in {} s", self.seconds())
    }
}

impl std::error::Error for RetryAfter {}

impl FailedTries {
    /// A limiter that has seen no failed try.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether this client may try a token now.
    pub fn check(&self, client: IpAddr, now: Instant) -> Result<(), RetryAfter> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.check(Network::of(client), now)
    }

    /// Counts a refused token. Logs one line per address and minute; while the total limit is used up, one line per minute.
    pub fn failed(&self, client: IpAddr, now: Instant) {
        let network = Network::of(client);
        let notice = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.failed(network, now)
        };
        match notice {
            Some(Notice::OfClient(count)) => tracing::warn!(address = %network, count, "refused tokens"),
            Some(Notice::OfAll(count)) => tracing::warn!(count, "refused tokens of many addresses"),
            None => {}
        }
    }
}

#[derive(Debug, Default)]
struct State {
    all: Tries,
    clients: HashMap<Network, Tries>,
    /// The keys of `clients`, in the order of their first failed try.
    order: VecDeque<Network>,
}

/// A log line that is due, with the refused tokens since the last one.
#[derive(Debug, PartialEq)]
enum Notice {
    OfClient(u64),
    OfAll(u64),
}

impl State {
    fn check(&self, client: Network, now: Instant) -> Result<(), RetryAfter> {
        let Some(tries) = self.clients.get(&client).filter(|tries| tries.is_recent(now)) else {
            return Ok(());
        };
        let wait = tries.wait(CLIENT, now).max(self.all.wait(TOTAL, now));
        wait.map_or(Ok(()), |wait| Err(RetryAfter(wait)))
    }

    fn failed(&mut self, client: Network, now: Instant) -> Option<Notice> {
        self.all.add(TOTAL, now);
        self.make_room_for(client);
        let tries = self.clients.entry(client).or_default();
        tries.add(CLIENT, now);
        if self.all.wait(TOTAL, now).is_some() {
            return self.all.log(now).map(Notice::OfAll);
        }
        tries.log(now).map(Notice::OfClient)
    }

    fn make_room_for(&mut self, client: Network) {
        if self.clients.contains_key(&client) {
            return;
        }
        if self.clients.len() >= CLIENTS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.clients.remove(&oldest);
        }
        self.order.push_back(client);
    }
}

/// A token bucket: this many tries at once, and a further one after each interval.
#[derive(Clone, Copy, Debug)]
struct Limit {
    at_once: u32,
    interval: Duration,
}

/// The failed tries of one address, or of all.
#[derive(Debug, Default)]
struct Tries {
    /// The time when the bucket is full again. `None`: it is full.
    full_at: Option<Instant>,
    /// Failed tries that no log line has reported.
    unreported: u64,
    logged_at: Option<Instant>,
}

impl Tries {
    /// The time until the next try, if there is none left now.
    fn wait(&self, limit: Limit, now: Instant) -> Option<Duration> {
        let until_full = self.full_at?.saturating_duration_since(now);
        let wait = until_full.saturating_sub(limit.interval * (limit.at_once - 1));
        (!wait.is_zero()).then_some(wait)
    }

    /// Takes a try out of the bucket. An empty one stays empty: requests that were checked together do not extend the wait.
    fn add(&mut self, limit: Limit, now: Instant) {
        let full_at = self.full_at.map_or(now, |full_at| full_at.max(now)) + limit.interval;
        self.full_at = Some(full_at.min(now + limit.interval * limit.at_once));
    }

    fn is_recent(&self, now: Instant) -> bool {
        self.full_at.is_some_and(|full_at| full_at > now)
    }

    /// Counts one more try for the log: the number of unreported ones, if a line is due.
    fn log(&mut self, now: Instant) -> Option<u64> {
        self.unreported += 1;
        let is_due = self
            .logged_at
            .is_none_or(|at| now.saturating_duration_since(at) >= LOG_INTERVAL);
        is_due.then(|| {
            self.logged_at = Some(now);
            std::mem::take(&mut self.unreported)
        })
    }
}

/// An IPv4 address, or the /64 of an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Network(IpAddr);

impl Network {
    fn of(client: IpAddr) -> Self {
        // A socket for both families shows IPv4 clients as ::ffff:a.b.c.d; as IPv6 they would all be in one /64.
        match client.to_canonical() {
            IpAddr::V4(address) => Self(IpAddr::V4(address)),
            IpAddr::V6(address) => Self(IpAddr::V6(Ipv6Addr::from_bits(
                address.to_bits() & !u128::from(u64::MAX),
            ))),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(address) => write!(f, "{address}"),
            IpAddr::V6(address) => write!(f, "{address}/64"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn client(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// The address with this number.
    fn numbered(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    fn fail(tries: &FailedTries, address: &str, count: u32, now: Instant) {
        for _ in 0..count {
            tries.failed(client(address), now);
        }
    }

    #[test]
    fn ten_tries_at_once_then_one_per_second() {
        let (tries, now) = (FailedTries::new(), Instant::now());
        let check = |at: Instant| tries.check(client("10.0.0.1"), at);
        fail(&tries, "10.0.0.1", 9, now);
        assert_eq!(check(now), Ok(()));
        fail(&tries, "10.0.0.1", 1, now);
        assert_eq!(check(now), Err(RetryAfter(SECOND)));
        assert_eq!(check(now + SECOND / 4), Err(RetryAfter(SECOND * 3 / 4)));
        assert_eq!(check(now + SECOND), Ok(()));
        fail(&tries, "10.0.0.1", 1, now + SECOND);
        assert_eq!(check(now + SECOND), Err(RetryAfter(SECOND)));
        assert_eq!(tries.check(client("10.0.0.2"), now), Ok(()), "another address");
    }

    #[test]
    fn the_header_has_whole_seconds() {
        for (millis, seconds) in [(10, 1), (1_000, 1), (1_001, 2)] {
            assert_eq!(
                RetryAfter(Duration::from_millis(millis)).seconds(),
                seconds,
                "{millis} ms"
            );
        }
    }

    #[test]
    fn parallel_failures_do_not_extend_the_wait() {
        let (tries, now) = (FailedTries::new(), Instant::now());
        fail(&tries, "10.0.0.1", 50, now);
        assert_eq!(tries.check(client("10.0.0.1"), now), Err(RetryAfter(SECOND)));
        fail(&tries, "10.0.0.1", 10, now + SECOND * 60);
        assert_eq!(
            tries.check(client("10.0.0.1"), now + SECOND * 60),
            Err(RetryAfter(SECOND))
        );
    }

    #[test]
    fn ipv6_counts_per_64_and_mapped_ipv4_per_address() {
        let (tries, now) = (FailedTries::new(), Instant::now());
        fail(&tries, "2001:db8::1", 10, now);
        fail(&tries, "::ffff:10.0.0.1", 10, now);
        for (address, is_refused) in [
            ("2001:db8::ffff:ffff:ffff:ffff", true),
            ("2001:db8:0:1::1", false),
            ("10.0.0.1", true),
            ("::ffff:10.0.0.2", false),
        ] {
            assert_eq!(tries.check(client(address), now).is_err(), is_refused, "{address}");
        }
    }

    #[test]
    fn the_total_limit_refuses_addresses_that_failed_and_no_others() {
        let (tries, now) = (FailedTries::new(), Instant::now());
        fail(&tries, "10.0.0.1", 10, now);
        let now = now + SECOND * 60;
        for number in 0..999 {
            tries.failed(numbered(number), now);
        }
        assert_eq!(tries.check(numbered(1), now), Ok(()));
        tries.failed(numbered(999), now);
        assert_eq!(
            tries.check(numbered(1), now),
            Err(RetryAfter(Duration::from_millis(10)))
        );
        assert_eq!(
            tries.check(numbered(1_000), now),
            Ok(()),
            "an address that has not failed"
        );
        assert_eq!(
            tries.check(client("10.0.0.1"), now),
            Ok(()),
            "an address that failed long ago"
        );
        let later = now + Duration::from_millis(10);
        assert_eq!(tries.check(numbered(1), later), Ok(()));
    }

    #[test]
    fn the_oldest_address_is_forgotten_first() {
        let (tries, now) = (FailedTries::new(), Instant::now());
        fail(&tries, "10.0.0.1", 10, now);
        fail(&tries, "10.0.0.2", 10, now);
        for number in 0..9_999 {
            tries.failed(numbered(number), now);
        }
        let state = tries.state.lock().unwrap();
        assert_eq!((state.clients.len(), state.order.len()), (10_000, 10_000));
        assert!(!state.clients.contains_key(&Network(client("10.0.0.1"))));
        assert!(state.clients.contains_key(&Network(client("10.0.0.2"))));
    }

    #[test]
    fn one_log_line_per_address_and_minute() {
        let (mut state, now) = (State::default(), Instant::now());
        let [one, two] = ["10.0.0.1", "10.0.0.2"].map(|text| Network::of(client(text)));
        assert_eq!(state.failed(one, now), Some(Notice::OfClient(1)));
        assert_eq!(state.failed(one, now), None);
        assert_eq!(state.failed(two, now + SECOND), Some(Notice::OfClient(1)));
        assert_eq!(state.failed(one, now + SECOND * 59), None);
        assert_eq!(state.failed(one, now + SECOND * 60), Some(Notice::OfClient(3)));
    }

    #[test]
    fn an_attack_from_many_addresses_logs_one_line_per_minute() {
        let (mut state, now) = (State::default(), Instant::now());
        let mut notices = (0..2_000).filter_map(|number| state.failed(Network(numbered(number)), now));
        assert_eq!(
            notices
                .by_ref()
                .take(999)
                .filter(|notice| *notice == Notice::OfClient(1))
                .count(),
            999
        );
        assert_eq!(notices.collect::<Vec<_>>(), [Notice::OfAll(1)]);
        let next = state.failed(Network(numbered(1)), now + LOG_INTERVAL);
        assert_eq!(next, Some(Notice::OfClient(1)), "the total limit has room again");
        let mut notices = (0..2_000).filter_map(|number| state.failed(Network(numbered(number)), now + LOG_INTERVAL));
        assert_eq!(
            notices.find(|notice| matches!(notice, Notice::OfAll(_))),
            Some(Notice::OfAll(1_001))
        );
    }
}
