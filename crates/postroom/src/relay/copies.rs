//! Removes the brokers' copies of dead letters that an operator has retried or discarded.
//!
//! An operator's command runs in a process without a broker, and signals. This job, in a process that a broker feeds, compares the
//! copies with the letters. A copy goes only if the store has its letter and the letter is decided; copies of other systems stay.
//! A copy that stays behind does no harm: the letter that counts is the one in the store.

mod decisions;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sea_orm::DatabaseConnection;
use tokio::sync::Mutex;
use uuid::Uuid;

use self::decisions::Decisions;
use crate::broker::{Broker, Letter, Mark, Message, Subscription};
use crate::error::{ErrorKind, Result};
use crate::job::Job;
use crate::route::{Route, Source};
use crate::state::dead::{self, LetterState};
use crate::store::outbox::{Outbox, with_timeout};

/// The job's name.
pub(crate) const JOB: &str = "dead-copies";
/// Copies looked at together.
const PAGE: usize = 200;
/// So many copies are looked at although all that are wanted were found: RabbitMQ puts those that were looked at behind the others, and
/// the order of a queue that was read to its end does not change.
const WHOLE: usize = 5_000;
/// Copies of a group looked at in one run. RabbitMQ holds them until the end of the run.
const COPIES_MAX: usize = 100_000;
/// How long one run goes on.
const RUN: Duration = Duration::from_secs(30);
/// A copy that was not found is looked for again after this time, and then after twice as long: it is written after its letter is
/// committed, and another tool may hold it for a while.
const AGAIN: Duration = Duration::from_secs(5);
/// How often it is looked for again.
const AGAIN_MAX: u32 = 4;

/// A group whose dead letters have copies.
#[derive(Debug)]
struct Group {
    name: String,
    broker: Arc<dyn Broker>,
    topics: Vec<String>,
}

/// The copies of a group that are to be removed.
#[derive(Debug)]
enum Wanted {
    /// Those of all decided letters: it is not known which decisions were made before the process began.
    All,
    /// Those of these letters.
    Of(Search),
}

/// Letters whose copies are looked for.
#[derive(Debug)]
struct Search {
    events: HashSet<Uuid>,
    from: Instant,
    /// How often some of them were not found.
    missed: u32,
}

/// The state that the job keeps from one run to the next.
#[derive(Debug, Default)]
struct Memory {
    /// Absent before the first run.
    decisions: Option<Decisions>,
    wanted: HashMap<String, Wanted>,
    /// Groups whose broker removes no copies.
    unsupported: HashSet<String>,
}

/// The job for the groups among these routes, if there are any.
pub(crate) fn job(routes: &[Route]) -> Option<Job> {
    let group = |route: &Route| match &route.from {
        Source::Broker { broker, topics, .. } => Some(Group {
            name: route.name.clone(),
            broker: Arc::clone(broker),
            topics: topics.clone(),
        }),
        Source::Outbox => None,
    };
    let groups: Vec<Group> = routes.iter().filter_map(group).collect();
    if groups.is_empty() {
        return None;
    }
    let shared = Arc::new((groups, Mutex::new(Memory::default())));
    Some(Job::on_signal(JOB, move |outbox: Arc<dyn Outbox>| {
        let shared = Arc::clone(&shared);
        async move {
            let (groups, memory) = &*shared;
            memory.lock().await.run(groups, outbox.db()).await
        }
    }))
}

impl Memory {
    /// Removes the copies that are due. Answers the number of removed copies plus the number of groups with more to do. A group
    /// that fails is tried again in the next run.
    async fn run(&mut self, groups: &[Group], db: &DatabaseConnection) -> Result<u64> {
        self.learn(groups, db).await?;
        let (deadline, mut removed) = (Instant::now() + RUN, 0);
        for group in groups {
            let Some(wanted) = self.take_due(&group.name) else {
                continue;
            };
            match sweep(group, &wanted, db, deadline).await {
                Ok(swept) => {
                    removed += swept.removed;
                    self.look_again(&group.name, wanted, &swept.found);
                }
                Err(error) if error.kind() == ErrorKind::Unsupported => {
                    tracing::info!(group = %group.name, "copies of dead letters stay: {}", error.report());
                    self.unsupported.insert(group.name.clone());
                }
                Err(error) => {
                    self.wanted.insert(group.name.clone(), wanted);
                    return Err(error);
                }
            }
        }
        Ok(removed + self.wanted.len() as u64)
    }

    /// Reads which letters were decided since the last run.
    async fn learn(&mut self, groups: &[Group], db: &DatabaseConnection) -> Result<()> {
        let Some(decisions) = &mut self.decisions else {
            self.decisions = Some(with_timeout(Decisions::begin(db)).await?);
            self.wanted = groups.iter().map(|group| (group.name.clone(), Wanted::All)).collect();
            return Ok(());
        };
        for decision in with_timeout(decisions.read(db)).await? {
            let is_theirs = groups.iter().any(|group| group.name == decision.route);
            if is_theirs && !self.unsupported.contains(&decision.route) {
                let wanted = self.wanted.remove(&decision.route);
                self.wanted
                    .insert(decision.route, Wanted::and(wanted, decision.event_id));
            }
        }
        Ok(())
    }

