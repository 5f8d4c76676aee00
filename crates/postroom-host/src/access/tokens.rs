//! The tokens that are accepted now. A request with a token has the list read again if it is older than two seconds.
//!
//! A task of its own reads the list, one at a time: a caller that gives up does not end it, and does not begin another. A request
//! with a known token never waits, unless the list is too old.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postroom::operate::token::{self, Digest, Token};
use postroom::{Error, ErrorKind, Inspect, Result, clock};
use sea_orm::DatabaseConnection;
use time::OffsetDateTime;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// Connections that read the list. One is enough; the other replaces one that does not answer.
const READERS: u32 = 2;

/// Times of the readings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// A request that finds an older list has it read again.
    fresh: Duration,
    /// An older list is not used: within this time every process has seen a revocation.
    stale: Duration,
    /// The shortest time between two readings, also after failures and for unknown tokens, which may be new ones.
    again: Duration,
    /// How long the store may take to answer.
    answer: Duration,
    /// How long after a use it is written down.
    write_use: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            fresh: Duration::from_secs(2),
            stale: Duration::from_secs(4),
            again: Duration::from_millis(500),
            answer: Duration::from_secs(2),
            write_use: Duration::from_secs(30),
        }
    }
}

/// The accepted tokens of one process.
#[derive(Debug)]
pub(super) struct Tokens {
    shared: Arc<Shared>,
    tasks: Mutex<JoinSet<()>>,
}

#[derive(Debug)]
struct Shared {
    readers: DatabaseConnection,
    /// For the last use of tokens.
    db: DatabaseConnection,
    pace: Pace,
    list: watch::Sender<List>,
    /// When each token was used last, until it is written down.
    used: Mutex<HashMap<String, OffsetDateTime>>,
}

#[derive(Debug, Default)]
struct List {
    by_digest: HashMap<Digest, Accepted>,
    /// The beginning of the reading that brought the list.
    read_at: Option<Instant>,
    /// The beginning of the last reading.
    tried_at: Option<Instant>,
    is_being_read: bool,
}

#[derive(Debug)]
struct Accepted {
    token: Arc<Token>,
    /// Whether a use was noted since the list was read: one note in two seconds is enough.
    is_use_noted: AtomicBool,
}

impl Accepted {
    fn new(token: Token) -> Self {
        Self {
            token: Arc::new(token),
            is_use_noted: AtomicBool::new(false),
        }
    }
}

/// The answer of the list about a token.
struct Answer {
    token: Option<Arc<Token>>,
    /// Whether the list is young enough to be believed.
    is_usable: bool,
    /// Whether to read the list now.
    is_due: bool,
    /// Whether to note that the token is used.
    note_use: bool,
}

impl List {
    fn is_younger_than(&self, age: Duration, now: Instant) -> bool {
        self.read_at.is_some_and(|at| now.duration_since(at) < age)
    }

    /// Whether to read it now.
    fn is_due(&self, is_known: bool, pace: &Pace, now: Instant) -> bool {
        let is_wanted = !is_known || !self.is_younger_than(pace.fresh, now);
        // A reading that is still marked as running after twice its time has panicked or was held up; another one may start.
        let pause = if self.is_being_read {
            pace.answer * 2
        } else {
            pace.again
        };
        is_wanted && self.tried_at.is_none_or(|at| now.duration_since(at) >= pause)
    }
}

impl Tokens {
    pub(super) fn new(store: &dyn Inspect) -> Self {
        Self::paced(store, Pace::default())
    }

    fn paced(store: &dyn Inspect, pace: Pace) -> Self {
        Self {
            shared: Arc::new(Shared {
                readers: store.readers(READERS),
                db: store.db().clone(),
                pace,
                list: watch::Sender::default(),
                used: Mutex::default(),
            }),
            tasks: Mutex::default(),
        }
    }

    /// The token with this text, if it is accepted. An error if the list is too old because the store does not answer.
    pub(super) async fn find(&self, text: &str) -> Result<Option<Arc<Token>>> {
        let digest = token::digest(text);
        let mut answer = self.shared.ask(&digest);
        if answer.is_due
            && let Some(begun_at) = self.shared.begin_if_due(answer.token.is_some())
        {
            let shared = Arc::clone(&self.shared);
            self.spawn(async move { shared.read(begun_at).await });
        }
        if answer.token.is_none() || !answer.is_usable {
            self.shared.wait_for_reading().await;
            answer = self.shared.ask(&digest);
        }
        if !answer.is_usable {
            return Err(Error::new(ErrorKind::Unavailable, "read the tokens"));
        }
        let now = clock::now();
        let valid = answer.token.filter(|token| token.is_valid(now));
        if let Some(token) = valid.as_ref().filter(|_| answer.note_use) {
            self.note_use(token, now);
        }
        Ok(valid)
    }

    fn note_use(&self, token: &Token, now: OffsetDateTime) {
        let mut used = self.shared.used.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = used.is_empty();
        used.insert(token.hash().to_owned(), now);
        drop(used);
        if is_first {
            let shared = Arc::clone(&self.shared);
            self.spawn(async move { shared.write_use().await });
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }
}

impl Shared {
    fn ask(&self, digest: &Digest) -> Answer {
        let now = Instant::now();
        let list = self.list.borrow();
        let found = list.by_digest.get(digest);
        // A read is cheap; a write would take the memory away from other cores.
        let note_use = found.is_some_and(|found| {
            !found.is_use_noted.load(Ordering::Relaxed) && !found.is_use_noted.swap(true, Ordering::Relaxed)
        });
        Answer {
            token: found.map(|found| Arc::clone(&found.token)),
            is_usable: list.is_younger_than(self.pace.stale, now),
            is_due: list.is_due(found.is_some(), &self.pace, now),
            note_use,
        }
    }

