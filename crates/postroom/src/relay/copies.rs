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
/// How often the copies of all decided letters are looked for again, if there are few copies: a tool may hold some of them.
const ALL_AGAIN_MAX: u32 = 2;

/// A group whose dead letters have copies.
#[derive(Debug)]
struct Group {
    name: String,
    broker: Arc<dyn Broker>,
    topics: Vec<String>,
}

/// The copies of a group that are looked for.
#[derive(Debug)]
struct Search {
    /// Whether those of all decided letters are: it is not known which decisions were made before the process began.
    is_for_all: bool,
    /// Letters that were decided since then.
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
    searches: HashMap<String, Search>,
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
            let Some(search) = self.take_due(&group.name) else {
                continue;
            };
            match sweep(group, &search, db, deadline).await {
                Ok(swept) => {
                    removed += swept.removed;
                    let again = search.without(&swept, Instant::now());
                    self.searches.extend(again.map(|again| (group.name.clone(), again)));
                }
                Err(error) if error.kind() == ErrorKind::Unsupported => {
                    tracing::info!(group = %group.name, "copies of dead letters stay: {}", error.report());
                    self.unsupported.insert(group.name.clone());
                }
                Err(error) => {
                    self.searches.insert(group.name.clone(), search);
                    return Err(error);
                }
            }
        }
        Ok(removed + self.searches.len() as u64)
    }

    /// Reads which letters were decided since the last run.
    async fn learn(&mut self, groups: &[Group], db: &DatabaseConnection) -> Result<()> {
        let Some(decisions) = &mut self.decisions else {
            self.decisions = Some(with_timeout(Decisions::begin(db)).await?);
            let all = |group: &Group| (group.name.clone(), Search::for_all());
            self.searches = groups.iter().map(all).collect();
            return Ok(());
        };
        for decision in with_timeout(decisions.read(db)).await? {
            let is_theirs = groups.iter().any(|group| group.name == decision.route);
            if is_theirs && !self.unsupported.contains(&decision.route) {
                let search = self.searches.entry(decision.route).or_insert_with(Search::new);
                search.add(decision.event_id);
            }
        }
        Ok(())
    }

    fn take_due(&mut self, group: &str) -> Option<Search> {
        let search = self.searches.get(group)?;
        let is_due = search.from <= Instant::now();
        is_due.then(|| self.searches.remove(group))?
    }
}

impl Search {
    fn new() -> Self {
        Self {
            is_for_all: false,
            events: HashSet::new(),
            from: Instant::now(),
            missed: 0,
        }
    }

    fn for_all() -> Self {
        Self {
            is_for_all: true,
            ..Self::new()
        }
    }

    /// Looks for the copy of this letter too, and begins now.
    fn add(&mut self, event: Uuid) {
        self.events.insert(event);
        self.from = Instant::now();
        self.missed = 0;
    }

    /// Whether nothing else has to be found.
    fn is_among(&self, found: &HashSet<Uuid>) -> bool {
        !self.is_for_all && self.events.is_subset(found)
    }

    /// The rest of the search and its next time; `None` if the search is over.
    fn without(mut self, swept: &Swept, now: Instant) -> Option<Self> {
        self.events.retain(|event| !swept.found.contains(event));
        let wait = AGAIN * 2_u32.pow(self.missed);
        self.missed += 1;
        self.from = now + wait;
        self.is_for_all &= self.missed <= ALL_AGAIN_MAX && swept.looked_at < WHOLE;
        let is_open = self.is_for_all || !self.events.is_empty();
        (is_open && self.missed <= AGAIN_MAX).then_some(self)
    }
}

/// The result of looking at a group's copies.
#[derive(Debug, Default)]
struct Swept {
    removed: u64,
    looked_at: usize,
    /// Letters with a copy less.
    found: HashSet<Uuid>,
}

/// Compares the copies of a group with its letters.
async fn sweep(group: &Group, search: &Search, db: &DatabaseConnection, deadline: Instant) -> Result<Swept> {
    let mut copies = group.broker.buried(&group.name, &group.topics).await?;
    let mut swept = Swept::default();
    let mut kept = HashMap::new();
    let is_enough = |swept: &Swept| swept.looked_at >= WHOLE && search.is_among(&swept.found);
    while !is_enough(&swept) && swept.looked_at < COPIES_MAX && Instant::now() < deadline {
        let page = copies.next(PAGE).await?;
        if page.is_empty() {
            break;
        }
        swept.looked_at += page.len();
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

    fn swept(looked_at: usize, found: &[Uuid]) -> Swept {
        Swept {
            removed: 0,
            looked_at,
            found: found.iter().copied().collect(),
        }
    }

    #[test]
    fn a_copy_that_is_not_found_is_looked_for_a_few_times() {
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let begin = Instant::now();
        let mut search = Search::new();
        search.add(one);
        search.add(other);
        let mut search = search.without(&swept(2, &[one]), begin).unwrap();
        assert_eq!((search.events.len(), search.from), (1, begin + AGAIN));
        search = search.without(&swept(2, &[]), begin).unwrap();
        assert_eq!(search.from, begin + AGAIN * 2);
        let rest = (2..=AGAIN_MAX).try_fold(search, |search, _| search.without(&swept(2, &[]), begin));
        assert!(rest.is_none());
    }

    #[test]
    fn the_copies_of_all_are_looked_for_again_if_they_are_few() {
        let begin = Instant::now();
        assert!(Search::for_all().without(&swept(WHOLE, &[]), begin).is_none());
        let again = (0..ALL_AGAIN_MAX).try_fold(Search::for_all(), |search, _| search.without(&swept(3, &[]), begin));
        let again = again.unwrap();
        assert!(again.is_for_all);
        assert!(again.without(&swept(3, &[]), begin).is_none());
    }

    #[test]
    fn decisions_are_added_to_a_search() {
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let mut search = Search::new();
        search.add(one);
        search.add(other);
        assert!(search.is_among(&HashSet::from([one, other])));
        assert!(!search.is_among(&HashSet::from([one])));
        let mut all = Search::for_all();
        all.add(one);
        assert!(!all.is_among(&HashSet::from([one])), "the others are wanted too");
        let rest = all.without(&swept(WHOLE, &[]), Instant::now()).unwrap();
        assert!(!rest.is_for_all && rest.events.contains(&one));
    }
}
