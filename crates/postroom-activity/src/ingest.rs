//! Client ingest: from the events of one request to an answer for each.

mod metrics;

use std::collections::HashSet;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use postroom::{Condition, Error, ErrorKind, Result, clock};
use postroom_host::{Host, Module};
use postroom_shared::RateLimiter;
use postroom_shared::rate_limit::{FallbackRateLimiter, TakenFrom};
use tokio::time::timeout;

use crate::catalogue::Catalogue;
use crate::event::ActivityEvent;
use crate::orchestrator::{Orchestrator, Stored};
use crate::policy::{self, Drop, IngestPolicy, Judged, Sender, Unreadable};
use crate::privacy::{Admitted, ClientTrace, Privacy};
use crate::tables;

use metrics::Metrics;

/// How long a request waits for a transaction to begin: for a free connection, and on SQLite for the other writers.
const BEGIN_MAX: Duration = Duration::from_secs(2);
/// The window of the rate limit.
pub(crate) const WINDOW: Duration = Duration::from_mins(1);

/// Settings of client ingest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IngestSettings {
    /// Whether clients may send events.
    pub client_ingest_enabled: bool,
    /// Events in one request.
    pub ingest_max_batch_size: NonZeroUsize,
    /// Requests of one client in a minute.
    pub ingest_rate_limit_per_minute: NonZeroU32,
}

impl Default for IngestSettings {
    fn default() -> Self {
        Self {
            client_ingest_enabled: false,
            ingest_max_batch_size: const { NonZeroUsize::new(100).unwrap() },
            ingest_rate_limit_per_minute: const { NonZeroU32::new(120).unwrap() },
        }
    }
}

/// Takes events of clients.
#[derive(Debug)]
pub(crate) struct Ingest {
    pub(crate) settings: IngestSettings,
    policy: IngestPolicy,
    pub(crate) privacy: Arc<Privacy>,
    orchestrator: Orchestrator,
    /// The rate limiter that instances share, if the module was given one.
    shared: Option<Arc<dyn RateLimiter>>,
    /// Made for the first request, which shows the process.
    limiter: OnceLock<FallbackRateLimiter>,
    metrics: Metrics,
}

/// The answer to one item of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is stored, without the fields and properties that are listed here.
    Ok { removed: Vec<String> },
    /// It was stored before.
    Duplicate,
    /// It is not stored, and never will be.
    Dropped(Drop),
    /// It is not stored now; the client sends it again.
    Retry,
}

/// One item of a request, with its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    /// Its id, if it has a usable one.
    pub(crate) event_id: Option<String>,
    pub(crate) answer: Answer,
}

/// An event that is to be stored, with its place in the request.
struct Accepted {
    place: usize,
    event: Admitted,
}

impl Ingest {
    pub(crate) fn new(
        settings: IngestSettings,
        catalogue: Catalogue,
        (orchestrator, privacy): (Orchestrator, Arc<Privacy>),
        shared: Option<Arc<dyn RateLimiter>>,
    ) -> Self {
        Self {
            settings,
            policy: IngestPolicy::new(catalogue),
            privacy,
            orchestrator,
            shared,
            limiter: OnceLock::new(),
            metrics: Metrics::default(),
        }
    }

    /// Adds its metrics to the module.
    pub(crate) fn register(&self, module: Module) -> Module {
        let metrics = self.metrics.clone();
        module.metrics(move |registry| metrics.register(registry))
    }

    /// Counts a request of this client.
    pub(crate) async fn count_request(&self, host: &Host, client: &str) -> postroom_shared::Taken {
        let limit = self.settings.ingest_rate_limit_per_minute.get();
        let shared = || {
            self.shared
                .clone()
                .unwrap_or_else(|| Arc::clone(&host.shared.rate_limiter))
        };
        let limiter = self.limiter.get_or_init(|| FallbackRateLimiter::new(shared()));
        let taken = limiter.take(client, limit, WINDOW).await;
        if matches!(taken, TakenFrom::Fallback(_)) {
            self.metrics.fallbacks.inc();
        }
        let taken = taken.taken();
        if !taken.is_allowed {
            self.metrics.limited.inc();
        }
        taken
    }

    /// Judges and stores the events of a request. Returns the answer to each, in their order.
    pub(crate) async fn handle(
        &self,
        host: &Host,
        events: &[&str],
        (sender, trace): (Sender, &ClientTrace),
    ) -> Vec<Answered> {
        let (mut answers, accepted) = self.judge(events, sender, trace);
        let stored = self.store(host, &accepted).await;
        for (Accepted { place, .. }, answer) in accepted.iter().zip(stored) {
            if let Some(answered) = answers.get_mut(*place) {
                answered.answer = with_remarks(answer, &answered.answer);
            }
        }
        for answered in &answers {
            self.metrics.count(&answered.answer);
        }
        answers
    }

