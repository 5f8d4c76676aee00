//! The tokens that are accepted now, read from the store every few seconds.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use postroom::operate::token::{self, Token};
use postroom::{Error, ErrorKind, Inspect, Result, clock};
use tokio::task::JoinSet;

/// A request that finds a list older than this reads it again; others go on with the old one meanwhile.
const FRESH: Duration = Duration::from_secs(2);
/// A list older than this is not used: within this time every process has seen a revocation.
const STALE: Duration = Duration::from_secs(4);
/// An unknown token may be a new one, so the list is read again, at most this often.
const AGAIN: Duration = Duration::from_millis(500);
/// How long the store may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// How often the last use of tokens is written down.
const WRITE_USE: Duration = Duration::from_secs(60);

/// The list of accepted tokens of one process.
#[derive(Debug)]
pub(super) struct Tokens {
    store: Arc<dyn Inspect>,
    list: RwLock<List>,
    reading: tokio::sync::Mutex<()>,
    used: Mutex<Used>,
}

#[derive(Clone, Debug, Default)]
struct List {
    /// When the reading of it began; `None`: never.
    read_at: Option<Instant>,
    by_hash: Arc<HashMap<String, Arc<Token>>>,
}

impl List {
    fn is_younger_than(&self, age: Duration) -> bool {
        self.read_at.is_some_and(|at| at.elapsed() < age)
    }
}

/// Tokens that were accepted and whose use is not written down yet.
#[derive(Debug)]
struct Used {
    hashes: BTreeSet<String>,
    written_at: Instant,
    writing: JoinSet<()>,
}

impl Tokens {
    pub(super) fn new(store: Arc<dyn Inspect>) -> Self {
        Self {
            store,
            list: RwLock::default(),
            reading: tokio::sync::Mutex::default(),
            used: Mutex::new(Used {
                hashes: BTreeSet::new(),
                written_at: Instant::now(),
                writing: JoinSet::new(),
            }),
        }
    }

    /// The token with this text, if it is accepted. An error if the store does not answer and the list is too old.
    pub(super) async fn find(&self, text: &str) -> Result<Option<Arc<Token>>> {
        let hash = token::hash(text);
        let known = self.recent().await?.by_hash.get(&hash).cloned();
        let found = match known {
            Some(token) => Some(token),
            None => self.read_unless_younger_than(AGAIN).await?.by_hash.get(&hash).cloned(),
        };
        let valid = found.filter(|token| token.is_valid(clock::now()));
        if valid.is_some() {
            self.note_use(hash);
        }
        Ok(valid)
    }

    async fn recent(&self) -> Result<List> {
        let list = self.list();
        if list.is_younger_than(FRESH) {
            return Ok(list);
        }
        if list.is_younger_than(STALE) {
            let Ok(_reading) = self.reading.try_lock() else {
                return Ok(list); // another request reads it
            };
            return Ok(self.read().await.unwrap_or(list));
        }
        self.read_unless_younger_than(FRESH).await
    }

    async fn read_unless_younger_than(&self, age: Duration) -> Result<List> {
        let _reading = self.reading.lock().await;
        let list = self.list();
        match list.is_younger_than(age) {
            true => Ok(list),
            false => self.read().await,
        }
    }

    /// The caller holds the lock `reading`.
    async fn read(&self) -> Result<List> {
        let began = Instant::now();
        let read = tokio::time::timeout(ANSWER_MAX, token::admitted(self.store.db())).await;
        let tokens = read.map_err(|late| Error::caused(ErrorKind::Unavailable, "read the tokens", late))??;
        let by_hash = tokens
            .into_iter()
            .map(|token| (token.hash().to_owned(), Arc::new(token)));
        let list = List {
            read_at: Some(began),
            by_hash: Arc::new(by_hash.collect()),
        };
        *self.list.write().unwrap_or_else(PoisonError::into_inner) = list.clone();
        self.write_use();
        Ok(list)
    }

    fn list(&self) -> List {
        self.list.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note_use(&self, hash: String) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.hashes.insert(hash);
    }

    /// Writes down which tokens were used, beside the request: a failure costs only the time that a list shows.
    fn write_use(&self) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.hashes.is_empty() || used.written_at.elapsed() < WRITE_USE {
            return;
        }
        used.written_at = Instant::now();
        let hashes: Vec<String> = std::mem::take(&mut used.hashes).into_iter().collect();
        let store = Arc::clone(&self.store);
        while used.writing.try_join_next().is_some() {}
        used.writing.spawn(async move {
            if let Err(error) = token::record_use(store.db(), &hashes).await {
                tracing::debug!(
                    error = error.report(),
                    "the last use of tokens could not be written down"
                );
            }
        });
    }
}
