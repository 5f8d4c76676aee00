//! Alerts: who is told when something begins and when it ends, and the table that remembers what was told.
//!
//! Which rules there are, and when they fire, is decided elsewhere; so is how a messenger brings what it is given.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict, Query};
use sea_orm::{ConnectionTrait, DatabaseConnection, QueryResult, StatementBuilder};
use serde::Serialize;
use time::OffsetDateTime;

use crate::error::{Error, ErrorKind, Result};
use crate::store::db_clock::{db_now, db_now_plus, stamp};
use crate::store::table::{self, Table, read_time, storable};

/// By which way somebody is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Channel {
    /// For reading at the next opportunity.
    Slack,
    /// Urgent: it wakes the person on call.
    PagerDuty,
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Slack => "slack",
            Self::PagerDuty => "pagerduty",
        })
    }
}

/// A change of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Its rule fires.
    Began,
    /// Its rule fires no more.
    Ended,
}

/// The text of a notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The rule: what tells one alert from another.
    pub rule: String,
    /// The change.
    pub turn: Turn,
    /// When it began.
    pub since: OffsetDateTime,
    /// The finding, with the number and the limit.
    pub says: String,
    /// The next step for the operator.
    pub next: String,
}

/// The result of sending a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It was taken.
    Taken,
    /// Not now: the same notice may be taken later.
    Later {
        /// Why.
        says: String,
        /// Not before then, if they said so.
        after: Option<Duration>,
    },
    /// Never: the same notice would be refused again.
    Refused(String),
}

/// Sends notices to people.
///
/// # Contract
/// 1. [`Reply::Taken`] means that the other side has it. Any other answer leaves open whether it has.
/// 2. The same notice may come again; where the other side can tell, it is not shown twice.
/// 3. It answers in time, and says nothing of its address or its key.
#[async_trait]
pub trait Messenger: fmt::Debug + Send + Sync {
    /// Brings a notice.
    async fn tell(&self, notice: &Notice) -> Reply;
}

/// An alert that goes on, or whose end has not been told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// Its rule.
    pub rule: String,
    /// The last change.
    pub turn: Turn,
    /// When it began.
    pub since: OffsetDateTime,
    /// Whether that it began was told. Once its end is told it is forgotten.
    pub is_told: bool,
    /// Whether it may be told now.
    pub is_due: bool,
    /// Why it could not be told.
    pub error: Option<String>,
}

/// The alerts of these rules.
pub async fn load(db: &DatabaseConnection, rules: &[&str]) -> Result<Vec<Alert>> {
    let tx = table::look(db).await?;
    let backend = tx.get_database_backend();
    let mut select = Query::select();
    select
        .columns(["rule", "turn", "since", "is_told", "due_at", "error"])
        .expr_as(db_now(backend), "now")
        .from(table::named(&tx, Table::Alert))
        .and_where(Expr::col("rule").is_in(rules.iter().copied()));
    let rows = tx
        .query_all(&select)
        .await
        .map_err(|source| Error::db("read alerts", source))?;
    tx.commit().await?;
    let read = |row: &QueryResult| {
        Ok(Alert {
            rule: row.try_get("", "rule")?,
            turn: parse(&row.try_get::<String>("", "turn")?)?,
            since: read_time(row, backend, "since")?,
            is_told: row.try_get("", "is_told")?,
            is_due: read_time(row, backend, "due_at")? <= read_time(row, backend, "now")?,
            error: row.try_get("", "error")?,
        })
    };
    rows.iter().map(read).collect()
}

/// Writes down that a rule fires.
pub async fn begin(db: &DatabaseConnection, rule: &str) -> Result<()> {
    let backend = db.get_database_backend();
    let mut insert = Query::insert();
    insert
        .into_table(table::named(db, Table::Alert))
        .columns(["rule", "turn", "since", "is_told", "due_at"])
        .values_panic([
            rule.into(),
            name(Turn::Began).into(),
            db_now(backend),
            false.into(),
            db_now(backend),
        ])
        .on_conflict(
            OnConflict::column("rule")
                .update_columns(["turn", "since", "is_told", "due_at"])
                .value("error", Expr::cust("null"))
                .to_owned(),
        );
    write(db, &insert, "write down that an alert began").await
}

/// Writes down that a rule fires no more.
pub async fn end(db: &DatabaseConnection, rule: &str) -> Result<()> {
    let mut update = Query::update();
    update
        .table(table::named(db, Table::Alert))
        .value("turn", name(Turn::Ended))
        .value("is_told", false)
        .value("due_at", db_now(db.get_database_backend()))
        .value("error", Expr::cust("null"))
        .and_where(Expr::col("rule").eq(rule));
    write(db, &update, "write down that an alert ended").await
}

/// Forgets an alert, told or not.
pub async fn forget(db: &DatabaseConnection, rule: &str) -> Result<()> {
    let mut delete = Query::delete();
    delete
        .from_table(table::named(db, Table::Alert))
        .and_where(Expr::col("rule").eq(rule));
    write(db, &delete, "forget an alert").await
}

/// Writes down that the alert was told as it was loaded; if it has changed since, nothing is written.
pub async fn told(db: &DatabaseConnection, alert: &Alert) -> Result<()> {
    let doing = "write down that an alert was told";
    if alert.turn == Turn::Ended {
        let mut delete = Query::delete();
        delete
            .from_table(table::named(db, Table::Alert))
            .and_where(is_still(db, alert));
        return write(db, &delete, doing).await;
    }
    let mut update = Query::update();
    update
        .table(table::named(db, Table::Alert))
        .value("is_told", true)
        .value("error", Expr::cust("null"))
        .and_where(is_still(db, alert));
    write(db, &update, doing).await
}

/// Writes down why the alert could not be told, and from when on it may be tried again.
pub async fn postpone(db: &DatabaseConnection, alert: &Alert, error: &str, after: Duration) -> Result<()> {
    let mut update = Query::update();
    update
        .table(table::named(db, Table::Alert))
        .value("error", storable(error))
        .value("due_at", db_now_plus(db.get_database_backend(), after))
        .and_where(is_still(db, alert));
    write(db, &update, "write down why an alert could not be told").await
}

/// Whether the row is as it was loaded.
fn is_still(db: &DatabaseConnection, alert: &Alert) -> Expr {
    let since = stamp(db.get_database_backend(), alert.since);
    Expr::col("rule")
        .eq(alert.rule.as_str())
        .and(Expr::col("turn").eq(name(alert.turn)))
        .and(Expr::col("since").eq(since))
}

async fn write(db: &DatabaseConnection, statement: &impl StatementBuilder, doing: &str) -> Result<()> {
    let tx = table::begin_own(db).await?;
    tx.execute(statement).await.map_err(|source| Error::db(doing, source))?;
    tx.commit().await?;
    Ok(())
}

fn name(turn: Turn) -> &'static str {
    match turn {
        Turn::Began => "began",
        Turn::Ended => "ended",
    }
}

fn parse(turn: &str) -> Result<Turn> {
    match turn {
        "began" => Ok(Turn::Began),
        "ended" => Ok(Turn::Ended),
        other => Err(Error::new(
            ErrorKind::Failed,
            format!("an alert has the turn {other:?}, which this program does not know"),
        )),
    }
}