    /// The beginning of a reading that the caller must do now. Only one of several callers must.
    fn begin_if_due(&self, is_known: bool) -> Option<Instant> {
        let begun_at = Instant::now();
        let is_due = self.list.send_if_modified(|list| {
            let is_due = list.is_due(is_known, &self.pace, begun_at);
            if is_due {
                list.tried_at = Some(begun_at);
                list.is_being_read = true;
            }
            is_due
        });
        is_due.then_some(begun_at)
    }

    async fn wait_for_reading(&self) {
        let mut list = self.list.subscribe();
        let ended = list.wait_for(|list| !list.is_being_read);
        // The caller looks at the list in any case.
        drop(timeout(self.pace.answer, ended).await);
    }

    /// Reads the list once. Keeps the old one if that fails, or if another reading has begun since.
    async fn read(&self, begun_at: Instant) {
        let read = timeout(self.pace.answer, token::admitted(&self.readers)).await;
        let read = read.unwrap_or_else(|late| Err(Error::caused(ErrorKind::Unavailable, "read the tokens", late)));
        if let Err(error) = &read {
            tracing::warn!(error = error.report(), "the tokens of callers could not be read");
        }
        self.list.send_modify(|list| {
            if list.tried_at != Some(begun_at) {
                return;
            }
            list.is_being_read = false;
            if let Ok(tokens) = read {
                let accepted = tokens
                    .into_iter()
                    .filter_map(|token| Some((token.digest()?, Accepted::new(token))));
                list.by_digest = accepted.collect();
                list.read_at = Some(begun_at);
            }
        });
    }

    /// Writes down, a little later, when tokens were used. A failure costs only the times that a list shows.
    async fn write_use(&self) {
        sleep(self.pace.write_use).await;
        let used = std::mem::take(&mut *self.used.lock().unwrap_or_else(PoisonError::into_inner));
        if let Err(error) = token::record_use(&self.db, &used).await {
            tracing::warn!(
                error = error.report(),
                "the last use of tokens could not be written down"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use postroom::operate::token::{NewToken, Role, Scope};
    use postroom_testkit::wait::until;
    use postroom_testkit::{Fresh, fresh};

    use super::*;

    async fn make(fresh: &Fresh) -> String {
        let new = NewToken {
            name: "kim".to_owned(),
            role: Role::Viewer,
            scope: Scope::default(),
            expires_at: None,
        };
        token::create(fresh.db(), &new, "test").await.unwrap().to_string()
    }

    #[tokio::test]
    async fn a_list_that_is_too_old_is_not_believed() {
        let fresh = fresh::sqlite().await;
        let text = make(&fresh).await;
        let store = fresh.store();
        let stale = Duration::from_secs(1);
        let pace = Pace {
            stale,
            ..Pace::default()
        };
        let tokens = Tokens::paced(&*store, pace);
        assert!(tokens.find(&text).await.unwrap().is_some());
        tokens.shared.readers.close_by_ref().await.unwrap(); // the store is away now
        sleep(stale).await;
        let refused = tokens.find(&text).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
    }

    #[tokio::test]
    async fn a_reading_that_was_overtaken_changes_nothing() {
        let fresh = fresh::sqlite().await;
        let text = make(&fresh).await;
        let tokens = Tokens::new(&*fresh.store());
        assert!(tokens.find(&text).await.unwrap().is_some());
        let read_at = tokens.shared.list.borrow().read_at.unwrap();
        tokens.shared.read(read_at - Duration::from_secs(1)).await;
        assert_eq!(tokens.shared.list.borrow().read_at, Some(read_at));
    }

    #[tokio::test]
    async fn guesses_read_the_list_at_most_so_often() {
        let fresh = fresh::sqlite().await;
        let pace = Pace {
            again: Duration::from_secs(3600),
            stale: Duration::from_secs(3600),
            ..Pace::default()
        };
        let tokens = Tokens::paced(&*fresh.store(), pace);
        assert!(tokens.find("postroom_viewer_0").await.unwrap().is_none());
        let tried_at = tokens.shared.list.borrow().tried_at;
        for guess in 1..100 {
            assert!(
                tokens
                    .find(&format!("postroom_viewer_{guess}"))
                    .await
                    .unwrap()
                    .is_none()
            );
        }
        assert_eq!(tokens.shared.list.borrow().tried_at, tried_at);
    }

    #[tokio::test]
    async fn the_time_of_a_use_is_written_down() {
        let fresh = fresh::sqlite().await;
        let text = make(&fresh).await;
        let pace = Pace {
            write_use: Duration::from_millis(10),
            ..Pace::default()
        };
        let tokens = Tokens::paced(&*fresh.store(), pace);
        let before = clock::now() - Duration::from_millis(1);
        assert!(tokens.find(&text).await.unwrap().is_some());
        let after = clock::now();
        let last_use = async || token::list(fresh.db()).await.unwrap()[0].last_used_at;
        until("the use is written down", || async { last_use().await.is_some() }).await;
        let used = last_use().await.unwrap();
        assert!(before <= used && used <= after, "{before} {used} {after}");
    }
}
