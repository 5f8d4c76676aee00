//! The order of what is parked: the first row of a lane is due or held, the others wait.

use std::collections::HashSet;

use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{ConnectionTrait, QueryResult};

use super::{DUE_MAX, ParkedBy, Parking, ROWS_MAX, among, of, one_of, read_key};
use crate::error::{Error, Result};
use crate::event::Key;
use crate::policy::ordering::{Lane, Lanes, Ordering};
use crate::state::cursor::Shard;
use crate::store::db_clock::db_now;
use crate::store::table::{self, Table};
use crate::store::tx::Tx;

/// Puts the rows of these keys into order: the first of a lane is due unless it is held, the others wait. Answers those of
/// the keys that have no row any more.
pub(crate) async fn arrange(
    tx: &Tx,
    shard: &Shard,
    ordering: Ordering,
    mut keys: HashSet<Key>,
) -> Result<HashSet<Key>> {
    if keys.is_empty() {
        return Ok(keys);
    }
    let places = places(tx, shard, ordering, Some(&keys)).await?;
    put(tx, shard, &misplaced(ordering, &places)).await?;
    for place in &places {
        keys.remove(&place.key);
    }
    Ok(keys)
}

/// The parked rows of a shard, in order.
#[derive(Debug)]
pub(crate) struct Arranged {
    /// The lanes that stand still.
    pub(crate) lanes: Lanes,
    /// How many rows the shard has parked by itself.
    pub(crate) failed: u64,
    /// Whether every lane's first row is due or held; otherwise some are to be made due when others are gone.
    pub(crate) is_whole: bool,
}

/// Puts the rows of a shard into order, and makes no more than [`DUE_MAX`] of them due: whoever waits for the cursor meanwhile
/// does not wait for long, however many an operator has retried.
pub(crate) async fn arrange_all(tx: &Tx, shard: &Shard, ordering: Ordering) -> Result<Arranged> {
    let places = places(tx, shard, ordering, None).await?;
    let mut misplaced = misplaced(ordering, &places);
    let is_whole = misplaced.due.len() <= DUE_MAX;
    misplaced.due.truncate(DUE_MAX);
    put(tx, shard, &misplaced).await?;
    let failed = places.iter().filter(|place| !place.is_requested).count() as u64;
    let lanes = match ordering {
        Ordering::Strict => places.first().map(|_| Lane::Single).into_iter().collect(),
        Ordering::Key => places.into_iter().map(|place| Lane::Key(place.key)).collect(),
        Ordering::None => Lanes::new(),
    };
    Ok(Arranged {
        lanes,
        failed,
        is_whole,
    })
}

/// A parked row, as far as its place among the others goes.
#[derive(Debug)]
struct Place {
    id: i64,
    key: Key,
    state: Parking,
    /// An operator has retried or replayed it.
    is_requested: bool,
}

/// The places of a shard, in order by id. Only where lanes are keys can one key be looked at without the others.
async fn places(tx: &Tx, shard: &Shard, ordering: Ordering, keys: Option<&HashSet<Key>>) -> Result<Vec<Place>> {
    let mut select = Query::select();
    select
        .columns(["id", "aggregate_type", "aggregate_id", "state", "origin"])
        .from(table::named(tx, Table::Parked))
        .and_where(of(shard));
    if let (Ordering::Key | Ordering::None, Some(keys)) = (ordering, keys) {
        select.and_where(among(tx.get_database_backend(), keys.clone()));
    }
    let rows = tx
        .query_all(&select)
        .await
        .map_err(|source| Error::db("read the order of what is parked", source))?;
    let mut places: Vec<Place> = rows.iter().map(read_place).collect::<Result<_>>()?;
    places.sort_unstable_by_key(|place| place.id);
    Ok(places)
}

fn read_place(row: &QueryResult) -> Result<Place> {
    Ok(Place {
        id: row.try_get("", "id")?,
        key: read_key(row)?,
        state: Parking::named(&row.try_get::<String>("", "state")?),
        is_requested: ParkedBy::named(&row.try_get::<String>("", "origin")?).is_requested(),
    })
}

/// Rows whose state is not that of their place.
#[derive(Debug, Default, PartialEq)]
struct Misplaced {
    /// They wait, and nothing of their lane is before them.
    due: Vec<i64>,
    /// They are due, and something of their lane is before them.
    wait: Vec<i64>,
}

/// Pure: which of these rows, in order by id, are out of place.
fn misplaced(ordering: Ordering, places: &[Place]) -> Misplaced {
    let mut misplaced = Misplaced::default();
    let mut lanes = HashSet::new();
    for place in places {
        let is_first = match ordering {
            Ordering::Strict => lanes.is_empty(),
            Ordering::Key => !lanes.contains(&place.key),
            Ordering::None => true,
        };
        match (is_first, place.state) {
            (true, Parking::Wait) => misplaced.due.push(place.id),
            (false, Parking::Retry) => misplaced.wait.push(place.id),
            _ => {}
        }
        lanes.insert(&place.key);
    }
    misplaced
}

async fn put(tx: &Tx, shard: &Shard, misplaced: &Misplaced) -> Result<()> {
    let now = db_now(tx.get_database_backend());
    for (ids, state, next_at) in [
        (&misplaced.wait, Parking::Wait, Expr::cust("null")),
        (&misplaced.due, Parking::Retry, now),
    ] {
        for ids in ids.chunks(ROWS_MAX) {
            let mut update = Query::update();
            update
                .table(table::named(tx, Table::Parked))
                .value("state", state.name())
                .value("next_at", next_at.clone())
                .and_where(Expr::col("route").eq(shard.route.as_str()))
                .and_where(one_of(ids));
            tx.execute(&update)
                .await
                .map_err(|source| Error::db("put parked entries into order", source))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_out_of_place_is_named() {
        use Parking::{Held, Retry, Wait};
        let rows = [
            ("a", Retry),
            ("a", Wait),
            ("b", Wait),
            ("b", Retry),
            ("c", Held),
            ("c", Retry),
            ("c", Wait),
        ];
        let places: Vec<Place> = (1..)
            .zip(rows)
            .map(|(id, (key, state))| Place {
                id,
                key: Key {
                    aggregate_type: "suite".to_owned(),
                    aggregate_id: key.to_owned(),
                },
                state,
                is_requested: false,
            })
            .collect();
        let check = |ordering: Ordering, due: &[i64], wait: &[i64]| {
            let expected = Misplaced {
                due: due.to_vec(),
                wait: wait.to_vec(),
            };
            assert_eq!(misplaced(ordering, &places), expected, "{ordering:?}");
        };
        check(Ordering::Key, &[3], &[4, 6]);
        check(Ordering::Strict, &[], &[4, 6]);
        check(Ordering::None, &[2, 3, 7], &[]);
    }
}
