//! Reading: a window between two ticks, cut in memory, then read page by page in order of id.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::TryStreamExt;
use postroom::{Entry, Error, ErrorKind, Event, PAGE_BYTES, Page, Position, Result, lenient_json};
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use crate::Postgres;
use crate::error::driver;

const TICKS: &str = include_str!("../sql/ticks.sql");
const READ: &str = include_str!("../sql/read.sql");
const HEAD: &str = include_str!("../sql/head.sql");
const DOING: &str = "read the outbox";

pub(crate) async fn head(store: &Postgres) -> Result<Position> {
    let mut connection = store.reader().await?;
    let newest: i64 = sqlx::query_scalar(HEAD)
        .fetch_one(&mut *connection)
        .await
        .map_err(|source| driver(DOING, source))?;
    Ok(at_tick(newest))
}

pub(crate) async fn read(store: &Postgres, after: Position, limit: usize) -> Result<Page> {
    let mut connection = store.reader().await?;
    let ticks = ticks(&mut connection, after, limit).await?;
    match cut(&ticks, after, limit)? {
        Step::Head => Ok(Page {
            entries: Arc::new([]),
            window: after,
            next: after,
        }),
        Step::Over(tick) => Ok(Page {
            entries: Arc::new([]),
            window: after,
            next: at_tick(tick),
        }),
        Step::Window(window) => page(store, connection, window, limit).await,
    }
}

/// The error for a position whose ticks are not there.
pub(crate) fn gone(position: Position) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!(
            "position {position} is not in the outbox: retention has passed it, because no cursor is registered there; \
             start again from 0:0:0 or from the head"
        ),
    )
}

fn at_tick(tick: i64) -> Position {
    Position {
        from: tick,
        ..Position::START
    }
}

/// A tick without its snapshot: that stays in the database.
#[derive(Clone, Copy, Debug)]
struct Tick {
    n: i64,
    era: i32,
    lo: i64,
    hi: i64,
    floor: i64,
}

/// The entries to read: those of window (`from`, `to`] above `after`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    from: i64,
    to: i64,
    after: i64,
    hi: i64,
    floor: i64,
}

/// Where a position leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Nothing is ahead.
    Head,
    /// To this tick without reading: an era ends before it.
    Over(i64),
    Window(Window),
}

async fn ticks(connection: &mut PgConnection, after: Position, limit: usize) -> Result<Vec<Tick>> {
    let rows: Vec<(i64, i32, i64, i64, i64)> = sqlx::query_as(TICKS)
        .bind(after.from)
        .bind(i64::try_from(limit).unwrap_or(i64::from(i32::MAX)))
        .bind(after.to)
        .fetch_all(connection)
        .await
        .map_err(|source| driver(DOING, source))?;
    Ok(rows
        .into_iter()
        .map(|(n, era, lo, hi, floor)| Tick { n, era, lo, hi, floor })
        .collect())
}

/// Cuts the window at `after` out of the ticks from there on: to where it was begun, or else as wide as a page is long.
/// Far behind that is many ticks, at the head one.
fn cut(ticks: &[Tick], after: Position, limit: usize) -> Result<Step> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let Some((first, rest)) = ticks.split_first().filter(|(first, _)| first.n == after.from) else {
        return Err(gone(after));
    };
    let Some(next) = rest.first() else {
        return if after.to == 0 {
            Ok(Step::Head)
        } else {
            Err(gone(after))
        };
    };
    // Only behind tick 0 neighbours can be missing. It sees nothing, so the era of the next tick does not matter.
    let has_neighbour = next.n == first.n + 1;
    if after.to == 0 && has_neighbour && next.era != first.era {
        return Ok(Step::Over(next.n));
    }
    let width = if after.to != 0 {
        rest.iter()
            .position(|tick| tick.n == after.to)
            .map(|last| last + 1)
            .ok_or_else(|| gone(after))?
    } else if has_neighbour {
        let fits = |tick: &&Tick| tick.era == first.era && tick.hi.saturating_sub(first.hi) <= limit;
        rest.iter().take_while(fits).count().max(1)
    } else {
        1
    };
    let inside = rest.get(..width).unwrap_or(rest);
    let last = inside.last().unwrap_or(next);
    let lowest = inside.iter().map(|tick| tick.lo).min().unwrap_or(first.floor);
    let begin = if has_neighbour { lowest } else { first.floor };
    Ok(Step::Window(Window {
        from: first.n,
        to: last.n,
        after: if after.to != 0 && after.id > 0 { after.id } else { begin },
        hi: last.hi,
        floor: last.floor,
    }))
}

