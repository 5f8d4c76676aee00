//! Numbered migrations: applied once, in order, by one process at a time, and never edited after release.

use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend};
use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::table::{self, Table};

/// One step of a schema. `up` and `down` may hold several statements.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Migration {
    /// Its place in the order, starting at 1.
    pub number: i32,
    /// What it does, as in the file's name.
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

async fn up_one(tx: &DatabaseTransaction, owner: &str, all: &[Migration], migration: &Migration) -> Result<bool> {
    let known = recorded(tx, owner).await?;
    refuse_newer(owner, &known, all)?;
    if known.contains(&migration.number) {
        return Ok(false);
    }
    tx.execute_unprepared(migration.up).await.map_err(|source| {
        Error::db(format!("migrate {owner} up to {:04}_{}", migration.number, migration.name), source)
    })?;
    record(tx, owner, migration).await?;
    Ok(true)
}

async fn down_one(tx: &DatabaseTransaction, owner: &str, all: &[Migration]) -> Result<Option<Migration>> {
    let known = recorded(tx, owner).await?;
    refuse_newer(owner, &known, all)?;
    let Some(newest) = all.iter().rev().find(|migration| known.contains(&migration.number)) else {
        return Ok(None);
    };
    forget(tx, owner, newest.number).await?;
    tx.execute_unprepared(newest.down).await.map_err(|source| {
        Error::db(format!("migrate {owner} down from {:04}_{}", newest.number, newest.name), source)
    })?;
    Ok(Some(*newest))
}

/// What of `owner`'s migrations is not applied yet.
pub async fn pending(db: &DatabaseConnection, owner: &str, all: &[Migration]) -> Result<Vec<Migration>> {
    prepare(db).await?;
    let known = recorded(db, owner).await?;
    refuse_newer(owner, &known, all)?;
    Ok(all.iter().filter(|migration| !known.contains(&migration.number)).copied().collect())
}

async fn prepare(db: &DatabaseConnection) -> Result<()> {
    // The schema itself is taken care of one statement at a time: PostgreSQL races on "if not exists" otherwise.
    let statements: &[&str] = match db.get_database_backend() {
        DbBackend::Postgres => &[
            "do $$ begin
               if to_regclass('postroom.migration') is null then
                 perform pg_advisory_xact_lock(7382914);
                 create schema if not exists postroom;
                 create table if not exists postroom.migration (
                   owner text not null, number int not null, name text not null,
                   applied_at timestamptz not null default now(), primary key (owner, number));
               end if;
             end $$",
        ],
        DbBackend::MySql => &["create table if not exists postroom_migration (
               owner varchar(100) not null, number int not null, name varchar(200) not null,
               applied_at datetime(6) not null default utc_timestamp(6), primary key (owner, number)) engine=InnoDB"],
        _ => &["create table if not exists postroom_migration (
               owner text not null, number integer not null, name text not null,
               applied_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')), primary key (owner, number))"],
    };
    for statement in statements {
        db.execute_unprepared(statement)
            .await
            .map_err(|source| Error::db("prepare the migration table", source))?;
    }
    Ok(())
}

/// One migrator at a time. SQLite's immediate transaction is the lock itself; MySQL commits at every DDL statement, so its
/// lock belongs to the session and must be given back.
async fn lock(tx: &DatabaseTransaction) -> Result<()> {
    let statement = match tx.get_database_backend() {
        DbBackend::Postgres => "lock table postroom.migration in exclusive mode",
        DbBackend::MySql => "do get_lock(concat('postroom.migration.', database()), 60)",
        _ => return Ok(()),
    };
    tx.execute_unprepared(statement).await.map_err(|source| Error::db("wait for other migrators", source))?;
    Ok(())
}

async fn unlock(tx: &DatabaseTransaction) -> Result<()> {
    if tx.get_database_backend() == DbBackend::MySql {
        let statement = "do release_lock(concat('postroom.migration.', database()))";
        tx.execute_unprepared(statement).await.map_err(|source| Error::db("let other migrators go on", source))?;
    }
    Ok(())
}

async fn recorded(db: &impl ConnectionTrait, owner: &str) -> Result<Vec<i32>> {
    let mut select = Query::select();
    select
        .column("number")
        .from(table::named(db, Table::Migration))
        .and_where(Expr::col("owner").eq(owner));
    let rows = db.query_all(&select).await.map_err(|source| Error::db("read which migrations are applied", source))?;
    rows.iter().map(|row| Ok(row.try_get("", "number")?)).collect()
}

fn refuse_newer(owner: &str, known: &[i32], all: &[Migration]) -> Result<()> {
    let newest = all.last().map_or(0, |migration| migration.number);
    match known.iter().max() {
        Some(found) if *found > newest => Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "{owner}'s tables are at migration {found}, this program knows {newest}: they were upgraded by a newer version; \
                 run that version, or take them back with it (`postroom migrate --down`) first"
            ),
        )),
        _ => Ok(()),
    }
}

async fn record(tx: &DatabaseTransaction, owner: &str, migration: &Migration) -> Result<()> {
    let mut insert = Query::insert();
    insert
        .into_table(table::named(tx, Table::Migration))
        .columns(["owner", "number", "name"])
        .values_panic([owner.into(), migration.number.into(), migration.name.into()]);
    tx.execute(&insert).await.map_err(|source| Error::db("record a migration", source))?;
    Ok(())
}

async fn forget(tx: &DatabaseTransaction, owner: &str, number: i32) -> Result<()> {
    let mut delete = Query::delete();
    delete
        .from_table(table::named(tx, Table::Migration))
        .and_where(Expr::col("owner").eq(owner))
        .and_where(Expr::col("number").eq(number));
    tx.execute(&delete).await.map_err(|source| Error::db("forget a migration", source))?;
    Ok(())
}
