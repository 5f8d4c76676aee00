//! Migrations on MySQL and MariaDB, which commit at each statement that changes the schema: a migration that broke off has
//! left the statements before behind. So the statement that begins is noted, and when the migration is run again, what was
//! begun before may be there already. A table that no migration has begun may not: another program has made it.

use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{ConnectionTrait, DbErr};

use super::{Migration, forget, record, recorded, statement};
use crate::error::{Error, Result};
use crate::store::table::{self, Table};
use crate::store::tx::Tx;

/// A table, a column, an index, a foreign key or a check of this name exists; a column or an index to drop does not.
const DONE_ALREADY: [u16; 6] = [1050, 1060, 1061, 1826, 3822, 1091];

/// The user may not create a trigger while the server writes a binary log.
const TRIGGER_REFUSED: u16 = 1419;

/// Runs the statements one by one. [`end`] must follow when the migration is recorded.
pub(super) async fn up(tx: &Tx, owner: &str, migration: &Migration, failed: impl Fn(DbErr) -> Error) -> Result<()> {
    let begun = begin(tx, owner, migration).await?;
    for (number, statement) in (1..).zip(statement::statements(migration.up)) {
        if number > begun {
            note(tx, owner, migration, number).await?;
        }
        match tx.execute_unprepared(statement).await {
            Err(error) if number <= begun && is_done_already(&error) => {
                tracing::info!(%error, "done by an earlier try, which broke off");
            }
            Err(error) => {
                if number > begun {
                    // It changed nothing. If the connection is gone, nobody knows, and it stays begun.
                    let _lost = note(tx, owner, migration, number - 1).await;
                }
                return Err(failed(error));
            }
            Ok(_) => {}
        }
    }
    Ok(())
}

/// Takes a migration that was begun as ended, up or down.
pub(super) async fn end(tx: &Tx, owner: &str, migration: &Migration) -> Result<()> {
    forget(tx, &noted(owner), migration.number).await
}

/// Begins to take a migration back: if that breaks off, any part of it may be there when it is applied again.
pub(super) async fn begin_down(tx: &Tx, owner: &str, migration: &Migration) -> Result<()> {
    begin(tx, owner, migration).await?;
    let all = statement::statements(migration.up).len();
    note(tx, owner, migration, all.try_into().unwrap_or(u32::MAX)).await
}

/// How many statements earlier tries began.
async fn begin(tx: &Tx, owner: &str, migration: &Migration) -> Result<u32> {
    let noted = noted(owner);
    if !recorded(tx, &noted).await?.contains(&migration.number) {
        let begun = Migration {
            name: "0",
            ..*migration
        };
        record(tx, &noted, &begun).await?;
        return Ok(0);
    }
    let mut select = Query::select();
    select
        .column("name")
        .from(table::named(tx, Table::Migration))
        .and_where(Expr::col("owner").eq(noted))
        .and_where(Expr::col("number").eq(migration.number));
    let row = tx.query_one(&select).await.map_err(reading)?;
    let begun: Option<String> = row.map(|row| row.try_get("", "name")).transpose()?;
    Ok(begun.and_then(|begun| begun.parse().ok()).unwrap_or_default())
}

/// Notes that this statement begins; committed at the latest when it changes the schema.
async fn note(tx: &Tx, owner: &str, migration: &Migration, statement: u32) -> Result<()> {
    let mut update = Query::update();
    update
        .table(table::named(tx, Table::Migration))
        .value("name", statement.to_string())
        .and_where(Expr::col("owner").eq(noted(owner)))
        .and_where(Expr::col("number").eq(migration.number));
    tx.execute(&update).await.map_err(reading)?;
    Ok(())
}

fn reading(source: DbErr) -> Error {
    Error::db("note how far a migration has come", source)
}

/// Notes stand among the records, under a name that is no owner's; the name of the migration is the statement's number.
fn noted(owner: &str) -> String {
    format!("{owner} (begun)")
}

fn is_done_already(error: &DbErr) -> bool {
    number(error).is_some_and(|number| DONE_ALREADY.contains(&number))
}

/// The correction for an error of a migration.
pub(super) fn advice(error: &DbErr) -> Option<&'static str> {
    (number(error)? == TRIGGER_REFUSED).then_some(
        "the server writes a binary log, and this user may not create triggers meanwhile. As an administrator, \
         `set persist log_bin_trust_function_creators = 1` on MySQL (on MariaDB `set global …`, and the same line in its \
         configuration file), or migrate as a user with SUPER; then run the migration again, it goes on where it stopped",
    )
}

/// The server's number of an error, which the driver tells in its text alone.
fn number(error: &DbErr) -> Option<u16> {
    let text = error.to_string();
    let (_, told) = text.split_once("error returned from database: ")?;
    told.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use sea_orm::{DbErr, RuntimeErr};

    use super::{advice, number};

    fn error(text: &str) -> DbErr {
        DbErr::Exec(RuntimeErr::Internal(text.to_owned()))
    }

    #[test]
    fn the_servers_number_is_read_from_the_text() {
        let exists = error("error returned from database: 1050 (42S01): Table 'ledger_account' already exists");
        assert_eq!(number(&exists), Some(1050));
        assert_eq!(number(&error("Connection refused")), None);
    }

    #[test]
    fn a_refused_trigger_has_its_advice() {
        let refused = error("error returned from database: 1419 (HY000): You do not have the SUPER privilege");
        assert!(advice(&refused).is_some_and(|advice| advice.contains("log_bin_trust_function_creators")));
        assert!(advice(&error("error returned from database: 1050 (42S01): exists")).is_none());
    }
}