    /// Decides about each event. The answer of one that is to be stored says that it is stored, until the store says otherwise.
    fn judge(&self, events: &[&str], sender: Sender, trace: &ClientTrace) -> (Vec<Answered>, Vec<Accepted>) {
        let now = clock::now();
        let (mut answers, mut accepted) = (Vec::new(), Vec::new());
        for (place, text) in events.iter().enumerate() {
            let answered = match policy::read(text) {
                Err(Unreadable { event_id, reason }) => Answered {
                    event_id,
                    answer: Answer::Dropped(reason),
                },
                Ok(client) => {
                    let event_id = Some(client.event.event_id.clone());
                    let answer = match self.policy.judge(client, sender, now) {
                        Judged::Dropped(reason) => Answer::Dropped(reason),
                        Judged::Accepted { event, removed } => match self.admit(*event, trace) {
                            Ok(event) => {
                                accepted.push(Accepted { place, event });
                                Answer::Ok { removed }
                            }
                            Err(reason) => Answer::Dropped(reason),
                        },
                    };
                    Answered { event_id, answer }
                }
            };
            answers.push(answered);
        }
        (answers, accepted)
    }

    /// The event as it is stored, unless it has become too long by that.
    fn admit(&self, event: ActivityEvent, trace: &ClientTrace) -> Result<Admitted, Drop> {
        let admitted = self.privacy.admit_from(event, trace);
        let admitted = admitted.map_err(|error| Drop::InvalidField(error.doing().to_owned()))?;
        policy::check_storable(&admitted)?;
        Ok(admitted)
    }

    /// Stores events together. If the database refuses a value, each event alone, so that one event costs no other.
    async fn store(&self, host: &Host, accepted: &[Accepted]) -> Vec<Answer> {
        let events: Vec<Admitted> = accepted.iter().map(|accepted| accepted.event.clone()).collect();
        match self.try_store(host, &events).await {
            Ok(answers) => answers,
            Err(error) if is_refused(&error) && events.len() > 1 => {
                let mut answers = Vec::with_capacity(events.len());
                for event in events.chunks(1) {
                    let stored = self.try_store(host, event).await;
                    answers.extend(stored.unwrap_or_else(|error| vec![failed(&error)]));
                }
                answers
            }
            Err(error) => vec![failed(&error); events.len()],
        }
    }

    /// One transaction: the rows, and the events for the sinks.
    async fn try_store(&self, host: &Host, events: &[Admitted]) -> Result<Vec<Answer>> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let begun = timeout(BEGIN_MAX, host.begin()).await;
        let tx = begun.map_err(|_late| Error::new(ErrorKind::Unavailable, "no transaction could begin in time"))??;
        tables::limit_waits(&tx).await?;
        let stored = self.orchestrator.store_admitted(&tx, events).await?;
        tx.commit().await?;
        Ok(stored.into_iter().map(Answer::from).collect())
    }
}

impl From<Stored> for Answer {
    fn from(stored: Stored) -> Self {
        match stored {
            Stored::New => Self::Ok { removed: Vec::new() },
            Stored::Known => Self::Duplicate,
            Stored::Conflicting => Self::Dropped(Drop::ConflictingEventId),
        }
    }
}

/// The answer of the store. For a stored event, it also lists what was removed from the event.
fn with_remarks(stored: Answer, judged: &Answer) -> Answer {
    match (&stored, judged) {
        (Answer::Ok { .. }, Answer::Ok { .. }) => judged.clone(),
        _ => stored,
    }
}

/// Whether the database or the engine refuses a value, whenever it comes.
pub(crate) fn is_refused(error: &Error) -> bool {
    error.kind() == ErrorKind::Invalid || error.condition() == Condition::InvalidValue
}

/// The answer to an event that could not be stored. Only one that is refused for good is dropped: a client keeps the others.
fn failed(error: &Error) -> Answer {
    tracing::warn!(error = error.report(), "client events were not stored");
    match is_refused(error) {
        true => Answer::Dropped(Drop::NotStorable),
        false => Answer::Retry,
    }
}

/// The answers of a request, each id once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ById {
    /// In the order of the request. An item that repeats an earlier one has the answer of the first.
    pub(crate) results: Vec<(String, Answer)>,
    /// Items without a usable id, or with another content than the first with their id, and their places in the request.
    pub(crate) apart: Vec<(usize, Answer)>,
}

impl ById {
    pub(crate) fn of(answers: Vec<Answered>) -> Self {
        let (mut sorted, mut seen) = (Self::default(), HashSet::new());
        for (index, Answered { event_id, answer }) in answers.into_iter().enumerate() {
            match event_id {
                None => sorted.apart.push((index, answer)),
                Some(event_id) if seen.insert(event_id.clone()) => sorted.results.push((event_id, answer)),
                Some(_) if matches!(answer, Answer::Dropped(_)) => sorted.apart.push((index, answer)),
                Some(_) => {}
            }
        }
        sorted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_has_one_answer() {
        let answered = |event_id: Option<&str>, answer: Answer| Answered {
            event_id: event_id.map(str::to_owned),
            answer,
        };
        let ok = || Answer::Ok { removed: Vec::new() };
        let (missing, conflict) = (Drop::MissingEventId, Drop::ConflictingEventId);
        let ById { results, apart } = ById::of(vec![
            answered(Some("b"), ok()),
            answered(None, Answer::Dropped(missing.clone())),
            answered(Some("a"), Answer::Retry),
            answered(Some("b"), Answer::Duplicate),
            answered(Some("b"), Answer::Dropped(conflict.clone())),
        ]);
        assert_eq!(results, [("b".to_owned(), ok()), ("a".to_owned(), Answer::Retry)]);
        assert_eq!(apart, [(1, Answer::Dropped(missing)), (4, Answer::Dropped(conflict))]);
    }
}
