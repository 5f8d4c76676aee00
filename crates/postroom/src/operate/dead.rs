//! Dead letters: entries that were given up, kept with all that is needed to see why and to act.
//!
//! Retrying puts the entry back in front of its key; discarding lets the key go on without it. Neither deletes the
//! letter: it stays with what was decided, by whom and why.

use std::collections::{BTreeMap, HashMap, HashSet};

use sea_orm::sea_query::{Expr, ExprTrait, Order, Query, SelectStatement};
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, QueryResult};
use serde::Serialize;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::broker::UNREADABLE;
use crate::error::{Error, ErrorKind, Letters, NextStep, Result};
use crate::event::entry::Entry;
use crate::operate::audit;
use crate::state::cursor::{self, Shard};
use crate::state::dead::{DISCARD, RETRY, act_target};
use crate::state::parked::{self, Parked, ParkedBy, Parking};
use crate::state::renumber;
use crate::store::bounded;
use crate::store::db_clock::{db_now, read_stamp};
use crate::store::table::{self, Table, read_entry, read_time};
use crate::store::tx::Tx;

pub use crate::state::dead::LetterState;

/// Letters decided in one transaction.
const BATCH: u64 = 200;
/// About how many bytes they may be.
const BATCH_BYTES: usize = 4 << 20;
/// About how many bytes of letters are listed at once.
pub const LIST_BYTES: usize = 16 << 20;

/// Letters that can be named at once.
const NAMED_MAX: usize = 1_000;

/// An entry that was given up.
#[derive(Clone, Debug, Serialize)]
pub struct DeadLetter {
    /// Its number.
    pub dead_id: i64,
    /// Which route gave it up.
    pub route: String,
    /// Which shard of it.
    pub shard: u32,
    /// The entry.
    #[serde(flatten)]
    pub entry: Entry,
    /// How often it was tried.
    pub attempts: u32,
    /// The error of the last attempt.
    pub error: String,
    /// When it failed first.
    #[serde(with = "time::serde::rfc3339::option")]
    pub failed_at: Option<OffsetDateTime>,
    /// When it was given up.
    #[serde(with = "time::serde::rfc3339")]
    pub dead_at: OffsetDateTime,
    /// Whether it waits for a decision.
    pub state: LetterState,
    /// Why it was discarded.
    pub reason: Option<String>,
    /// The operator that decided.
    pub decided_by: Option<String>,
    /// When.
    #[serde(with = "time::serde::rfc3339::option")]
    pub decided_at: Option<OffsetDateTime>,
}

impl DeadLetter {
    /// The steps that an operator can take; none, once it is decided on.
    pub fn next_steps(&self) -> Vec<NextStep> {
        let letters = || Letters::Id(self.dead_id);
        match self.state {
            LetterState::Dead => vec![
                NextStep::Retry { letters: letters() },
                NextStep::Discard { letters: letters() },
            ],
            LetterState::Retried | LetterState::Discarded => Vec::new(),
        }
    }
}

/// Which dead letters.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// These numbers; empty means any.
    pub dead_ids: Vec<i64>,
    /// Of these routes; empty means any.
    pub routes: Vec<String>,
    /// Of these event types; empty means any.
    pub event_types: Vec<String>,
    /// Of this aggregate id.
    pub aggregate_id: Option<String>,
    /// Letters whose error contains this text.
    pub error: Option<String>,
    /// In this state; `None` means any.
    pub state: Option<LetterState>,
}

/// Dead letters, newest first, with a number below `before`; fewer than `limit` if they are large. The next page begins below the
/// last one's number. This writes nothing.
pub async fn list(
    db: &DatabaseConnection,
    which: &Selection,
    before: Option<i64>,
    limit: u64,
) -> Result<Vec<DeadLetter>> {
    let tx = table::look(db).await?;
    let mut select = rows(&tx, which);
    select.order_by("dead_id", Order::Desc).limit(limit);
    if let Some(before) = before {
        select.and_where(Expr::col("dead_id").lt(before));
    }
    let letters = read_rows(&tx, &select, LIST_BYTES).await?;
    tx.commit().await?;
    Ok(letters)
}

/// Puts dead letters back in front of their keys; answers how many. If one named letter cannot be retried, no letter is.
pub async fn retry(db: &DatabaseConnection, which: &Selection, actor: &str) -> Result<u64> {
    decide(db, which, actor, &Decision::Retry).await
}

