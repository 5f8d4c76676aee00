//! Sends stored events to a sink again: a row per request of an operator, and a job that works it off at a limited rate.
//!
//! An event that is sent again has the same id and the same time, so a sink can recognise an event that it already has.

use postroom::operate::{record_act, signal};
use postroom::{Error, ErrorKind, Event, Job, Result, Tx, append, clock, table};
use sea_orm::sea_query::{Expr, ExprTrait as _, Order, Query, SelectStatement};
use sea_orm::{ConnectionTrait, DatabaseConnection, QueryResult};
use serde::Serialize;
use uuid::Uuid;

use crate::event::{ActivityEvent, ActivityRedispatched, event_of};
use crate::ingest::is_refused;
use crate::query::{self, EventFilter, StoredEvent};
use crate::sink::{known, route_name};
use crate::tables::{self, TABLE};

const REDISPATCHES: &str = "user_activity_redispatch";
/// The highest rate.
pub const PER_SECOND_MAX: u32 = 10_000;
/// Rows that are read and sent together.
const BATCH_MAX: u64 = 500;
/// Redispatches that [`list`] returns.
const LIST_MAX: u64 = 100;

/// Stored events that are sent to a sink again.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Redispatch {
    /// Its id.
    pub redispatch_id: String,
    /// The sink.
    pub sink_type: String,
    /// Which events.
    pub filter: EventFilter,
    /// Events per second, at most.
    pub per_second: u32,
    /// How many were sent.
    pub sent: u64,
    /// The part of the table that was looked at: 0 to 1.
    pub progress: f64,
    /// Whether it goes on.
    pub state: State,
    /// The operator.
    pub created_by: String,
    #[serde(skip)]
    sent_until_id: i64,
    #[serde(skip)]
    until_id: i64,
}

/// The state of a redispatch or a reprocess.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It goes on.
    Running,
    /// It has done everything.
    Done,
    /// An operator has ended it.
    Canceled,
}

impl State {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Canceled => "canceled",
        }
    }

    pub(crate) fn named(name: &str) -> Self {
        match name {
            "running" => Self::Running,
            "canceled" => Self::Canceled,
            _ => Self::Done,
        }
    }
}

/// Begins to send the events that match and are stored now to this sink; returns the id.
pub async fn begin(
    db: &DatabaseConnection,
    (sink_type, filter): (&str, &EventFilter),
    per_second: u32,
    actor: &str,
) -> Result<String> {
    if !(1..=PER_SECOND_MAX).contains(&per_second) {
        return Err(Error::invalid(format!(
            "per_second is {per_second}; give 1 to {PER_SECOND_MAX}"
        )));
    }
    let id = Uuid::now_v7().to_string();
    let filter_text = serde_json::to_string(filter)?;
    let now_ms = i64::try_from(clock::now().unix_timestamp_nanos() / 1_000_000).unwrap_or_default();
    let tx = table::begin(db).await?;
    check_sink(&tx, sink_type).await?;
    let until_id = last_id(&tx).await?;
    let mut insert = Query::insert();
    insert.into_table(REDISPATCHES).columns(COLUMNS).values_panic([
        id.as_str().into(),
        sink_type.into(),
        filter_text.as_str().into(),
        i64::from(per_second).into(),
        0.into(),
        until_id.into(),
        0.into(),
        State::Running.name().into(),
        actor.into(),
        now_ms.into(),
    ]);
    tx.execute(&insert)
        .await
        .map_err(|source| Error::db("begin a redispatch", source))?;
    let detail = serde_json::json!({ "sinkType": sink_type, "filter": filter, "perSecond": per_second });
    record_act(&tx, actor, "activity.redispatch", &id, &detail).await?;
    signal(&tx, &route_name(sink_type)).await?;
    tx.commit().await?;
    Ok(id)
}

/// Ends a redispatch that is running. It cannot take back events that it has sent.
pub async fn cancel(db: &DatabaseConnection, redispatch_id: &str, actor: &str) -> Result<()> {
    let tx = table::begin(db).await?;
    let mut update = Query::update();
    update
        .table(REDISPATCHES)
        .value("state", State::Canceled.name())
        .and_where(Expr::col("redispatch_id").eq(redispatch_id))
        .and_where(Expr::col("state").eq(State::Running.name()));
    let done = tx.execute(&update).await;
    let done = done.map_err(|source| Error::db("cancel a redispatch", source))?;
    if done.rows_affected() == 0 {
        return Err(Error::new(
            ErrorKind::Conflict,
            format!("no redispatch {redispatch_id:?} is running"),
        ));
    }
    let nothing = serde_json::json!({});
    record_act(&tx, actor, "activity.redispatch.cancel", redispatch_id, &nothing).await?;
    tx.commit().await
}

