//! The keys of a key server: fetched when a token needs them, kept while the server is away.
//!
//! No request waits for a key that is known. A fetch runs as a task of its own, so a caller that gives up does not end it; the
//! task ends when the [`Jwks`] is dropped.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postroom::{Error, ErrorKind, Result};
use reqwest::header::ACCEPT;
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode, Url};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::Refused;
use crate::key::Key;
use crate::key_set::KeySet;
use crate::token::Token;

const BODY_BYTES_MAX: usize = 256 << 10;

/// Times of the fetches. Each distance between fetches is longer than the longest fetch, so at most one runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The age at which keys are fetched again.
    pub(crate) refresh: Duration,
    /// The distance between fetches, also for unknown keys and after failures.
    pub(crate) distance: Duration,
    /// The same while there are no keys.
    pub(crate) distance_without_keys: Duration,
    /// The limit of one fetch.
    pub(crate) fetch: Duration,
    /// A request with an unknown key waits for a fetch until the fetch has taken this time.
    pub(crate) wait: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            refresh: Duration::from_mins(5),
            distance: Duration::from_secs(30),
            distance_without_keys: Duration::from_secs(10),
            fetch: Duration::from_secs(5),
            wait: Duration::from_secs(1),
        }
    }
}

/// The keys of one server.
#[derive(Debug)]
pub(crate) struct Jwks {
    server: Arc<Server>,
    fetch: Mutex<JoinSet<()>>,
}

#[derive(Debug)]
struct Server {
    url: Url,
    client: Client,
    pace: Pace,
    fetched: watch::Sender<Fetched>,
}

/// The result of the fetches so far.
#[derive(Debug, Default)]
struct Fetched {
    keys: Option<KeySet>,
    /// The start of the fetch that brought the keys.
    keys_at: Option<Instant>,
    /// The start of the last fetch.
    begun_at: Option<Instant>,
    is_running: bool,
}

impl Jwks {
    pub(crate) fn new(url: &str) -> Result<Self> {
        Self::paced(url, Pace::default())
    }

    pub(crate) fn paced(url: &str, pace: Pace) -> Result<Self> {
        let server = Server {
            url: address(url)?,
            client: client(pace.fetch)?,
            pace,
            fetched: watch::Sender::default(),
        };
        Ok(Self {
            server: Arc::new(server),
            fetch: Mutex::default(),
        })
    }

    /// The key of a token. An unknown one is fetched if a fetch is due; the caller waits for it, but not long.
    pub(crate) async fn key_of(&self, token: &Token<'_>) -> Result<Arc<Key>, Refused> {
        let key = self.server.known_key_of(token);
        let is_unknown = matches!(key, Err(Refused::UnknownKey | Refused::KeysUnavailable));
        if self.server.begin_if_due(is_unknown) {
            self.spawn_fetch();
        }
        if !is_unknown {
            return key;
        }
        self.server.wait_for_fetch().await;
        self.server.known_key_of(token)
    }

    fn spawn_fetch(&self) {
        let server = Arc::clone(&self.server);
        let mut fetch = self.fetch.lock().unwrap_or_else(PoisonError::into_inner);
        while fetch.try_join_next().is_some() {}
        fetch.spawn(async move { server.refresh().await });
    }
}

impl Server {
    fn known_key_of(&self, token: &Token<'_>) -> Result<Arc<Key>, Refused> {
        let fetched = self.fetched.borrow();
        fetched.keys.as_ref().ok_or(Refused::KeysUnavailable)?.key_of(token)
    }

    /// Whether the caller must fetch now. Only one of several callers must.
    fn begin_if_due(&self, is_unknown: bool) -> bool {
        let now = Instant::now();
        self.fetched.send_if_modified(|fetched| {
            let is_due = fetched.is_due(is_unknown, now, &self.pace);
            if is_due {
                fetched.begun_at = Some(now);
                fetched.is_running = true;
            }
            is_due
        })
    }

    async fn wait_for_fetch(&self) {
        let mut fetched = self.fetched.subscribe();
        let begun_at = fetched.borrow().begun_at.unwrap_or_else(Instant::now);
        let ended = fetched.wait_for(|fetched| !fetched.is_running);
        // The caller looks for its key in any case.
        drop(timeout_at(begun_at + self.pace.wait, ended).await);
    }

    /// Fetches the keys once. Keeps the old ones if that fails.
    async fn refresh(&self) {
        let keys = self.fetch().await;
        match &keys {
            Ok(keys) => self.report_skipped(keys),
            Err(error) => tracing::warn!(error = error.report(), "could not fetch the keys of member tokens"),
        }
        self.fetched.send_modify(|fetched| {
            fetched.is_running = false;
            if let Ok(keys) = keys {
                fetched.keys = Some(keys);
                fetched.keys_at = fetched.begun_at;
            }
        });
    }