/// Lets keys go on without these dead letters; answers how many. If one is named that cannot be discarded, none is.
pub async fn discard(db: &DatabaseConnection, which: &Selection, actor: &str, reason: &str) -> Result<u64> {
    if reason.trim().is_empty() {
        return Err(Error::invalid(
            "discarding needs a reason; it is kept with the dead letter",
        ));
    }
    decide(db, which, actor, &Decision::Discard(reason.to_owned())).await
}

enum Decision {
    Retry,
    Discard(String),
}

async fn decide(db: &DatabaseConnection, which: &Selection, actor: &str, decision: &Decision) -> Result<u64> {
    check_named(db, &which.dead_ids, decision).await?;
    if matches!(decision, Decision::Retry) {
        check_routes(db, which).await?;
    }
    let (mut decided, mut after) = (0, 0);
    loop {
        let tx = table::begin_own(db).await?;
        let letters = undecided(&tx, which, after, decision).await?;
        if letters.is_empty() {
            tx.rollback().await?;
            break;
        }
        decided += letters.len() as u64;
        after = letters.last().map_or(after, |letter| letter.dead_id); // one that dies again meanwhile is not decided twice
        let mut by_route: BTreeMap<&str, Vec<Parked>> = BTreeMap::new();
        for letter in &letters {
            by_route.entry(&letter.route).or_default().push(again(letter));
        }
        for (route, rows) in by_route {
            apply(&tx, route, rows, decision).await?;
            cursor::signal(&tx, route).await?;
        }
        write_down(&tx, &letters, actor, decision).await?;
        tx.commit().await?;
    }
    Ok(decided)
}

/// Refuses letters that are named and cannot be decided on, each with its reason.
async fn check_named(db: &DatabaseConnection, dead_ids: &[i64], decision: &Decision) -> Result<()> {
    if dead_ids.is_empty() {
        return Ok(());
    }
    if dead_ids.len() > NAMED_MAX {
        return Err(Error::invalid(format!(
            "{} dead letters are named at once; name at most {NAMED_MAX}, or choose by route, type, aggregate or error",
            dead_ids.len()
        )));
    }
    let letters = named(db, dead_ids).await?;
    let refusal = |dead_id: &i64| match letters.iter().find(|letter| letter.dead_id == *dead_id) {
        None => Some(unknown(*dead_id)),
        Some(letter) => decision.refuse(letter),
    };
    dead_ids.iter().filter_map(refusal).reduce(together).map_or(Ok(()), Err)
}

/// One error for two refusals.
fn together(first: Error, second: Error) -> Error {
    let says = format!("{}; {}", first.doing(), second.doing());
    let mut steps = first.next_steps().to_vec();
    steps.extend(
        second
            .next_steps()
            .iter()
            .filter(|step| !first.next_steps().contains(step))
            .cloned(),
    );
    Error::new(first.kind(), says).with_next(steps)
}

/// As much of a letter as decides whether it can be decided on.
struct Named {
    dead_id: i64,
    route: String,
    event_type: String,
    state: LetterState,
    decided_by: Option<String>,
}

async fn named(db: &DatabaseConnection, dead_ids: &[i64]) -> Result<Vec<Named>> {
    if dead_ids.is_empty() {
        return Ok(Vec::new());
    }
    let tx = table::look(db).await?;
    let mut select = Query::select();
    select
        .columns(["dead_id", "route", "event_type", "state", "decided_by"])
        .from(table::named(&tx, Table::Failed))
        .and_where(Expr::col("dead_id").is_in(dead_ids.iter().copied()));
    let rows = tx
        .query_all(&select)
        .await
        .map_err(|source| Error::db("look for dead letters", source))?;
    tx.commit().await?;
    let read = |row: &QueryResult| {
        Ok(Named {
            dead_id: row.try_get("", "dead_id")?,
            route: row.try_get("", "route")?,
            event_type: row.try_get("", "event_type")?,
            state: LetterState::named(&row.try_get::<String>("", "state")?)?,
            decided_by: row.try_get("", "decided_by")?,
        })
    };
    rows.iter().map(read).collect()
}

