//! Stores with one thing wrong each: the clauses that must notice, notice.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use postroom::table::{Table, named};
use postroom::{
    Entry, Inspect, Migration, OpenTransaction, Outbox, Page, Position, Prune, Pulse, Result, SettingCheck, Wanted,
};
use postroom_testkit::{Fresh, fresh, outbox_suite as clause};
use sea_orm::sea_query::Query;
use sea_orm::{ConnectionTrait, DatabaseConnection};

use crate::failure::failure;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The last entry of a page is passed over.
    SkipsLast,
    /// The last entry of a page comes again on the next.
    RepeatsLast,
    /// Entries of a page come backwards.
    Reverses,
    /// Goes on where it was, not where it is told to.
    KeepsItsOwnPlace,
    /// A page is everything there is.
    IgnoresLimits,
    /// Keys are compared without regard to case.
    FoldsCase,
    HeadAtStart,
    DeafPulse,
    PrunesAll,
    PrunesNothing,
    /// The version is a number without a name.
    NamesNoDatabase,
    ChecksNoSetting,
    /// A setting whose statement has no answer.
    ReadsNoSetting,
}

#[derive(Debug)]
struct Faulty {
    store: Arc<dyn Inspect>,
    fault: Fault,
    place: Mutex<Option<Position>>,
}

/// A fresh SQLite store with this fault: the quickest to make, and right without it.
async fn with(fault: Fault) -> Fresh {
    fresh::sqlite().await.behind(|store| Faulty {
        store,
        fault,
        place: Mutex::default(),
    })
}

impl Faulty {
    async fn read_everything(&self, after: Position) -> Result<Page> {
        let mut page = self.store.read(after, 1_000).await?;
        let mut all: Vec<Entry> = page.entries.to_vec();
        while !page.entries.is_empty() {
            page = self.store.read(page.next, 1_000).await?;
            all.extend(page.entries.iter().cloned());
        }
        Ok(Page {
            entries: all.into(),
            ..page
        })
    }

    async fn prune_all(&self) -> Result<u64> {
        let mut delete = Query::delete();
        delete.from_table(named(self.db(), Table::Outbox));
        Ok(self.db().execute(&delete).await?.rows_affected())
    }
}

#[async_trait]
impl Outbox for Faulty {
    fn db(&self) -> &DatabaseConnection {
        self.store.db()
    }

    fn pool(&self, connections_max: u32) -> DatabaseConnection {
        self.store.pool(connections_max)
    }

    fn migrations(&self) -> &'static [Migration] {
        self.store.migrations()
    }

    async fn pulse(&self) -> Result<Pulse> {
        if self.fault == Fault::DeafPulse {
            Ok(Pulse::default())
        } else {
            self.store.pulse().await
        }
    }

    async fn read(&self, after: Position, limit: usize) -> Result<Page> {
        let place = *self.place.lock().unwrap();
        let after = match place {
            Some(place) if self.fault == Fault::KeepsItsOwnPlace && after != Position::START => place,
            _ => after,
        };
        let mut page = self.store.read(after, limit).await?;
        *self.place.lock().unwrap() = Some(page.next);
        let mut entries = page.entries.to_vec();
        match self.fault {
            Fault::IgnoresLimits => return self.read_everything(after).await,
            Fault::SkipsLast if entries.len() > 1 => drop(entries.pop()),
            Fault::RepeatsLast if entries.len() > 1 => page.next = page.after(entries[entries.len() - 2].id),
            Fault::Reverses => entries.reverse(),
            Fault::FoldsCase => entries
                .iter_mut()
                .for_each(|entry| entry.event.aggregate_id.make_ascii_lowercase()),
            _ => {}
        }
        Ok(Page {
            entries: entries.into(),
            ..page
        })
    }

    async fn head(&self) -> Result<Position> {
        if self.fault == Fault::HeadAtStart {
            Ok(Position::START)
        } else {
            self.store.head().await
        }
    }

    async fn prune(&self, prune: &Prune) -> Result<u64> {
        match self.fault {
            Fault::PrunesAll => self.prune_all().await,
            Fault::PrunesNothing => Ok(0),
            _ => self.store.prune(prune).await,
        }
    }
}

