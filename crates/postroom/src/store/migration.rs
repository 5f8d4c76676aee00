//! Numbered migrations: applied once, in order, by one process at a time, and never edited after release.

mod mysql;
mod statement;

use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, DbErr, Statement};
use serde::Serialize;

use crate::error::{Error, ErrorKind, NextStep, Result};
use crate::store::table::{self, Table};
use crate::store::tx::Tx;

/// One step of a schema. `up` and `down` may hold several statements.
///
/// MySQL and MariaDB commit at each statement that changes the schema. There a step that broke off begins again at its first
/// statement: what it made of the schema it finds again, what changes rows must be repeatable.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Migration {
    /// Its place in the order, starting at 1.
    pub number: i32,
    /// Its description, as in the file's name.
    pub name: &'static str,
    /// SQL that applies it.
    #[serde(skip)]
    pub up: &'static str,
    /// SQL that takes it back.
    #[serde(skip)]
    pub down: &'static str,
}

/// Applies what is missing of `owner`'s migrations (`postroom` for the platform, a module's name for its tables) and
/// answers what was applied. Safe to call from many processes at once.
pub async fn up(db: &DatabaseConnection, owner: &str, all: &[Migration]) -> Result<Vec<Migration>> {
    prepare(db).await?;
    let mut applied = Vec::new();
    for migration in all {
        let tx = table::begin(db).await?;
        lock(&tx).await?;
        let done = up_one(&tx, owner, all, migration).await;
        unlock(&tx).await?;
        applied.extend(done?.then_some(*migration));
        tx.commit().await?;
    }
    Ok(applied)
}

/// Takes back `owner`'s newest migration; answers which.
pub async fn down(db: &DatabaseConnection, owner: &str, all: &[Migration]) -> Result<Option<Migration>> {
    prepare(db).await?;
    let tx = table::begin(db).await?;
    lock(&tx).await?;
    let done = down_one(&tx, owner, all).await;
    unlock(&tx).await?;
    let undone = done?;
    tx.commit().await?;
    Ok(undone)
}

async fn up_one(tx: &Tx, owner: &str, all: &[Migration], migration: &Migration) -> Result<bool> {
    let known = recorded(tx, owner).await?;
    refuse_newer(owner, &known, all)?;
    if known.contains(&migration.number) {
        return Ok(false);
    }
    let failed = |source: DbErr| {
        let doing = format!("migrate {owner} up to {:04}_{}", migration.number, migration.name);
        match mysql::advice(&source) {
            Some(advice) => Error::caused(ErrorKind::Failed, format!("{doing}: {advice}"), source),
            None => Error::db(doing, source),
        }
    };
    if tx.get_database_backend() == DbBackend::MySql {
        mysql::up(tx, owner, migration, failed).await?;
        record(tx, owner, migration).await?;
        mysql::end(tx, owner, migration).await?;
    } else {
        tx.execute_unprepared(migration.up).await.map_err(failed)?;
        record(tx, owner, migration).await?;
    }
    Ok(true)
}

async fn down_one(tx: &Tx, owner: &str, all: &[Migration]) -> Result<Option<Migration>> {
    let known = recorded(tx, owner).await?;
    refuse_newer(owner, &known, all)?;
    let Some(newest) = all.iter().rev().find(|migration| known.contains(&migration.number)) else {
        return Ok(None);
    };
    let is_mysql = tx.get_database_backend() == DbBackend::MySql;
    if is_mysql {
        mysql::begin_down(tx, owner, newest).await?;
    }
    forget(tx, owner, newest.number).await?;
    tx.execute_unprepared(newest.down).await.map_err(|source| {
        Error::db(
            format!("migrate {owner} down from {:04}_{}", newest.number, newest.name),
            source,
        )
    })?;
    if is_mysql {
        mysql::end(tx, owner, newest).await?;
    }
    Ok(Some(*newest))
}

/// The migrations of `owner` that are not applied yet. Writes nothing: a read-only user can call it.
pub async fn pending(db: &DatabaseConnection, owner: &str, all: &[Migration]) -> Result<Vec<Migration>> {
    let known = match has_record_table(db).await? {
        true => recorded(db, owner).await?,
        false => Vec::new(),
    };
    refuse_newer(owner, &known, all)?;
    Ok(all
        .iter()
        .filter(|migration| !known.contains(&migration.number))
        .copied()
        .collect())
}

/// Everything as one script for a migration tool of the user's own; it records what it does, so that [`up`] knows.
pub fn script(backend: DbBackend, owners: &[(&str, &[Migration])]) -> String {
    // The clients of MySQL and MariaDB would otherwise end a procedure at its first semicolon.
    let (table, begin, end) = match backend {
        DbBackend::Postgres => ("postroom.migration", "", ""),
        DbBackend::MySql => ("postroom_migration", "delimiter $$\n", "\n$$\ndelimiter ;"),
        _ => ("postroom_migration", "", ""),
    };
    let mut script = format!("-- Which migrations are applied.\n{};\n\n", record_table(backend));
    for (owner, all) in owners {
        for migration in *all {
            let Migration { number, name, up, .. } = migration;
            let up = up.trim_end();
            script.push_str(&format!("-- {owner} {number:04}_{name}\n{begin}{up}{end}\n"));
            script.push_str(&format!(
                "insert into {table} (owner, number, name) values ('{owner}', {number}, '{name}');\n\n"
            ));
        }
    }
    script
}

