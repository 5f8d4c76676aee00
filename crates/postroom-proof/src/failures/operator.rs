//! An operator at work during the run: decides on dead letters, replays keys, schedules events and cancels some of them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use postroom::dead::{self, DeadLetter, LetterState, Selection};
use postroom::replay::{self, Range, Replay};
use postroom::table::{self, Table, named};
use postroom::{DomainEvent, Error, Inspect, Result, clock};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use sea_orm::sea_query::{Expr, ExprTrait, Func, Query, SelectStatement};
use sea_orm::{ConnectionTrait, DatabaseConnection};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::check::{Acts, Decision};
use super::counts::Counts;
use super::fate::{Fate, hash};
use super::{Failures, Group, work};
use crate::workload::Change;

/// Between two rounds.
const ROUND: Duration = Duration::from_millis(250);
/// One of so many rounds begins a replay.
const REPLAY_EVERY: u64 = 3;
/// One of so many keys is replayed; the others stay as they are.
const REPLAYED_KEYS: u32 = 4;
/// Letters read in one statement.
const PAGE: u16 = 500;
/// How long a scheduled event waits at most.
const SCHEDULED_MS_MAX: i64 = 2_000;
/// The actor in the operators' log.
const ACTOR: &str = "verify";

/// The operator.
pub(super) struct Operator<'a> {
    run: &'a Failures,
    store: &'a dyn Inspect,
    rng: StdRng,
    parked: HashSet<(String, i64)>,
    held: HashSet<(String, i64)>,
    /// How often each letter was retried.
    retries: HashMap<i64, u32>,
    replayed: HashMap<Group, HashSet<String>>,
    scheduled: VecDeque<(String, Uuid)>,
    counts: Counts,
}