#[async_trait]
impl Inspect for Faulty {
    async fn version(&self) -> Result<String> {
        match self.fault {
            Fault::NamesNoDatabase => Ok("3.50".to_owned()),
            _ => self.store.version().await,
        }
    }

    fn settings(&self) -> &'static [SettingCheck] {
        const UNREADABLE: &[SettingCheck] = &[SettingCheck {
            name: "journal_mode",
            sql: "select 'wal' where 1 = 0",
            wanted: Wanted::OneOf(&["wal"]),
            advice: "set it",
        }];
        match self.fault {
            Fault::ChecksNoSetting => &[],
            Fault::ReadsNoSetting => UNREADABLE,
            _ => self.store.settings(),
        }
    }

    async fn backlog(&self, after: Position) -> Result<u64> {
        self.store.backlog(after).await
    }

    async fn open_transactions(&self) -> Result<Vec<OpenTransaction>> {
        self.store.open_transactions().await
    }
}

/// One test per fault: each of these clauses fails on it.
macro_rules! caught {
    ($($test:ident: $fault:ident by $($clause:ident),+;)+) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            $(
                let words = failure(with(Fault::$fault).await, clause::$clause).await;
                println!("{}: {words}", stringify!($clause));
            )+
        }
    )+};
}

caught! {
    what_skips_is_caught: SkipsLast by
        many_pages_follow_each_other_without_gap, a_page_can_be_settled_in_the_middle, randomized_writers_are_read_exactly;
    what_repeats_is_caught: RepeatsLast by
        many_pages_follow_each_other_without_gap, ten_thousand_rows_of_one_transaction_are_read,
        randomized_writers_are_read_exactly;
    what_disorders_is_caught: Reverses by
        a_savepoint_rolled_back_hides_only_its_events, many_pages_follow_each_other_without_gap,
        randomized_writers_are_read_exactly;
    what_goes_on_where_it_was_is_caught: KeepsItsOwnPlace by
        a_page_can_be_settled_in_the_middle, a_position_is_stable_when_read_again;
    what_knows_no_limit_is_caught: IgnoresLimits by
        a_large_payload_bounds_the_page, many_pages_follow_each_other_without_gap;
    what_merges_keys_is_caught: FoldsCase by keys_that_look_alike_stay_apart;
    a_wrong_head_is_caught: HeadAtStart by head_is_behind_everything_readable, the_backlog_counts_what_is_ahead;
    a_deaf_pulse_is_caught: DeafPulse by
        a_scheduled_event_shows_in_the_pulse, a_signal_shows_in_the_pulse, the_pulse_grows_when_entries_become_readable;
    greedy_retention_is_caught: PrunesAll by
        prune_keeps_what_a_cursor_needs, prune_keeps_what_is_young, prune_removes_no_more_than_its_batch,
        prune_archives_when_asked;
    lazy_retention_is_caught: PrunesNothing by prune_keeps_what_a_cursor_needs;
    a_database_without_a_name_is_caught: NamesNoDatabase by the_version_names_the_database;
    a_store_without_settings_is_caught: ChecksNoSetting by every_checked_setting_is_answered;
    a_setting_without_an_answer_is_caught: ReadsNoSetting by every_checked_setting_is_answered;
}

#[tokio::test]
async fn a_history_that_can_be_rewritten_is_caught() {
    let fresh = fresh::sqlite().await;
    fresh
        .db()
        .execute_unprepared("drop trigger postroom_outbox_is_immutable")
        .await
        .unwrap();
    failure(fresh, clause::an_entry_is_immutable).await;
}