/// The newest redispatches, newest first.
pub async fn list(db: &impl ConnectionTrait) -> Result<Vec<Redispatch>> {
    let mut select = Query::select();
    select
        .columns(COLUMNS)
        .from(REDISPATCHES)
        .order_by("created_at_ms", Order::Desc)
        .order_by("redispatch_id", Order::Desc)
        .limit(LIST_MAX);
    read_all(db, &select).await
}

/// Those that are not done, oldest first.
async fn running(db: &impl ConnectionTrait) -> Result<Vec<Redispatch>> {
    let mut select = Query::select();
    select
        .columns(COLUMNS)
        .from(REDISPATCHES)
        .and_where(Expr::col("state").eq(State::Running.name()))
        .order_by("created_at_ms", Order::Asc)
        .order_by("redispatch_id", Order::Asc)
        .limit(LIST_MAX);
    read_all(db, &select).await
}

async fn read_all(db: &impl ConnectionTrait, select: &SelectStatement) -> Result<Vec<Redispatch>> {
    let rows = db.query_all(select).await;
    let rows = rows.map_err(|source| Error::db("read the redispatches", source))?;
    rows.iter().map(read).collect()
}

/// The job that works off redispatches. A redispatch that fails delays no other.
pub(crate) fn job() -> Job {
    Job::on_signal("activity-redispatch", |outbox| async move {
        let (mut sent, mut failed) = (0, None);
        for redispatch in running(outbox.db()).await? {
            match step(outbox.db(), &redispatch).await {
                Ok(more) => sent += more,
                Err(error) => {
                    let id = &redispatch.redispatch_id;
                    tracing::warn!(
                        redispatch = id,
                        error = error.report(),
                        "a redispatch has failed; it is tried again"
                    );
                    failed = Some(error);
                }
            }
        }
        match failed {
            Some(error) if sent == 0 => Err(error),
            _ => Ok(sent),
        }
    })
}

/// Sends as many events as one second allows; returns how many.
async fn step(db: &DatabaseConnection, redispatch: &Redispatch) -> Result<u64> {
    let (mut left, mut together) = (u64::from(redispatch.per_second), BATCH_MAX);
    let (mut sent, mut at) = (0, redispatch.sent_until_id);
    while left > 0 {
        let batch = Ord::min(left, together);
        let some = match send(db, redispatch, at, batch).await {
            Err(error) if is_refused(&error) && batch > 1 => {
                together = 1; // one event costs no other
                continue;
            }
            Err(error) if is_refused(&error) => {
                let id = &redispatch.redispatch_id;
                tracing::warn!(
                    redispatch = id,
                    after = at,
                    error = error.report(),
                    "a stored event cannot be sent again"
                );
                pass_over(db, redispatch, at).await?
            }
            some => some?,
        };
        let Some(Sent { until, count, is_last }) = some else {
            return Ok(sent); // it was canceled
        };
        (sent, left, at) = (sent + count, left.saturating_sub(batch), until);
        if is_last {
            break;
        }
    }
    Ok(sent)
}

/// Events that were sent.
struct Sent {
    /// Every row up to here was looked at.
    until: i64,
    count: u64,
    is_last: bool,
}

/// Sends the next events in one transaction; `None` if the redispatch was canceled.
async fn send(db: &DatabaseConnection, redispatch: &Redispatch, at: i64, batch: u64) -> Result<Option<Sent>> {
    let tx = tables::begin_limited(db).await?;
    let (stored, some) = next(&tx, redispatch, at, batch).await?;
    let events = stored.iter().map(|stored| again(redispatch, &stored.event));
    let events: Vec<Event> = events.collect::<Result<_>>()?;
    if !advance(&tx, (redispatch, at), &some).await? {
        return Ok(None);
    }
    append(&tx, &events).await?;
    tx.commit().await?;
    Ok(Some(some))
}

