//! Where a bench runs: the store, opened, migrated, found free of other work, and swept afterwards; and a topic of a broker, if
//! it publishes.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use postroom::Inspect;
use postroom::table::{self, Table};
use postroom_host::Module;
use postroom_proof::occupant;
use sea_orm::sea_query::{Alias, Expr, ExprTrait as _, IntoTableRef as _, Query, TableRef};
use sea_orm::{ConnectionTrait as _, QueryResult};

use crate::cpu::{self, Cpu};
use crate::guest::Guest;
use crate::native::{Native, Sql, sql};
use crate::stage::Stage;
use crate::trial_broker::TrialBroker;

pub(super) use postroom_proof::occupant::{BENCH_ROUTES as ROUTES, BENCH_TYPES as TYPES};

/// Ids whose entries are removed in one transaction.
const SWEEP: i64 = 50_000;

const TABLES: Sql = sql!("tables");
const RUN: &str = include_str!("../sql/run.sql");
const DROP: &str = include_str!("../sql/drop.sql");
const POSTGRES_SERVER: &str = include_str!("../sql/server.postgres.sql");
const MYSQL_SERVER: &str = include_str!("../sql/server.mysql.sql");

/// Receives a line that says how far a bench is; an empty line clears the last one.
pub type Tell = fn(&str);

/// The store of a bench, opened and migrated by the program.
#[derive(Debug)]
pub struct Place {
    /// The store with its driver.
    pub native: Native,
    /// Its address without the password.
    pub url: String,
    /// The store was made for this bench and is removed afterwards, with all that the bench leaves there.
    pub is_temporary: bool,
    /// Take the store even if others are at work there.
    pub is_forced: bool,
    /// Receives the progress.
    pub tell: Tell,
}

/// A store that is ours for a while.
#[derive(Debug)]
pub(super) struct Site {
    url: String,
    is_temporary: bool,
    pub(super) tell: Tell,
    pub(super) native: Native,
    pub(super) store: Arc<dyn Inspect>,
    /// A topic on a broker, if the bench publishes.
    pub(super) stage: Option<Stage>,
    /// Modules whose tables are in the store for this bench.
    guests: Vec<Guest>,
}

impl Site {
    /// Claims the store. Refuses one where others are at work, unless it is forced.
    pub(super) async fn open(place: Place) -> Result<Self> {
        let site = Self {
            url: place.url,
            is_temporary: place.is_temporary,
            tell: place.tell,
            store: place.native.store(),
            native: place.native,
            stage: None,
            guests: Vec::new(),
        };
        site.claim(place.is_forced).await?;
        Ok(site)
    }

    /// Tells how far the bench is.
    pub(super) fn progress(&self, text: &str) {
        (self.tell)(text);
    }

    /// With a topic on a broker.
    pub(super) async fn with_stage(mut self, broker: &TrialBroker, is_transactional: bool) -> Result<Self> {
        match Stage::open(broker, is_transactional).await {
            Ok(stage) => self.stage = Some(stage),
            Err(error) => {
                self.close().await?;
                return Err(error);
            }
        }
        Ok(self)
    }

    /// With the tables of these modules.
    pub(super) async fn with_guests(mut self, modules: &[Module]) -> Result<Self> {
        for module in modules {
            match Guest::receive(self.store.db(), module).await {
                Ok(guest) => self.guests.push(guest),
                Err(error) => {
                    self.close().await?;
                    return Err(error);
                }
            }
        }
        Ok(self)
    }

    /// Removes whatever the bench has made.
    pub(super) async fn close(&self) -> Result<()> {
        let swept = match self.is_temporary {
            true => Ok(()),
            false => self.sweep().await.context("remove what the bench has made"),
        };
        if let Some(stage) = &self.stage {
            stage.remove().await?;
        }
        swept
    }

    /// Makes sure that nobody is disturbed, and makes the bench's tables.
    async fn claim(&self, is_forced: bool) -> Result<()> {
        self.script(RUN).await?;
        let is_claimed = self.floor().await?.is_some();
        if !is_forced {
            if is_claimed {
                bail!(
                    "a bench runs on {}, or one was killed there; --force removes what it left behind",
                    self.url
                );
            }
            let refused = occupant::refuse(&*self.store, &self.url).await;
            if refused.is_err() {
                self.script(DROP).await?;
            }
            refused?;
        }
        if is_claimed {
            self.sweep().await.context("remove what an earlier bench left behind")?;
            self.script(RUN).await?;
        }
        let mut insert = Query::insert();
        insert
            .into_table(ours("bench_run"))
            .columns(["floor"])
            .values_panic([self.last_id().await?.into()]);
        self.store.db().execute(&insert).await.context("claim the store")?;
        self.script(TABLES.on(&self.native)).await
    }

    async fn sweep(&self) -> Result<()> {
        self.sweep_log(TYPES).await?;
        self.sweep_routes(ROUTES).await?;
        for guest in self.guests.iter().rev() {
            self.sweep_log(&guest.types()).await?;
            self.sweep_routes(&guest.routes()).await?;
            guest.leave(self.store.db()).await?;
        }
        self.script(DROP).await
    }