async fn page(
    store: &Postgres,
    mut connection: PoolConnection<sqlx::Postgres>,
    window: Window,
    limit: usize,
) -> Result<Page> {
    let asked = store.page_rows.ask(limit);
    let (entries, is_cut) = if window.after < window.hi {
        take(&mut connection, window, asked)
            .await
            .map_err(|source| driver(DOING, source))?
    } else {
        (Vec::new(), false)
    };
    store.page_rows.learn(asked, entries.len(), is_cut);
    if is_cut && asked - entries.len() > entries.len() {
        // The rest of the answer is larger than the page: cheaper to hang up than to let it come and throw it away.
        drop(connection.detach());
    }
    let last = entries.last().map_or(window.after, |entry| entry.id);
    let is_finished = last >= window.hi || (entries.len() < asked && !is_cut);
    let inside = Position {
        from: window.from,
        to: window.to,
        id: 0,
    };
    Ok(Page {
        entries: entries.into(),
        window: inside,
        next: if is_finished {
            at_tick(window.to)
        } else {
            Position { id: last, ..inside }
        },
    })
}

/// Takes entries as they come, until there is about a page of bytes; says whether it stopped early.
async fn take(connection: &mut PgConnection, window: Window, asked: usize) -> Result<(Vec<Entry>, bool), sqlx::Error> {
    let mut rows = sqlx::query(READ)
        .bind(window.after)
        .bind(window.hi)
        .bind(window.from)
        .bind(window.to)
        .bind(window.floor)
        .bind(i64::try_from(asked).unwrap_or(i64::MAX))
        .fetch(connection);
    let mut entries = Vec::new();
    let mut bytes = 0;
    while let Some(row) = rows.try_next().await? {
        let entry = entry(&row)?;
        bytes += entry.event.payload.get().len();
        entries.push(entry);
        if bytes >= PAGE_BYTES {
            return Ok((entries, true));
        }
    }
    Ok((entries, false))
}

pub(crate) fn entry(row: &PgRow) -> Result<Entry, sqlx::Error> {
    Ok(Entry {
        id: row.try_get(0)?,
        event: Event {
            id: row.try_get(1)?,
            event_type: row.try_get(2)?,
            source: row.try_get(3)?,
            aggregate_type: row.try_get(4)?,
            aggregate_id: row.try_get(5)?,
            payload: lenient_json::payload(row.try_get(6)?).map_err(|source| sqlx::Error::Decode(source.into()))?,
            headers: lenient_json::headers(row.try_get(7)?),
            occurred_at: row.try_get(8)?,
        },
        created_at: row.try_get(9)?,
    })
}

/// How many rows fit into a page of bytes, learnt from the pages before. The database cannot stop in the middle of an
/// answer, and a thousand rows may be two hundred kilobytes or a gigabyte.
#[derive(Debug)]
pub(crate) struct PageRows(AtomicUsize);

impl Default for PageRows {
    fn default() -> Self {
        Self(AtomicUsize::new(usize::MAX))
    }
}

impl PageRows {
    fn ask(&self, limit: usize) -> usize {
        self.0.load(Ordering::Relaxed).min(limit).max(1)
    }