/// Leaves out the next event, which the outbox refuses: its id or its content is too long, or, with the name of the sink around it, nested
/// too deep.
async fn pass_over(db: &DatabaseConnection, redispatch: &Redispatch, at: i64) -> Result<Option<Sent>> {
    let tx = tables::begin_limited(db).await?;
    let (_refused, next) = next(&tx, redispatch, at, 1).await?;
    let none = Sent { count: 0, ..next };
    let is_running = advance(&tx, (redispatch, at), &none).await?;
    tx.commit().await?;
    Ok(is_running.then_some(none))
}

/// The next events, and how far the redispatch is when they are sent.
async fn next(tx: &Tx, redispatch: &Redispatch, at: i64, batch: u64) -> Result<(Vec<StoredEvent>, Sent)> {
    let stored = query::by_row(tx, &redispatch.filter, (at, redispatch.until_id), batch).await?;
    let count = stored.len() as u64;
    let is_last = count < batch;
    let until = match stored.last() {
        Some(last) if !is_last => last.id,
        _ => redispatch.until_id,
    };
    Ok((stored, Sent { until, count, is_last }))
}

/// The event by which a stored one is sent again.
fn again(redispatch: &Redispatch, stored: &ActivityEvent) -> Result<Event> {
    let event = event_of(&ActivityRedispatched {
        sink_type: redispatch.sink_type.clone(),
        event: stored.clone(),
    })?;
    let event_type = ActivityRedispatched::type_for(&redispatch.sink_type);
    Ok(Event { event_type, ..event })
}

/// Writes the progress, if the redispatch is still running from `at`.
async fn advance(tx: &Tx, (redispatch, at): (&Redispatch, i64), Sent { until, count, is_last }: &Sent) -> Result<bool> {
    let state = if *is_last { State::Done } else { State::Running };
    let mut update = Query::update();
    update
        .table(REDISPATCHES)
        .value("sent_until_id", *until)
        .value("sent", Expr::col("sent").add(i64::try_from(*count).unwrap_or_default()))
        .value("state", state.name())
        .and_where(Expr::col("redispatch_id").eq(redispatch.redispatch_id.as_str()))
        .and_where(Expr::col("sent_until_id").eq(at))
        .and_where(Expr::col("state").eq(State::Running.name()));
    let done = tx.execute(&update).await;
    let done = done.map_err(|source| Error::db("write the progress of a redispatch", source))?;
    Ok(done.rows_affected() > 0)
}

const COLUMNS: [&str; 10] = [
    "redispatch_id",
    "sink_type",
    "filter",
    "per_second",
    "sent_until_id",
    "until_id",
    "sent",
    "state",
    "created_by",
    "created_at_ms",
];

fn read(row: &QueryResult) -> Result<Redispatch> {
    let number = |column: &str| row.try_get::<i64>("", column);
    let (sent_until_id, until_id) = (number("sent_until_id")?, number("until_id")?);
    let progress = match until_id {
        0 => 1.0,
        until => sent_until_id as f64 / until as f64,
    };
    Ok(Redispatch {
        redispatch_id: row.try_get("", "redispatch_id")?,
        sink_type: row.try_get("", "sink_type")?,
        filter: serde_json::from_str(&row.try_get::<String>("", "filter")?)?,
        per_second: u32::try_from(number("per_second")?).unwrap_or(PER_SECOND_MAX),
        sent: u64::try_from(number("sent")?).unwrap_or_default(),
        progress,
        state: State::named(&row.try_get::<String>("", "state")?),
        created_by: row.try_get("", "created_by")?,
        sent_until_id,
        until_id,
    })
}

/// A sink has a route in the store once a process with it has run.
async fn check_sink(tx: &Tx, sink_type: &str) -> Result<()> {
    match known::is_known(tx, sink_type).await? {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "there is no sink {sink_type:?}; `postroom status` shows the routes to sinks, activity-SINK"
        ))),
    }
}

async fn last_id(tx: &Tx) -> Result<i64> {
    let mut select = Query::select();
    select.column("id").from(TABLE).order_by("id", Order::Desc).limit(1);
    let row = tx.query_one(&select).await;
    let row = row.map_err(|source| Error::db("read activity events", source))?;
    Ok(row.map_or(Ok(0), |row| row.try_get("", "id"))?)
}