async fn has_record_table(db: &DatabaseConnection) -> Result<bool> {
    let backend = db.get_database_backend();
    let sql = match backend {
        DbBackend::Postgres => "select 1 as one where to_regclass('postroom.migration') is not null",
        DbBackend::MySql => {
            "select 1 as one from information_schema.tables \
             where table_schema = database() and table_name = 'postroom_migration'"
        }
        _ => "select 1 as one from sqlite_master where type = 'table' and name = 'postroom_migration'",
    };
    let row = db
        .query_one_raw(Statement::from_string(backend, sql))
        .await
        .map_err(|source| Error::db("look for the migration table", source))?;
    Ok(row.is_some())
}

async fn prepare(db: &DatabaseConnection) -> Result<()> {
    let tx = table::begin(db).await?;
    tx.execute_unprepared(record_table(db.get_database_backend()))
        .await
        .map_err(|source| Error::db("prepare the migration table", source))?;
    tx.commit().await?;
    Ok(())
}

fn record_table(backend: DbBackend) -> &'static str {
    match backend {
        DbBackend::Postgres => include_str!("../../sql/migration.postgres.sql"),
        DbBackend::MySql => include_str!("../../sql/migration.mysql.sql"),
        _ => include_str!("../../sql/migration.sqlite.sql"),
    }
    .trim_end()
}

/// The lock's name on MySQL: of at most 64 letters, and without `md5`, which MySQL 9.6 does not have.
macro_rules! mysql_lock {
    () => {
        "concat('postroom.migration.', left(sha2(database(), 256), 32))"
    };
}

/// One migrator at a time. SQLite's immediate transaction is the lock itself; MySQL commits at every DDL statement, so its
/// lock belongs to the session and must be given back.
async fn lock(tx: &Tx) -> Result<()> {
    let doing = |source| Error::db("wait for other migrators", source);
    match tx.get_database_backend() {
        DbBackend::Postgres => {
            tx.execute_unprepared("lock table postroom.migration in exclusive mode")
                .await
                .map_err(doing)?;
        }
        DbBackend::MySql => {
            let sql = concat!("select get_lock(", mysql_lock!(), ", 60) = 1 as is_locked");
            let row = tx
                .query_one_raw(Statement::from_string(DbBackend::MySql, sql))
                .await
                .map_err(doing)?;
            let is_locked: Option<i32> = row.map_or(Ok(None), |row| row.try_get("", "is_locked"))?;
            if is_locked != Some(1) {
                return Err(Error::new(
                    ErrorKind::Unavailable,
                    "another process has been migrating this database for a minute",
                ));
            }
        }
        _ => {}
    }
    Ok(())
}

async fn unlock(tx: &Tx) -> Result<()> {
    if tx.get_database_backend() == DbBackend::MySql {
        let statement = concat!("do release_lock(", mysql_lock!(), ")");
        tx.execute_unprepared(statement)
            .await
            .map_err(|source| Error::db("let other migrators go on", source))?;
    }
    Ok(())
}

async fn recorded(db: &impl ConnectionTrait, owner: &str) -> Result<Vec<i32>> {
    let mut select = Query::select();
    select
        .column("number")
        .from(table::named(db, Table::Migration))
        .and_where(Expr::col("owner").eq(owner));
    let rows = db
        .query_all(&select)
        .await
        .map_err(|source| Error::db("read which migrations are applied", source))?;
    rows.iter().map(|row| Ok(row.try_get("", "number")?)).collect()
}

fn refuse_newer(owner: &str, known: &[i32], all: &[Migration]) -> Result<()> {
    let newest = all.last().map_or(0, |migration| migration.number);
    match known.iter().max() {
        Some(found) if *found > newest => Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "{owner}'s tables are at migration {found}, this program knows {newest}: they were upgraded by a newer version"
            ),
        )
        .with_next([NextStep::RunNewer, NextStep::MigrateDown])),
        _ => Ok(()),
    }
}

async fn record(tx: &Tx, owner: &str, migration: &Migration) -> Result<()> {
    let mut insert = Query::insert();
    insert
        .into_table(table::named(tx, Table::Migration))
        .columns(["owner", "number", "name"])
        .values_panic([owner.into(), migration.number.into(), migration.name.into()]);
    tx.execute(&insert)
        .await
        .map_err(|source| Error::db("record a migration", source))?;
    Ok(())
}

async fn forget(tx: &Tx, owner: &str, number: i32) -> Result<()> {
    let mut delete = Query::delete();
    delete
        .from_table(table::named(tx, Table::Migration))
        .and_where(Expr::col("owner").eq(owner))
        .and_where(Expr::col("number").eq(number));
    tx.execute(&delete)
        .await
        .map_err(|source| Error::db("forget a migration", source))?;
    Ok(())
}