    fn learn(&self, asked: usize, got: usize, is_cut: bool) {
        if is_cut {
            self.0.store(got + got / 4 + 1, Ordering::Relaxed);
        } else if got == asked {
            // Never less than is known: a caller may have asked for fewer.
            self.0.fetch_max(asked.saturating_mul(2), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(n: i64, era: i32, lo: i64, hi: i64) -> Tick {
        Tick {
            n,
            era,
            lo,
            hi,
            floor: lo,
        }
    }

    fn at(from: i64, to: i64, id: i64) -> Position {
        Position { from, to, id }
    }

    fn window(ticks: &[Tick], after: Position, limit: usize) -> (i64, i64, i64, i64) {
        match cut(ticks, after, limit).unwrap() {
            Step::Window(window) => (window.from, window.to, window.after, window.hi),
            other => panic!("a window, not {other:?}"),
        }
    }

    #[test]
    fn a_window_is_as_wide_as_a_page_is_long() {
        let ticks = [
            tick(5, 1, 0, 100),
            tick(6, 1, 100, 200),
            tick(7, 1, 90, 300),
            tick(8, 1, 300, 1_300),
        ];
        assert_eq!(
            window(&ticks, at(5, 0, 0), 200),
            (5, 7, 90, 300),
            "two ticks, from the lowest of their bounds"
        );
        assert_eq!(
            window(&ticks, at(5, 0, 0), 10),
            (5, 6, 100, 200),
            "at least the next tick"
        );
        assert_eq!(window(&ticks[2..], at(7, 0, 0), 10), (7, 8, 300, 1_300));
    }

    #[test]
    fn a_window_that_was_begun_keeps_its_end() {
        let ticks = [tick(5, 1, 0, 100), tick(6, 1, 100, 200), tick(7, 1, 90, 300)];
        assert_eq!(window(&ticks, at(5, 6, 150), 1_000), (5, 6, 150, 200));
        assert_eq!(
            window(&ticks, at(5, 7, 0), 1),
            (5, 7, 90, 300),
            "nothing taken yet: from its lower bound"
        );
    }

    #[test]
    fn an_era_ends_a_window() {
        let ticks = [
            tick(5, 1, 0, 100),
            tick(6, 1, 100, 100),
            tick(7, 2, 100, 100),
            tick(8, 2, 100, 120),
        ];
        assert_eq!(window(&ticks, at(5, 0, 0), 1_000), (5, 6, 100, 100));
        assert_eq!(cut(&ticks[1..], at(6, 0, 0), 1_000).unwrap(), Step::Over(7));
    }

    #[test]
    fn the_start_reaches_over_ticks_that_retention_removed() {
        let ticks = [
            tick(0, 1, 0, 0),
            tick(900, 3, 80_000, 90_000),
            tick(901, 3, 90_000, 90_001),
        ];
        assert_eq!(window(&ticks, Position::START, 1_000), (0, 900, 0, 90_000));
        assert_eq!(window(&ticks, at(0, 900, 7), 1_000), (0, 900, 7, 90_000));
    }

    #[test]
    fn a_position_without_its_ticks_is_refused() {
        assert!(cut(&[tick(6, 1, 0, 0)], at(5, 0, 0), 1).is_err());
        assert!(cut(&[], at(5, 0, 0), 1).is_err());
        assert!(cut(&[tick(5, 1, 0, 0), tick(6, 1, 0, 0)], at(5, 9, 1), 1).is_err());
        assert_eq!(cut(&[tick(5, 1, 0, 0)], at(5, 0, 0), 1).unwrap(), Step::Head);
    }

    #[test]
    fn large_rows_make_short_pages() {
        let rows = PageRows::default();
        assert_eq!(rows.ask(1_000), 1_000);
        rows.learn(1_000, 8, true);
        assert_eq!(rows.ask(1_000), 11);
        rows.learn(11, 5, false);
        assert_eq!(rows.ask(1_000), 11, "a short window says nothing about the rows");
        rows.learn(11, 11, false);
        assert_eq!(rows.ask(1_000), 22);
    }
}
