//! Broken readers over a real store: the designs this project does not use, and why.
//!
//! A check that cannot fail proves nothing. Each twin wraps a store, keeps everything but the reading, and must be
//! caught by the history checker and by the clause of the suite that forbids what it does.

use std::sync::Arc;

use async_trait::async_trait;
use postroom::table::{Table, named};
use postroom::{
    Entry, Error, ErrorKind, Event, Inspect, Migration, OpenTransaction, Outbox, Page, Position, Prune, Pulse, Result,
    SettingCheck,
};
use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, QueryResult, Statement, Value};
use serde_json::value::RawValue;
use time::OffsetDateTime;
use uuid::Uuid;

const NAIVE_ID_POSTGRES: &str = include_str!("../sql/naive_id.postgres.sql");
const NAIVE_ID_MYSQL: &str = include_str!("../sql/naive_id.mysql.sql");
const NAIVE_ID_SQLITE: &str = include_str!("../sql/naive_id.sqlite.sql");
const XMIN_HEAD: &str = include_str!("../sql/xmin_head.postgres.sql");
const XMIN: &str = include_str!("../sql/xmin.postgres.sql");

/// A store that reads in a way that does not work. On MySQL nobody may pulse the store behind it meanwhile: that would
/// take away the rows this one reads.
#[derive(Debug)]
pub enum Twin {
    /// `where id > cursor order by id`: loses what commits late on PostgreSQL and MySQL. Right on SQLite.
    NaiveId(Arc<dyn Inspect>),
    /// `where (tx, id) > cursor and tx < xmin order by tx, id`, PostgreSQL only: loses nothing, and disorders keys.
    /// A page of it cannot be settled in the middle.
    Xmin(Arc<dyn Inspect>),
}

impl Twin {
    fn store(&self) -> &dyn Inspect {
        match self {
            Self::NaiveId(store) | Self::Xmin(store) => &**store,
        }
    }

    async fn query(&self, sql: &str, values: Vec<Value>) -> Result<Vec<QueryResult>> {
        let db = self.db();
        let statement = Statement::from_sql_and_values(db.get_database_backend(), sql, values);
        db.query_all_raw(statement)
            .await
            .map_err(|source| Error::db("read as a broken twin does", source))
    }

    async fn select(&self, after: Position, limit: usize) -> Result<Vec<QueryResult>> {
        // No page is larger than what a subscriber settles at once, since a page of `Xmin` cannot be settled in the middle.
        let limit = Ord::min(i64::try_from(limit).unwrap_or(i64::MAX), 100);
        match self {
            Self::Xmin(_) => {
                self.query(XMIN, vec![after.from.to_string().into(), after.id.into(), limit.into()])
                    .await
            }
            Self::NaiveId(store) => {
                let sql = match store.db().get_database_backend() {
                    DbBackend::Postgres => NAIVE_ID_POSTGRES,
                    DbBackend::MySql => NAIVE_ID_MYSQL,
                    _ => NAIVE_ID_SQLITE,
                };
                self.query(sql, vec![after.id.into(), limit.into()]).await
            }
        }
    }

    /// The position behind a row.
    fn position(&self, row: &QueryResult) -> Result<Position> {
        let id = row.try_get("", "id")?;
        Ok(match self {
            Self::NaiveId(_) => Position { id, ..Position::START },
            Self::Xmin(_) => Position {
                from: row.try_get("", "tx")?,
                to: 0,
                id,
            },
        })
    }

    /// The largest id or, for [`Twin::Xmin`], the oldest running transaction.
    async fn newest(&self) -> Result<i64> {
        let rows = match self {
            Self::Xmin(_) => self.query(XMIN_HEAD, vec![]).await?,
            Self::NaiveId(_) => {
                let table = match self.db().get_database_backend() {
                    DbBackend::MySql => Table::Incoming,
                    _ => Table::Outbox,
                };
                let mut select = Query::select();
                select
                    .expr_as(Expr::col("id").max(), "head")
                    .from(named(self.db(), table));
                self.db().query_all(&select).await?
            }
        };
        let newest: Option<Option<i64>> = rows.first().map(|row| row.try_get("", "head")).transpose()?;
        Ok(newest.flatten().unwrap_or(0))
    }
}

#[async_trait]
impl Outbox for Twin {
    fn db(&self) -> &DatabaseConnection {
        self.store().db()
    }

    fn pool(&self, connections_max: u32) -> DatabaseConnection {
        self.store().pool(connections_max)
    }

    fn migrations(&self) -> &'static [Migration] {
        self.store().migrations()
    }

    /// Only looks: these designs have nothing to make readable.
    async fn pulse(&self) -> Result<Pulse> {
        Ok(Pulse {
            head: self.newest().await?,
            ..Pulse::default()
        })
    }

    async fn read(&self, after: Position, limit: usize) -> Result<Page> {
        let rows = self.select(after, limit).await?;
        let next = rows.last().map_or(Ok(after), |row| self.position(row))?;
        let entries: Vec<Entry> = rows.iter().map(read_entry).collect::<Result<_>>()?;
        Ok(Page {
            entries: entries.into(),
            window: after,
            next,
        })
    }

    async fn head(&self) -> Result<Position> {
        let newest = self.newest().await?;
        Ok(match self {
            Self::NaiveId(_) => Position {
                id: newest,
                ..Position::START
            },
            Self::Xmin(_) => Position {
                from: newest - 1,
                to: 0,
                id: i64::MAX,
            },
        })
    }

    async fn prune(&self, prune: &Prune) -> Result<u64> {
        self.store().prune(prune).await
    }
}

#[async_trait]
impl Inspect for Twin {
    async fn version(&self) -> Result<String> {
        self.store().version().await
    }

    fn settings(&self) -> &'static [SettingCheck] {
        self.store().settings()
    }

    async fn backlog(&self, after: Position) -> Result<u64> {
        self.store().backlog(after).await
    }

    async fn open_transactions(&self) -> Result<Vec<OpenTransaction>> {
        self.store().open_transactions().await
    }
}

fn read_entry(row: &QueryResult) -> Result<Entry> {
    let event_id: String = row.try_get("", "event_id")?;
    let event = Event {
        id: Uuid::parse_str(&event_id)
            .map_err(|source| Error::caused(ErrorKind::Failed, format!("read the id {event_id:?}"), source))?,
        event_type: row.try_get("", "event_type")?,
        source: row.try_get("", "source")?,
        aggregate_type: row.try_get("", "aggregate_type")?,
        aggregate_id: row.try_get("", "aggregate_id")?,
        payload: RawValue::from_string(row.try_get("", "payload")?)?,
        headers: serde_json::from_str(&row.try_get::<String>("", "headers")?)?,
        occurred_at: read_micros(row, "occurred_us")?,
    };
    Ok(Entry {
        id: row.try_get("", "id")?,
        event,
        created_at: read_micros(row, "created_us")?,
    })
}

fn read_micros(row: &QueryResult, column: &str) -> Result<OffsetDateTime> {
    let micros: i64 = row.try_get("", column)?;
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1_000)
        .map_err(|source| Error::caused(ErrorKind::Failed, format!("read the time {micros}"), source))
}