/// Refuses to retry letters of a route that no relay delivers: if one is named, or its route is.
async fn check_routes(db: &DatabaseConnection, which: &Selection) -> Result<()> {
    let mut routes: HashSet<String> = which.routes.iter().cloned().collect();
    routes.extend(named(db, &which.dead_ids).await?.into_iter().map(|letter| letter.route));
    let tx = table::look(db).await?;
    for route in &routes {
        cursor::shards(&tx, route).await.map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::new(
                ErrorKind::NotFound,
                format!(
                    "route {route:?} is not there any more, so nobody would deliver its dead letters; start a relay that has \
                     it, or discard them"
                ),
            ),
            _ => error,
        })?;
    }
    tx.commit().await
}

fn unknown(dead_id: i64) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no dead letter {dead_id}"))
        .with_next([NextStep::ShowLetters { letters: Letters::All }])
}

impl Decision {
    /// Why a letter cannot be decided on so, if it cannot.
    fn refuse(&self, letter: &Named) -> Option<Error> {
        let dead_id = letter.dead_id;
        if letter.state != LetterState::Dead {
            let who = letter.decided_by.as_deref().unwrap_or("somebody");
            let says = format!("dead letter {dead_id} is {} already, by {who}", letter.state);
            let letters = Letters::Id(dead_id);
            return Some(Error::new(ErrorKind::Conflict, says).with_next([NextStep::ShowLetters { letters }]));
        }
        let is_lost = matches!(self, Self::Retry) && letter.event_type == UNREADABLE;
        is_lost.then(|| {
            let says = format!(
                "dead letter {dead_id} is a message that is no event, which cannot be retried: let its producer send it \
                 again, and discard it"
            );
            Error::new(ErrorKind::Conflict, says)
        })
    }
}

/// The next letters to decide, read after their routes are locked: two operators never decide the same one. No handler can
/// take what is no event, and no relay delivers a route that was forgotten, so that is not retried.
async fn undecided(tx: &Tx, which: &Selection, after: i64, decision: &Decision) -> Result<Vec<DeadLetter>> {
    let which = Selection {
        state: Some(LetterState::Dead),
        ..which.clone()
    };
    let mut select = rows(tx, &which);
    select
        .and_where(Expr::col("dead_id").gt(after))
        .order_by("dead_id", Order::Asc)
        .limit(BATCH);
    if matches!(decision, Decision::Retry) {
        let mut known = Query::select();
        known.column("route").from(table::named(tx, Table::Cursor));
        select
            .and_where(Expr::col("event_type").ne(UNREADABLE))
            .and_where(Expr::col("route").in_subquery(known));
    }
    let mut their = select.clone();
    their.clear_selects().column("route");
    let found = tx
        .query_all(&their)
        .await
        .map_err(|source| Error::db("look whose dead letters they are", source))?;
    let routes: HashSet<String> = found
        .iter()
        .map(|row| row.try_get("", "route"))
        .collect::<Result<_, _>>()?;
    let mut routes: Vec<String> = routes.into_iter().collect();
    routes.sort();
    for route in routes {
        match cursor::lock(tx, &route).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            locked => locked?,
        }
    }
    read_rows(tx, &select, BATCH_BYTES).await
}

/// A letter that holds its key has a row there; take it away and, for a retry, put a fresh one in. The worker, woken by the signal,
/// puts what is parked into order.
async fn apply(tx: &Tx, route: &str, mut rows: Vec<Parked>, decision: &Decision) -> Result<()> {
    let identities: Vec<(i64, Uuid)> = rows.iter().map(Parked::identity).collect();
    parked::remove(tx, route, &identities).await?;
    if matches!(decision, Decision::Discard(_)) {
        return Ok(());
    }
    renumber::give_way(tx, route, &mut rows).await?;
    let shards = cursor::shards(tx, route).await?; // it may be cut otherwise than when they died
    let mut by_shard: HashMap<u32, Vec<Parked>> = HashMap::new();
    for row in rows {
        let number = row.entry.event.key().shard(shards);
        by_shard.entry(number).or_default().push(row);
    }
    for (number, rows) in by_shard {
        let shard = Shard {
            route: route.to_owned(),
            number,
        };
        parked::insert(tx, &shard, ParkedBy::Retry, &rows).await?;
    }
    Ok(())
}