    fn report_skipped(&self, keys: &KeySet) {
        let reasons = keys.newly_skipped(self.fetched.borrow().keys.as_ref());
        if let Some(reasons) = reasons {
            tracing::warn!(reasons, "skipped keys in the key set (JWKS) of member tokens");
        }
    }

    async fn fetch(&self) -> Result<KeySet> {
        // The address may contain a secret.
        let failed = |source: reqwest::Error| {
            Error::caused(ErrorKind::Unavailable, "fetch a key set (JWKS)", source.without_url())
        };
        let request = self.client.get(self.url.clone()).header(ACCEPT, "application/json");
        let mut response = request.send().await.map_err(failed)?;
        if response.status() != StatusCode::OK {
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!(
                    "the key server answered {}; it must answer 200, without a redirect",
                    response.status()
                ),
            ));
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            body.extend_from_slice(&chunk);
            if body.len() > BODY_BYTES_MAX {
                return Err(Error::invalid(format!(
                    "a key set (JWKS) has more than {BODY_BYTES_MAX} bytes"
                )));
            }
        }
        KeySet::parse(&body)
    }
}

impl Fetched {
    /// Whether to fetch now: keys that are old, or a token whose key is unknown, but not too soon after the last fetch.
    fn is_due(&self, is_unknown: bool, now: Instant, pace: &Pace) -> bool {
        let is_past = |at: Option<Instant>, distance| at.is_none_or(|at| now.duration_since(at) >= distance);
        let distance = match self.keys_at {
            Some(_) => pace.distance,
            None => pace.distance_without_keys,
        };
        is_past(self.begun_at, distance) && (is_unknown || is_past(self.keys_at, pace.refresh))
    }
}

/// Parses an address. It may contain a secret, so an error does not repeat it.
fn address(text: &str) -> Result<Url> {
    let url: Url = text
        .parse()
        .map_err(|source| Error::caused(ErrorKind::Invalid, "parse the address of a key set (JWKS)", source))?;
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_loopback(&url) => Ok(url),
        _ => Err(Error::invalid(
            "the address of a key set (JWKS) must start with https://; http:// is accepted for localhost, 127.0.0.1 and [::1]",
        )),
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

fn client(timeout: Duration) -> Result<Client> {
    // Keeps a crypto provider that the process has already installed.
    drop(rustls::crypto::ring::default_provider().install_default());
    Client::builder()
        .tls_backend_rustls()
        .timeout(timeout)
        .redirect(Policy::none())
        .user_agent(concat!("postroom/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|source| Error::caused(ErrorKind::Failed, "create an HTTP client", source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fetch_is_due_for_old_keys_and_unknown_ones_but_not_too_often() {
        let pace = Pace::default();
        let now = Instant::now() + Duration::from_hours(1);
        let check = |keys_age: Option<u64>, begun: Option<u64>, is_unknown: bool, expected: bool| {
            let ago = |seconds| now - Duration::from_secs(seconds);
            let fetched = Fetched {
                keys_at: keys_age.map(ago),
                begun_at: begun.map(ago),
                ..Fetched::default()
            };
            let due = fetched.is_due(is_unknown, now, &pace);
            assert_eq!(
                due, expected,
                "keys {keys_age:?}, begun {begun:?}, unknown {is_unknown}"
            );
        };
        check(None, None, true, true);
        check(None, Some(9), true, false);
        check(None, Some(10), true, true);
        check(Some(29), Some(29), true, false);
        check(Some(30), Some(30), true, true);
        check(Some(299), Some(299), false, false);
        check(Some(300), Some(300), false, true);
        check(Some(300), Some(29), false, false);
        check(Some(300), Some(29), true, false);
        check(Some(300), Some(30), false, true);
    }

    #[tokio::test]
    async fn an_error_does_not_contain_the_address() {
        let jwks = Jwks::new("http://127.0.0.1:1/secret").unwrap();
        let report = jwks.server.fetch().await.unwrap_err().report();
        assert!(
            report.starts_with("fetch a key set") && !report.contains("secret"),
            "{report}"
        );
    }

    #[test]
    fn an_address_without_tls_must_be_on_this_machine() {
        for good in [
            "https://example.com/keys",
            "http://localhost:80/",
            "http://127.0.0.1/",
            "http://[::1]:8/",
        ] {
            assert!(address(good).is_ok(), "{good}");
        }
        for wrong in [
            "http://example.com/secret",
            "http://10.0.0.1/secret",
            "http://localhost.example.com/secret",
            "ftp://localhost/secret",
            "secret",
        ] {
            let report = address(wrong).unwrap_err().report();
            assert!(!report.contains("secret"), "{report}");
        }
    }
}