    /// Removes what is kept about the routes whose names begin so.
    pub(super) async fn sweep_routes(&self, prefix: &str) -> Result<()> {
        let of_ours = |table, column: &'static str| {
            let mut delete = Query::delete();
            delete
                .from_table(table::named(self.store.db(), table))
                .and_where(Expr::col(column).like(format!("{prefix}%")));
            delete
        };
        for (table, column) in [
            (Table::Cursor, "route"),
            (Table::Down, "route"),
            (Table::Parked, "route"),
            (Table::Failed, "route"),
            (Table::Handled, "idempotency_key"),
        ] {
            self.store.db().execute(&of_ours(table, column)).await?;
        }
        Ok(())
    }

    /// Removes the bench's entries of these types, a range of ids at a time: a store may hold millions of others.
    pub(super) async fn sweep_log(&self, types: &str) -> Result<()> {
        if matches!(self.native, Native::Mysql(_)) {
            let mut delete = Query::delete();
            delete
                .from_table(table::named(self.store.db(), Table::Incoming))
                .and_where(Expr::col("event_type").like(format!("{types}%")));
            self.store.db().execute(&delete).await?;
        }
        let last = self.last_id().await?;
        let mut from = self.floor().await?.unwrap_or(last);
        while from < last {
            self.progress(&format!("removing the bench's events, {} to go", last - from));
            let mut delete = Query::delete();
            delete
                .from_table(table::named(self.store.db(), Table::Outbox))
                .and_where(Expr::col("id").gt(from))
                .and_where(Expr::col("id").lte(from + SWEEP))
                .and_where(Expr::col("event_type").like(format!("{types}%")));
            self.store.db().execute(&delete).await?;
            from += SWEEP;
        }
        self.progress("");
        Ok(())
    }

    /// Above which id the entries of a bench stand, if one has claimed the store.
    async fn floor(&self) -> Result<Option<i64>> {
        let mut select = Query::select();
        select.column("floor").from(ours("bench_run"));
        let row = self
            .store
            .db()
            .query_one(&select)
            .await
            .context("look for other benches")?;
        row.map(|row| Ok(row.try_get("", "floor")?)).transpose()
    }

    /// The highest id in the log.
    pub(super) async fn last_id(&self) -> Result<i64> {
        let last: Option<i64> = self
            .ask(table::named(self.store.db(), Table::Outbox), "max(id)")
            .await?;
        Ok(last.unwrap_or(0))
    }

    /// How many rows one of the bench's tables has.
    pub(super) async fn count(&self, name: &'static str) -> Result<i64> {
        self.count_where(name, Expr::val(1).eq(1)).await
    }

    /// How many of these rows it has.
    pub(super) async fn count_where(&self, name: &'static str, condition: Expr) -> Result<i64> {
        let mut select = Query::select();
        select
            .expr_as(Expr::cust("count(*)"), "answer")
            .from(ours(name))
            .and_where(condition);
        let row = self.store.db().query_one(&select).await?;
        Ok(row.map_or(Ok(0), |row| row.try_get("", "answer"))?)
    }

    async fn ask(&self, table: TableRef, what: &'static str) -> Result<Option<i64>> {
        let mut select = Query::select();
        select.expr_as(Expr::cust(what), "answer").from(table);
        let row = self.store.db().query_one(&select).await?;
        let read = |row: QueryResult| row.try_get::<Option<i64>>("", "answer");
        Ok(row.map(read).transpose()?.flatten())
    }

    /// The answer to a statement that has one column and at most one row, as text.
    pub(super) async fn text(&self, sql: &'static str, column: usize) -> Result<Option<String>> {
        let backend = self.store.db().get_database_backend();
        let row = self
            .store
            .db()
            .query_one_raw(sea_orm::Statement::from_string(backend, sql))
            .await?;
        row.map(|row| Ok(row.try_get_by_index(column)?)).transpose()
    }

    /// CPU time of the database server, if it is on this machine.
    pub(super) async fn server_cpu(&self) -> Result<Option<Cpu>> {
        Ok(match self.native {
            Native::Postgres(_) => {
                let backend = self.text(POSTGRES_SERVER, 0).await?;
                backend.and_then(|backend| cpu::postgres(&backend))
            }
            Native::Mysql(_) => {
                let pid_file = self.text(MYSQL_SERVER, 0).await?;
                pid_file.and_then(|pid_file| cpu::mysql(&pid_file))
            }
            Native::Sqlite(_) => None,
        })
    }

    /// Runs several statements.
    async fn script(&self, sql: &'static str) -> Result<()> {
        self.store
            .db()
            .execute_unprepared(sql)
            .await
            .context("make the bench's tables")?;
        Ok(())
    }
}

/// A table of the bench's.
fn ours(name: &'static str) -> TableRef {
    Alias::new(name).into_table_ref()
}
