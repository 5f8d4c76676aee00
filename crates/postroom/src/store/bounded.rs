//! Reading rows until they hold enough: what is in memory at once is bounded by bytes, however large payloads are.
//!
//! No database tells the size of a payload without reading it, so rows are read in pieces: few at first, and as many more as fit by what
//! those weigh.

use sea_orm::sea_query::SelectStatement;
use sea_orm::{ConnectionTrait, QueryResult};

use crate::error::{Error, Result};
use crate::store::tx::Tx;

/// Rows of the first piece: a single row may be as large as the bound.
const FIRST: usize = 1;
/// A piece has at most so many times the rows of the one before: the next ones may be larger.
const GROWTH: usize = 4;

/// The first of the rows that were asked for.
#[derive(Debug)]
pub(crate) struct Bounded<T> {
    pub(crate) rows: Vec<T>,
    /// There are more.
    pub(crate) is_cut: bool,
}

/// Reads the rows with these numbers, in pieces, until they weigh `bytes_max`; at least one, if there is one. `select` makes the statement
/// for a piece, in the order of the numbers; `read_row` answers a row and its weight.
pub(crate) async fn read<T>(
    tx: &Tx,
    ids: &[i64],
    bytes_max: usize,
    select: impl Fn(&[i64]) -> SelectStatement,
    read_row: impl Fn(&QueryResult) -> Result<(T, usize)>,
) -> Result<Bounded<T>> {
    let (mut rows, mut rest, mut piece, mut bytes) = (Vec::new(), ids, FIRST, 0);
    while !rest.is_empty() && bytes < bytes_max {
        let (these, others) = rest.split_at_checked(piece).unwrap_or((rest, &[]));
        let found = tx
            .query_all(&select(these))
            .await
            .map_err(|source| Error::db("read entries", source))?;
        for row in &found {
            let (row, weight) = read_row(row)?;
            bytes += weight;
            rows.push(row);
        }
        piece = more(piece, rows.len(), bytes, bytes_max);
        rest = others;
    }
    Ok(Bounded {
        rows,
        is_cut: !rest.is_empty(),
    })
}

/// Pure: how many more rows may be read after so many with so many bytes.
fn more(last: usize, rows: usize, bytes: usize, bytes_max: usize) -> usize {
    next_piece(last, rows, bytes, bytes_max.saturating_sub(bytes))
}

/// Pure: how many fit into `bytes_max`, if they are as large as those before.
pub(crate) fn next_piece(last: usize, rows: usize, bytes: usize, bytes_max: usize) -> usize {
    let average = bytes.checked_div(rows).unwrap_or(0).max(1);
    (bytes_max / average).clamp(1, last * GROWTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_holds_what_fits_by_the_rows_before_it() {
        let check = |last, rows, bytes, expected| assert_eq!(more(last, rows, bytes, 1_000), expected);
        check(2, 0, 0, 8);
        check(2, 2, 20, 8);
        check(8, 10, 100, 32);
        check(2, 2, 400, 3);
        check(2, 2, 998, 1);
        check(2, 2, 5_000, 1);
    }
}