/// Writes the decision down, with each letter and in the operators' log.
async fn write_down(tx: &Tx, letters: &[DeadLetter], actor: &str, decision: &Decision) -> Result<()> {
    let (state, action, reason) = match decision {
        Decision::Retry => (LetterState::Retried, RETRY, None),
        Decision::Discard(reason) => (LetterState::Discarded, DISCARD, Some(reason.clone())),
    };
    let mut update = Query::update();
    update
        .table(table::named(tx, Table::Failed))
        .value("state", state.name())
        .value("reason", reason.clone())
        .value("decided_at", db_now(tx.get_database_backend()))
        .value("decided_by", actor)
        .and_where(Expr::col("dead_id").is_in(letters.iter().map(|letter| letter.dead_id)));
    tx.execute(&update)
        .await
        .map_err(|source| Error::db("write down a decision", source))?;
    let acts = letters.iter().map(|letter| {
        let target = act_target(&letter.route, letter.entry.event.id);
        (
            target,
            serde_json::json!({ "dead_id": letter.dead_id, "reason": reason }),
        )
    });
    audit::record_all(tx, actor, action, acts).await
}

fn again(letter: &DeadLetter) -> Parked {
    let mut entry = letter.entry.clone();
    Parked {
        came_from: parked::take_came_from(&mut entry),
        error: Some(letter.error.clone()),
        failed_at: letter.failed_at,
        ..Parked::untried(entry, Parking::Wait)
    }
}

fn rows(tx: &Tx, which: &Selection) -> SelectStatement {
    let mut select = table::select_events(tx.get_database_backend());
    select
        .columns([
            "dead_id",
            "route",
            "shard",
            "id",
            "created_at",
            "attempts",
            "error",
            "failed_at",
        ])
        .columns(["dead_at", "state", "reason", "decided_by", "decided_at"])
        .from(table::named(tx, Table::Failed));
    if !which.dead_ids.is_empty() {
        select.and_where(Expr::col("dead_id").is_in(which.dead_ids.iter().copied()));
    }
    for (column, wanted) in [("route", &which.routes), ("event_type", &which.event_types)] {
        if !wanted.is_empty() {
            select.and_where(Expr::col(column).is_in(wanted));
        }
    }
    let state = which.state.map(LetterState::name);
    let equal = [("aggregate_id", which.aggregate_id.as_deref()), ("state", state)];
    for (column, wanted) in equal {
        if let Some(wanted) = wanted {
            select.and_where(Expr::col(column).eq(wanted));
        }
    }
    if let Some(error) = &which.error {
        select.and_where(Expr::col("error").like(format!("%{error}%")));
    }
    select
}

/// Reads the letters that a statement finds, about `bytes_max` of them.
async fn read_rows(tx: &Tx, select: &SelectStatement, bytes_max: usize) -> Result<Vec<DeadLetter>> {
    let mut ids = select.clone();
    ids.clear_selects().column("dead_id");
    let found = tx
        .query_all(&ids)
        .await
        .map_err(|source| Error::db("look for dead letters", source))?;
    let ids: Vec<i64> = found
        .iter()
        .map(|row| row.try_get("", "dead_id"))
        .collect::<Result<_, _>>()?;
    let these = |ids: &[i64]| {
        let mut select = select.clone();
        select.and_where(Expr::col("dead_id").is_in(ids.iter().copied()));
        select
    };
    let backend = tx.get_database_backend();
    let read = |row: &QueryResult| {
        let letter = read_row(backend, row)?;
        let weight = letter.entry.weight();
        Ok((letter, weight))
    };
    let letters = bounded::read(tx, &ids, bytes_max, these, read).await?;
    Ok(letters.rows)
}

fn read_row(backend: DbBackend, row: &QueryResult) -> Result<DeadLetter> {
    Ok(DeadLetter {
        dead_id: row.try_get("", "dead_id")?,
        route: row.try_get("", "route")?,
        shard: u32::try_from(row.try_get::<i32>("", "shard")?).unwrap_or(0),
        entry: read_entry(row, backend, "id")?,
        attempts: u32::try_from(row.try_get::<i32>("", "attempts")?).unwrap_or(0),
        error: row.try_get("", "error")?,
        failed_at: read_stamp(row, backend, "failed_at")?,
        dead_at: read_time(row, backend, "dead_at")?,
        state: LetterState::named(&row.try_get::<String>("", "state")?)?,
        reason: row.try_get("", "reason")?,
        decided_by: row.try_get("", "decided_by")?,
        decided_at: read_stamp(row, backend, "decided_at")?,
    })
}
