//! Maps the domain events of a range of time again, as far as the outbox or the archive holds them: a row per request of an operator,
//! and a job that works it off.
//!
//! A mapped event has the id of its domain event. One that has no row gets one, and goes to the sinks; a row that the mapping would
//! write differently now is written anew, and not sent again.

mod run;

use postroom::operate::{History, record_act, signal};
use postroom::{Error, ErrorKind, Inspect, Result, Tx, clock, table};
use sea_orm::sea_query::{Expr, ExprTrait as _, Order, Query, SelectStatement};
use sea_orm::{ConnectionTrait, DatabaseConnection, QueryResult};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::serde::rfc3339;
use uuid::Uuid;

use crate::MAP;
use crate::redispatch::State;

pub(crate) use run::job;

const REPROCESSES: &str = "user_activity_reprocess";
/// Reprocesses that [`list`] returns.
const LIST_MAX: u64 = 100;

/// Which domain events to map again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Range {
    /// Recorded at or after this time.
    #[serde(with = "rfc3339")]
    pub from: OffsetDateTime,
    /// Recorded before this time.
    #[serde(with = "rfc3339")]
    pub until: OffsetDateTime,
    /// Those that are mapped to activity events of this name; absent: all.
    #[serde(default)]
    pub event_name: Option<String>,
}

impl Range {
    fn history(&self) -> History<'_> {
        History {
            types: &[],
            from: Some(self.from),
            until: Some(self.until),
        }
    }

    fn check(&self) -> Result<()> {
        if self.from >= self.until {
            return Err(Error::invalid("from must be before until"));
        }
        match &self.event_name {
            Some(name) if name.chars().count() > 100 => Err(Error::invalid("eventName has more than 100 characters")),
            _ => Ok(()),
        }
    }
}

/// Domain events that are mapped again.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reprocess {
    /// Its id.
    pub reprocess_id: String,
    /// Which events.
    pub range: Range,
    /// Activity events that had no row.
    pub inserted: u64,
    /// Rows that were written anew.
    pub updated: u64,
    /// Rows that were as the mapping would write them now.
    pub unchanged: u64,
    /// Domain events that the mapping refused. The log names them.
    pub failed: u64,
    /// The part of the range that was looked at: 0 to 1.
    pub progress: f64,
    /// Whether it goes on.
    pub state: State,
    /// The operator.
    pub created_by: String,
    #[serde(skip)]
    done_id: i64,
    #[serde(skip)]
    until_id: i64,
}

/// Begins to map the domain events of a range again; returns the id.
pub async fn begin(store: &dyn Inspect, range: &Range, actor: &str) -> Result<String> {
    range.check()?;
    store.pulse().await?; // also what was committed while no relay ran
    let Some((first, last)) = range.history().bounds(store.db()).await? else {
        return Err(Error::new(
            ErrorKind::NotFound,
            "neither the outbox nor the archive holds an event of this range; retention.outbox says how long the outbox holds events, \
             and retention.archive keeps them after that",
        ));
    };
    let id = Uuid::now_v7().to_string();
    let tx = table::begin(store.db()).await?;
    insert(&tx, (&id, range), (first, last), actor).await?;
    let detail = serde_json::to_value(range)?;
    record_act(&tx, actor, "activity.reprocess", &id, &detail).await?;
    signal(&tx, MAP).await?;
    tx.commit().await?;
    Ok(id)
}

async fn insert(tx: &Tx, (id, range): (&str, &Range), (first, last): (i64, i64), actor: &str) -> Result<()> {
    let filter = serde_json::to_string(range)?;
    let now_ms = i64::try_from(clock::now().unix_timestamp_nanos() / 1_000_000).unwrap_or_default();
    let mut insert = Query::insert();
    insert.into_table(REPROCESSES).columns(COLUMNS).values_panic([
        id.into(),
        filter.as_str().into(),
        first.into(),
        last.into(),
        (first - 1).into(),
        0.into(),
        0.into(),
        0.into(),
        0.into(),
        State::Running.name().into(),
        actor.into(),
        now_ms.into(),
    ]);
    let inserted = tx.execute(&insert).await;
    inserted.map_err(|source| Error::db("begin a reprocess", source))?;
    Ok(())
}

/// Ends a reprocess that is running. The rows that it has written stay.
pub async fn cancel(db: &DatabaseConnection, reprocess_id: &str, actor: &str) -> Result<()> {
    let tx = table::begin(db).await?;
    let mut update = Query::update();
    update
        .table(REPROCESSES)
        .value("state", State::Canceled.name())
        .and_where(Expr::col("reprocess_id").eq(reprocess_id))
        .and_where(Expr::col("state").eq(State::Running.name()));
    let done = tx.execute(&update).await;
    let done = done.map_err(|source| Error::db("cancel a reprocess", source))?;
    if done.rows_affected() == 0 {
        return Err(Error::new(
            ErrorKind::Conflict,
            format!("no reprocess {reprocess_id:?} is running"),
        ));
    }
    let nothing = serde_json::json!({});
    record_act(&tx, actor, "activity.reprocess.cancel", reprocess_id, &nothing).await?;
    tx.commit().await
}

/// The newest reprocesses, newest first.
pub async fn list(db: &impl ConnectionTrait) -> Result<Vec<Reprocess>> {
    let mut select = Query::select();
    select
        .columns(COLUMNS)
        .from(REPROCESSES)
        .order_by("created_at_ms", Order::Desc)
        .order_by("reprocess_id", Order::Desc)
        .limit(LIST_MAX);
    read_all(db, &select).await
}

/// Those that are not done, oldest first.
async fn running(db: &impl ConnectionTrait) -> Result<Vec<Reprocess>> {
    let mut select = Query::select();
    select
        .columns(COLUMNS)
        .from(REPROCESSES)
        .and_where(Expr::col("state").eq(State::Running.name()))
        .order_by("created_at_ms", Order::Asc)
        .order_by("reprocess_id", Order::Asc)
        .limit(LIST_MAX);
    read_all(db, &select).await
}

async fn read_all(db: &impl ConnectionTrait, select: &SelectStatement) -> Result<Vec<Reprocess>> {
    let rows = db.query_all(select).await;
    let rows = rows.map_err(|source| Error::db("read the reprocesses", source))?;
    rows.iter().map(read).collect()
}

const COLUMNS: [&str; 12] = [
    "reprocess_id",
    "filter",
    "first_id",
    "until_id",
    "done_id",
    "inserted",
    "updated",
    "unchanged",
    "failed",
    "state",
    "created_by",
    "created_at_ms",
];

fn read(row: &QueryResult) -> Result<Reprocess> {
    let number = |column: &str| row.try_get::<i64>("", column);
    let count = |column: &str| number(column).map(|count| u64::try_from(count).unwrap_or_default());
    let (first_id, until_id, done_id) = (number("first_id")?, number("until_id")?, number("done_id")?);
    let all = until_id - first_id + 1;
    Ok(Reprocess {
        reprocess_id: row.try_get("", "reprocess_id")?,
        range: serde_json::from_str(&row.try_get::<String>("", "filter")?)?,
        inserted: count("inserted")?,
        updated: count("updated")?,
        unchanged: count("unchanged")?,
        failed: count("failed")?,
        progress: (done_id - first_id + 1) as f64 / all as f64,
        state: State::named(&row.try_get::<String>("", "state")?),
        created_by: row.try_get("", "created_by")?,
        done_id,
        until_id,
    })
}