impl<'a> Operator<'a> {
    pub(super) fn new(run: &'a Failures, store: &'a dyn Inspect) -> Self {
        Self {
            run,
            store,
            rng: StdRng::seed_from_u64(run.workload.seed),
            parked: HashSet::new(),
            held: HashSet::new(),
            retries: HashMap::new(),
            replayed: HashMap::new(),
            scheduled: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    /// Runs rounds until `stop`. A change that the database refuses is tried again in a later round.
    pub(super) async fn run(&mut self, stop: &CancellationToken) {
        let mut number = 0_u64;
        while !stop.is_cancelled() {
            self.decide().await;
            let tried = self.schedule().await;
            self.noted("schedule", tried);
            let tried = self.cancel().await;
            self.noted("cancel", tried);
            if number.is_multiple_of(REPLAY_EVERY) {
                let tried = self.replay().await;
                self.noted("replay", tried);
            }
            number += 1;
            stop.run_until_cancelled(sleep(ROUND)).await;
        }
    }

    fn noted(&self, act: &str, outcome: Result<()>) {
        if let Err(error) = outcome {
            tracing::debug!(act, error = error.report(), "the operator was refused");
        }
    }

    /// Looks at what is parked, and decides on every dead letter.
    pub(super) async fn decide(&mut self) {
        let looked = self.look().await;
        self.noted("look", looked);
        let decided = self.decide_letters().await;
        self.noted("decide", decided);
    }

    async fn look(&mut self) -> Result<()> {
        let db = self.store.db();
        let mut select = Query::select();
        select
            .columns(["route", "id", "state"])
            .from(named(db, Table::Parked))
            .and_where(Expr::col("route").is_in(self.run.routes()));
        let rows = db
            .query_all(&select)
            .await
            .map_err(|source| Error::db("look at what is parked", source))?;
        for row in &rows {
            let place: (String, i64) = (row.try_get("", "route")?, row.try_get("", "id")?);
            if row.try_get::<String>("", "state")? == "held" {
                self.held.insert(place.clone());
            }
            self.parked.insert(place);
        }
        Ok(())
    }

    async fn decide_letters(&mut self) -> Result<()> {
        let (mut retry, mut discard) = (Vec::new(), Vec::new());
        for (group, letter, change) in self.letters(Some(LetterState::Dead)).await? {
            match self.is_discarded(group, letter.dead_id, &change) {
                true => discard.push(letter.dead_id),
                false => retry.push(letter.dead_id),
            }
        }
        let db = self.store.db();
        for dead_ids in retry.chunks(usize::from(PAGE)) {
            self.counts.retried += dead::retry(db, &these(dead_ids), ACTOR).await?;
            for dead_id in dead_ids {
                *self.retries.entry(*dead_id).or_default() += 1;
            }
        }
        for dead_ids in discard.chunks(usize::from(PAGE)) {
            self.counts.discarded += dead::discard(db, &these(dead_ids), ACTOR, "the run says so").await?;
        }
        Ok(())
    }

    /// Whether a letter is discarded: one in four, and what was retried and will never succeed.
    fn is_discarded(&self, group: Group, dead_id: i64, change: &Change) -> bool {
        let workload = &self.run.workload;
        match work::fate(workload.seed, group.name(), &workload.prefix, change) {
            Fate::Hopeless => self.retries.contains_key(&dead_id),
            Fate::Fine | Fate::NowAndThen(..) => hash(&(group, &change.key, change.ver)).is_multiple_of(4),
        }
    }

    /// The dead letters of the run.
    async fn letters(&self, state: Option<LetterState>) -> Result<Vec<(Group, DeadLetter, Change)>> {
        let which = Selection {
            routes: self.run.routes(),
            state,
            ..Selection::default()
        };
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let letters = dead::list(self.store.db(), &which, before, u64::from(PAGE)).await?;
            let Some(last) = letters.last() else {
                return Ok(found);
            };
            before = Some(last.dead_id);
            for letter in letters {
                let group = Group::ALL
                    .into_iter()
                    .find(|group| self.run.route(group.name()) == letter.route);
                if let (Some(group), Some(change)) = (group, Change::of(&letter.entry.event)?) {
                    found.push((group, letter, change));
                }
            }
        }
    }

    /// Replays one key to one group. It counts as replayed from before the order is given.
    async fn replay(&mut self) -> Result<()> {
        let groups = [Group::Inbox, Group::Skip, Group::Upsert, Group::Sink];
        let at = self.rng.random_range(0..groups.len());
        let Some(group) = groups.get(at).copied() else {
            return Ok(());
        };
        let keys = self.run.workload.keys / 32; // to which four of ten transactions go
        let number = self.rng.random_range(0..keys) / REPLAYED_KEYS * REPLAYED_KEYS;
        let key = self.run.workload.key(number);
        self.replayed.entry(group).or_default().insert(key.clone());
        let replay = Replay {
            route: self.run.route(group.name()),
            range: Range {
                aggregate_type: Some(Change::AGGREGATE_TYPE.to_owned()),
                aggregate_id: Some(key),
                ..Range::default()
            },
            per_second: 500,
            again: false,
        };
        replay::start(self.store, &replay, ACTOR).await?;
        Ok(())
    }

    /// Replays another key if nothing was replayed yet: the relay that began with it may have been killed.
    pub(super) async fn replay_once(&mut self) -> Result<()> {
        if self.count_replayed().await? == 0 {
            let tried = self.replay().await;
            self.noted("replay", tried);
        }
        Ok(())
    }

    /// Schedules one event, with a key of its own.
    async fn schedule(&mut self) -> Result<()> {
        let key = format!("{}-s{}", self.run.workload.prefix, Uuid::now_v7().simple());
        let wait = time::Duration::milliseconds(self.rng.random_range(0..SCHEDULED_MS_MAX));
        let tx = table::begin(self.store.db()).await?;
        self.run.workload.add_key(&tx, &key).await?;
        let change = Change {
            key: key.clone(),
            ver: 1,
        };
        let event_id = postroom::emit_at(&tx, &change, clock::now() + wait).await?;
        tx.commit().await?;
        self.scheduled.push_back((key, event_id));
        Ok(())
    }

    /// Cancels one event of three, at about the time when it is due: it may be too late.
    async fn cancel(&mut self) -> Result<()> {
        if self.scheduled.len() < 4 {
            return Ok(());
        }
        let Some((key, event_id)) = self.scheduled.pop_front().filter(|_| self.rng.random_bool(0.33)) else {
            return Ok(());
        };
        let tx = table::begin(self.store.db()).await?;
        if postroom::cancel(&tx, event_id).await? {
            self.run.workload.remove_key(&tx, &key).await?;
            tx.commit().await?;
            self.counts.cancelled += 1;
        }
        Ok(())
    }

    /// How much is still to be done: parked entries, letters to be decided on, scheduled events, the first replay. Other replays
    /// need not come to their end: whatever they bring was delivered before.
    pub(super) async fn pending(&self) -> Result<u64> {
        let db = self.store.db();
        let of_run = || Expr::col("route").is_in(self.run.routes());
        let counting = |table: Table, condition: Expr| -> SelectStatement {
            let mut select = Query::select();
            select
                .expr_as(Expr::cust("count(*)"), "total")
                .from(named(db, table))
                .and_where(condition);
            select
        };
        let scheduled = Expr::col("aggregate_id").like(format!("{}%", self.run.workload.prefix));
        let mut pending = u64::from(self.count_replayed().await? == 0);
        for select in [
            counting(Table::Parked, of_run()),
            counting(
                Table::Failed,
                of_run().and(Expr::col("state").eq(LetterState::Dead.name())),
            ),
            counting(Table::Scheduled, scheduled),
        ] {
            pending += total(db, &select).await?;
        }
        Ok(pending)
    }

    /// The counts so far.
    pub(super) async fn counts(&self) -> Result<Counts> {
        Ok(Counts {
            parked: self.parked.len() as u64,
            held: self.held.len() as u64,
            replayed: self.count_replayed().await?,
            ..self.counts
        })
    }

    async fn count_replayed(&self) -> Result<u64> {
        let db = self.store.db();
        let sum = Func::cast_as(Func::coalesce([Expr::col("parked").sum(), 0.into()]), signed(db));
        let mut select = Query::select();
        select
            .expr_as(sum, "total")
            .from(named(db, Table::Replay))
            .and_where(Expr::col("route").is_in(self.run.routes()));
        total(db, &select).await
    }

    /// The operator's acts on the events of each group. Of two letters of one event the one that was retried counts.
    pub(super) async fn acts(&self) -> Result<HashMap<Group, Acts>> {
        let mut acts: HashMap<Group, Acts> = HashMap::new();
        for (group, keys) in &self.replayed {
            acts.entry(*group).or_default().replayed.clone_from(keys);
        }
        for (group, letter, change) in self.letters(None).await? {
            let decision = match letter.state {
                LetterState::Discarded => Decision::Discarded,
                LetterState::Retried => Decision::Retried,
                LetterState::Dead => Decision::None,
            };
            let letters = &mut acts.entry(group).or_default().letters;
            let known = letters.entry((change.key, change.ver)).or_insert(decision);
            if decision != Decision::Discarded {
                *known = decision;
            }
        }
        Ok(acts)
    }
}

fn these(dead_ids: &[i64]) -> Selection {
    Selection {
        dead_ids: dead_ids.to_vec(),
        ..Selection::default()
    }
}

/// The type of a whole number in a cast.
fn signed(db: &DatabaseConnection) -> &'static str {
    match db.get_database_backend() {
        sea_orm::DbBackend::MySql => "signed",
        _ => "bigint",
    }
}

async fn total(db: &DatabaseConnection, select: &SelectStatement) -> Result<u64> {
    let row = db
        .query_one(select)
        .await
        .map_err(|source| Error::db("count what is to be done", source))?;
    let total: i64 = row.map_or(Ok(0), |row| row.try_get("", "total"))?;
    Ok(u64::try_from(total).unwrap_or(0))
}
