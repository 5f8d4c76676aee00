//! One step of the sequencer: looks twice, moves what may be moved into the log, numbers it. One transaction.

use std::collections::HashMap;

use postroom::{Error, ErrorKind, Result};
use sqlx::mysql::{MySql, MySqlRow};
use sqlx::{Connection, FromRow, MySqlConnection, Row, Transaction};

use crate::error::{db, is_lock_timeout};
use crate::sequence::Lead;

/// The result of a step.
#[derive(Debug)]
pub(crate) enum Step {
    /// The numbers now reach up to here, and this is how many rows the first look showed.
    Moved(Lead, usize),
    /// Another process has the lease.
    Deposed,
}

impl Step {
    /// Takes a step of about `batch` rows under this lease.
    pub(crate) async fn take(conn: &mut MySqlConnection, lead: Lead, owner: &str, batch: u32) -> Result<Self> {
        let mut tx = conn
            .begin()
            .await
            .map_err(|source| db("begin to number events", source))?;
        if !holds(&mut tx, lead).await? {
            tx.rollback().await.map_err(|source| db("give up numbering", source))?;
            return Ok(Self::Deposed);
        }
        let first = look(&mut tx, batch).await?;
        let moved = match first.last() {
            Some(last) => {
                let second = look_again(&mut tx, last.id).await?;
                let moved = move_rows(&mut tx, lead, &cut(&first, &second)).await?;
                renew(&mut tx, lead, moved, owner).await?;
                moved
            }
            None => lead,
        };
        tx.commit().await.map_err(|source| db("commit the numbers", source))?;
        Ok(Self::Moved(moved, first.len()))
    }
}

/// Locks the lease row and tells whether it is as this process left it.
async fn holds(tx: &mut Transaction<'_, MySql>, lead: Lead) -> Result<bool> {
    let found: Result<Lead, _> = sqlx::query_as(include_str!("../sql/lease_lock.sql"))
        .fetch_one(&mut **tx)
        .await;
    match found {
        Ok(found) => Ok(found == lead),
        Err(error) if is_lock_timeout(&error) => Ok(false),
        Err(error) => Err(db("lock the sequencer's lease", error)),
    }
}

/// A committed row that waits for its number.
#[derive(Debug)]
struct Waiting {
    id: i64,
    aggregate_type: String,
    aggregate_id: String,
}

impl FromRow<'_, MySqlRow> for Waiting {
    fn from_row(row: &MySqlRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.try_get("id")?,
            aggregate_type: row.try_get("aggregate_type")?,
            aggregate_id: row.try_get("aggregate_id")?,
        })
    }
}

impl Waiting {
    fn key(&self) -> (&str, &str) {
        (&self.aggregate_type, &self.aggregate_id)
    }
}

async fn look(tx: &mut Transaction<'_, MySql>, batch: u32) -> Result<Vec<Waiting>> {
    sqlx::query_as(include_str!("../sql/look.sql"))
        .bind(batch)
        .fetch_all(&mut **tx)
        .await
        .map_err(|source| db("look at new events", source))
}

async fn look_again(tx: &mut Transaction<'_, MySql>, last: i64) -> Result<Vec<Waiting>> {
    sqlx::query_as(include_str!("../sql/look_again.sql"))
        .bind(last)
        .fetch_all(&mut **tx)
        .await
        .map_err(|source| db("look at new events again", source))
}

/// The rows to number: of each key of the first look, all that the second shows up to its last of the first.
fn cut(first: &[Waiting], second: &[Waiting]) -> Vec<i64> {
    if first.len() == second.len() {
        // The second look shows whatever the first did.
        return first.iter().map(|row| row.id).collect();
    }
    let last: HashMap<_, _> = first.iter().map(|row| (row.key(), row.id)).collect();
    let is_known = |row: &&Waiting| last.get(&row.key()).is_some_and(|last| row.id <= *last);
    second.iter().filter(is_known).map(|row| row.id).collect()
}

/// Moves the rows into the log, numbered from the lease's number on; answers the lease with its new number.
async fn move_rows(tx: &mut Transaction<'_, MySql>, lead: Lead, ids: &[i64]) -> Result<Lead> {
    let count = ids.len() as u64;
    let next_seq = lead.next_seq.saturating_add_unsigned(count);
    let inserted = sqlx::query(include_str!("../sql/move_in.sql"))
        .bind(lead.next_seq)
        .bind(serde_json::to_string(ids)?)
        .execute(&mut **tx)
        .await
        .map_err(|source| db("number new events", source))?;
    expect("numbered", count, inserted.rows_affected())?;
    let deleted = sqlx::query(include_str!("../sql/move_out.sql"))
        .bind(lead.next_seq)
        .bind(next_seq)
        .execute(&mut **tx)
        .await
        .map_err(|source| db("take numbered events out of the queue", source))?;
    expect("taken out", count, deleted.rows_affected())?;
    Ok(Lead { next_seq, ..lead })
}

async fn renew(tx: &mut Transaction<'_, MySql>, from: Lead, to: Lead, owner: &str) -> Result<()> {
    let renewed = sqlx::query(include_str!("../sql/lease_renew.sql"))
        .bind(owner)
        .bind(to.next_seq)
        .bind(from.next_seq)
        .bind(from.epoch)
        .execute(&mut **tx)
        .await
        .map_err(|source| db("renew the sequencer's lease", source))?;
    expect("renewed", 1, renewed.rows_affected())
}

/// A count that differs means that somebody else writes these tables: the step is rolled back.
fn expect(what: &str, expected: u64, found: u64) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Failed,
        format!(
            "{found} rows were {what} instead of {expected}: something besides the sequencer changes postroom's tables"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(list: &[(i64, &str)]) -> Vec<Waiting> {
        list.iter()
            .map(|(id, key)| Waiting {
                id: *id,
                aggregate_type: "a".into(),
                aggregate_id: (*key).into(),
            })
            .collect()
    }

    #[test]
    fn the_second_look_repairs_a_torn_first_one() {
        let check = |first: &[(i64, &str)], second: &[(i64, &str)], expected: &[i64]| {
            assert_eq!(cut(&rows(first), &rows(second)), expected, "{first:?} {second:?}");
        };
        check(&[], &[], &[]);
        check(&[(1, "x"), (2, "y")], &[(1, "x"), (2, "y")], &[1, 2]);
        // The first look has x's later event without the earlier one: the second brings it, in its place.
        check(&[(2, "x"), (3, "y")], &[(1, "x"), (2, "x"), (3, "y")], &[1, 2, 3]);
        // Rows that are new in the second look may be torn too: they wait for the next step.
        check(&[(1, "x"), (9, "y")], &[(1, "x"), (5, "x"), (9, "y")], &[1, 9]);
        check(&[(1, "x"), (9, "y")], &[(1, "x"), (4, "z"), (9, "y")], &[1, 9]);
    }
}