    fn take_due(&mut self, group: &str) -> Option<Wanted> {
        match self.wanted.get(group)? {
            Wanted::Of(search) if search.from > Instant::now() => None,
            Wanted::All | Wanted::Of(_) => self.wanted.remove(group),
        }
    }

    fn look_again(&mut self, group: &str, wanted: Wanted, found: &HashSet<Uuid>) {
        let Wanted::Of(search) = wanted else { return };
        if let Some(again) = search.without(found, Instant::now()) {
            self.wanted.insert(group.to_owned(), Wanted::Of(again));
        }
    }
}

impl Wanted {
    fn and(known: Option<Self>, event: Uuid) -> Self {
        let mut events = match known {
            Some(Self::All) => return Self::All,
            Some(Self::Of(search)) => search.events,
            None => HashSet::new(),
        };
        events.insert(event);
        Self::Of(Search {
            events,
            from: Instant::now(),
            missed: 0,
        })
    }

    /// Whether all of them are among these.
    fn is_among(&self, found: &HashSet<Uuid>) -> bool {
        match self {
            Self::All => false,
            Self::Of(search) => search.events.is_subset(found),
        }
    }
}

impl Search {
    /// The rest of the search and its next time; `None` if the search is over.
    fn without(mut self, found: &HashSet<Uuid>, now: Instant) -> Option<Self> {
        self.events.retain(|event| !found.contains(event));
        let wait = AGAIN * 2_u32.pow(self.missed);
        self.missed += 1;
        self.from = now + wait;
        (!self.events.is_empty() && self.missed <= AGAIN_MAX).then_some(self)
    }
}

/// The result of looking at a group's copies.
#[derive(Debug, Default)]
struct Swept {
    removed: u64,
    /// Letters with a copy less.
    found: HashSet<Uuid>,
}

/// Compares the copies of a group with its letters.
async fn sweep(group: &Group, wanted: &Wanted, db: &DatabaseConnection, deadline: Instant) -> Result<Swept> {
    let mut copies = group.broker.buried(&group.name, &group.topics).await?;
    let (mut swept, mut looked_at) = (Swept::default(), 0);
    let mut kept = HashMap::new();
    let is_enough = |swept: &Swept, looked_at| looked_at >= WHOLE && wanted.is_among(&swept.found);
    while !is_enough(&swept, looked_at) && looked_at < COPIES_MAX && Instant::now() < deadline {
        let page = copies.next(PAGE).await?;
        if page.is_empty() {
            break;
        }
        looked_at += page.len();
        // Read after the copies: a copy of a letter that died again is on the broker only after that is committed.
        let done = superfluous(&page, &group.name, db, &mut kept).await?;
        swept.removed += remove(&mut *copies, &done).await?;
        swept.found.extend(done.into_iter().map(|(event, _)| event));
    }
    Ok(swept)
}

async fn remove(copies: &mut dyn Subscription, done: &[(Uuid, Mark)]) -> Result<u64> {
    let marks: Vec<Mark> = done.iter().map(|(_, mark)| mark.clone()).collect();
    copies.ack(&marks).await?;
    Ok(marks.len() as u64)
}

/// The copies that are to be removed: those of decided letters, and all but one of a letter that died again.
async fn superfluous(
    page: &[Message],
    route: &str,
    db: &DatabaseConnection,
    kept: &mut HashMap<Uuid, Mark>,
) -> Result<Vec<(Uuid, Mark)>> {
    let event_of = |copy: &Message| copy.fields.text(Letter::EVENT_ID)?.parse::<Uuid>().ok();
    let of_letters: Vec<(Uuid, &Mark)> = page
        .iter()
        .filter_map(|copy| Some((event_of(copy)?, &copy.mark)))
        .collect();
    let events: Vec<Uuid> = of_letters.iter().map(|(event, _)| *event).collect();
    let states = with_timeout(dead::states(db, route, &events)).await?;
    let mut done = Vec::new();
    for (event, mark) in of_letters {
        match states.get(&event) {
            Some(LetterState::Retried | LetterState::Discarded) => done.push((event, mark.clone())),
            Some(LetterState::Dead) => {
                let earlier = kept.insert(event, mark.clone());
                done.extend(earlier.map(|earlier| (event, earlier)));
            }
            None => {}
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_is_not_found_is_looked_for_a_few_times() {
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let begin = Instant::now();
        let search = Search {
            events: HashSet::from([one, other]),
            from: begin,
            missed: 0,
        };
        let mut search = search.without(&HashSet::from([one]), begin).unwrap();
        assert_eq!((search.events.len(), search.from), (1, begin + AGAIN));
        search = search.without(&HashSet::new(), begin).unwrap();
        assert_eq!(search.from, begin + AGAIN * 2);
        let rest = (2..=AGAIN_MAX).try_fold(search, |search, _| search.without(&HashSet::new(), begin));
        assert!(rest.is_none());
    }

    #[test]
    fn decisions_are_added_to_what_is_wanted() {
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let both = Wanted::and(Some(Wanted::and(None, one)), other);
        assert!(both.is_among(&HashSet::from([one, other])));
        assert!(!both.is_among(&HashSet::from([one])));
        assert!(!Wanted::and(Some(Wanted::All), one).is_among(&HashSet::from([one])));
    }
}
