//! Sixteen writers, a reader that is thrown away again and again, and retention at its heels: nothing lost, nothing
//! twice, every key in order. And the twin without AUTOINCREMENT, which must be caught.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use postroom::{Event, Outbox, Page, Position, Prune};
use postroom_sqlite::Sqlite;
use sqlx::{Connection, Row, SqliteConnection};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::{Fixture, until, with_payload};

const WRITERS: usize = 16;
const KEYS: u64 = 50;
const ROUND: Duration = Duration::from_millis(500);

/// The counts of the checker; the contract is that all are zero.
#[derive(Debug, Default, PartialEq)]
struct Verdict {
    lost: usize,
    phantom: usize,
    duplicate: usize,
    out_of_order: usize,
}

/// An event as writer and reader note it down: its id, its key, and its number on that key.
type Note = (Uuid, String, u64);

fn verdict(committed: &[Note], read: &[Note]) -> Verdict {
    let sent: HashSet<Uuid> = committed.iter().map(|note| note.0).collect();
    let got: HashSet<Uuid> = read.iter().map(|note| note.0).collect();
    let mut last = HashMap::<&str, u64>::new();
    let mut out_of_order = 0;
    for (_, key, number) in read {
        let before = last.insert(key, *number).unwrap_or(0);
        out_of_order += usize::from(*number <= before);
    }
    Verdict {
        lost: sent.difference(&got).count(),
        phantom: got.difference(&sent).count(),
        duplicate: read.len() - got.len(),
        out_of_order,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_or_repeated_and_keys_keep_their_order_under_random_writers() {
    let fixture = Fixture::new().await;
    let (committed, read) = run(&fixture, 20, Reader::Store).await;
    assert!(
        committed.len() > 500,
        "only {} events: the test says nothing",
        committed.len()
    );
    assert_eq!(
        verdict(&committed, &read),
        Verdict::default(),
        "of {} events",
        committed.len()
    );
}

/// The same table without AUTOINCREMENT, read by the same `id > cursor`: retention empties it, ids are drawn again
/// behind the cursor, and the checker sees it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_checker_catches_a_log_whose_ids_are_drawn_again() {
    let fixture = Fixture::new().await;
    let log = include_str!("../../migrations/0001_outbox.up.sql").replace("primary key autoincrement", "primary key");
    let log = log.split("create table postroom_outbox_cursor").next().unwrap();
    fixture.sql(&format!("drop table postroom_outbox; {log}")).await;
    let (committed, read) = run(&fixture, 3, Reader::Naive).await;
    let verdict = verdict(&committed, &read);
    assert!(verdict.lost > 0, "of {} events: {verdict:?}", committed.len());
}

#[derive(Clone, Copy)]
enum Reader {
    Store,
    /// Only `id > cursor`, without the store's look at the numbering.
    Naive,
}

async fn run(fixture: &Fixture, rounds: usize, reader: Reader) -> (Vec<Note>, Vec<Note>) {
    fixture
        .sql(
            "create table elsewhere (n integer);
             create table aggregate (key text primary key, number integer not null);
             insert into aggregate with recursive n(n) as (select 0 union all select n + 1 from n where n < 49) select n, 0 from n",
        )
        .await;
    let is_over = Arc::new(AtomicBool::new(false));
    let mut reading = JoinSet::new();
    reading.spawn(reader.run(fixture.file().to_str().unwrap().to_owned(), Arc::clone(&is_over)));
    let mut committed = Vec::new();
    for round in 0..rounds {
        committed.extend(write_for(fixture, ROUND, round).await);
        // Then the reader comes to the head, and retention empties the table.
        until("an empty table", async || count(&fixture.store).await == 0).await;
    }
    is_over.store(true, Ordering::Release);
    let read = reading.join_all().await.concat();
    (committed, read)
}

/// Four stores on the file, as four processes have it, with four tasks each.
async fn write_for(fixture: &Fixture, time: Duration, round: usize) -> Vec<Note> {
    let deadline = Instant::now() + time;
    let mut writers = JoinSet::new();
    for process in 0..4 {
        let store = fixture.another().await;
        for task in 0..WRITERS / 4 {
            let dice = Dice::new((round * WRITERS + process * 4 + task) as u64);
            writers.spawn(write(store.clone(), dice, deadline));
        }
    }
    writers.join_all().await.concat()
}

async fn count(store: &Sqlite) -> i64 {
    let mut tx = store.begin().await.unwrap();
    sqlx::query_scalar("select count(*) from postroom_outbox")
        .fetch_one(&mut *tx)
        .await
        .unwrap()
}

async fn write(store: Sqlite, mut dice: Dice, deadline: Instant) -> Vec<Note> {
    let mut committed = Vec::new();
    while Instant::now() < deadline {
        let mut tx = store.begin().await.unwrap();
        let mut notes = Vec::new();
        if dice.one_in(2) {
            sqlx::query("insert into elsewhere values (1)")
                .execute(&mut *tx)
                .await
                .unwrap();
        }
        if dice.one_in(4) {
            let mut savepoint = tx.begin().await.unwrap();
            emit_some(&mut savepoint, &mut dice).await;
            savepoint.rollback().await.unwrap();
        }
        notes.extend(emit_some(&mut tx, &mut dice).await);
        if dice.one_in(8) {
            // A late commit: the event is written, its transaction stays open for a while.
            tokio::time::sleep(Duration::from_millis(dice.below(8))).await;
        }
        if dice.one_in(5) {
            tx.rollback().await.unwrap();
        } else {
            tx.commit().await.unwrap();
            committed.append(&mut notes);
        }
        tokio::time::sleep(Duration::from_micros(dice.below(3000))).await;
    }
    committed
}

/// Locks aggregates by changing them, then emits.
async fn emit_some(connection: &mut SqliteConnection, dice: &mut Dice) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut events: Vec<Event> = Vec::new();
    for _ in 0..=dice.below(3) {
        let key = dice.below(KEYS).to_string();
        let number: i64 = sqlx::query_scalar("update aggregate set number = number + 1 where key = ? returning number")
            .bind(&key)
            .fetch_one(&mut *connection)
            .await
            .unwrap();
        let event = with_payload(&key, &number.to_string());
        notes.push((event.id, key, number as u64));
        events.push(event);
    }
    postroom_sqlite::append(connection, &events).await.unwrap();
    notes
}

impl Reader {
    /// Reads until the writers are done and the head is reached. Every few pages it forgets everything but what it wrote
    /// down in the cursor table, closes its store and opens another; sometimes in the middle of a page.
    async fn run(self, file: String, is_over: Arc<AtomicBool>) -> Vec<Note> {
        let mut dice = Dice::new(99);
        let mut read = Vec::new();
        loop {
            let store = Sqlite::open(&file).await.unwrap();
            let mut at = recall(&store).await;
            for _ in 0..20 {
                let was_over = is_over.load(Ordering::Acquire);
                let page = self.page(&store, at, 1 + dice.index(40)).await;
                let is_cut_short = dice.one_in(3);
                let taken = if is_cut_short {
                    dice.index(page.entries.len() + 1)
                } else {
                    page.entries.len()
                };
                let settled: Vec<Note> = page.entries.iter().take(taken).map(note).collect();
                at = match page.entries.get(taken.wrapping_sub(1)) {
                    Some(last) => page.after(last.id),
                    None if page.entries.is_empty() => page.next,
                    None => at,
                };
                remember(&store, at).await;
                read.extend(settled);
                if page.entries.is_empty() && was_over {
                    return read;
                }
                if page.entries.is_empty() || dice.one_in(3) {
                    let everything = Prune {
                        keep: Duration::ZERO,
                        batch: 100,
                        archive: false,
                    };
                    store.prune(&everything).await.unwrap();
                }
            }
            store.close().await;
        }
    }

    async fn page(self, store: &Sqlite, at: Position, limit: usize) -> Page {
        match self {
            Self::Store => store.read(at, limit).await.unwrap(),
            Self::Naive => {
                let page = store.read(at, limit).await.unwrap();
                let next = if page.entries.is_empty() { at } else { page.next };
                Page { next, ..page }
            }
        }
    }
}

fn note(entry: &postroom::Entry) -> Note {
    (
        entry.event.id,
        entry.event.aggregate_id.clone(),
        entry.event.payload.get().parse().unwrap(),
    )
}

async fn remember(store: &Sqlite, at: Position) {
    let mut tx = store.begin().await.unwrap();
    sqlx::query("insert or replace into postroom_outbox_cursor (route, shard, position) values ('reader', 0, ?)")
        .bind(at.to_string())
        .execute(&mut *tx)
        .await
        .unwrap();
    tx.commit().await.unwrap();
}

async fn recall(store: &Sqlite) -> Position {
    let mut tx = store.begin().await.unwrap();
    let row = sqlx::query("select position from postroom_outbox_cursor")
        .fetch_optional(&mut *tx)
        .await
        .unwrap();
    row.map_or(Position::START, |row| row.get::<String, _>(0).parse().unwrap())
}

/// A small generator (xorshift), so that a run can be repeated.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn index(&mut self, limit: usize) -> usize {
        usize::try_from(self.below(limit as u64)).unwrap()
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}
