//! The contract of an [`Outbox`](postroom::Outbox), one function per clause.
//!
//! An adapter runs all of them on its real database with one line, `postroom_testkit::outbox_suite!(fresh::postgres);`.
//! A clause gets a fresh store and panics when the contract is broken. Where SQLite cannot have two open writers,
//! [`Fresh::overlapping_writers`](crate::Fresh::overlapping_writers) says so and the clause asserts what SQLite does instead: the second writer waits.

mod actor;
mod commit;
mod content;
mod migrate;
mod page;
mod pulse;
mod random;
mod retention;
mod setup;

use std::time::Duration;

use tokio::time::timeout;

pub use commit::{
    a_key_keeps_its_order_when_its_first_writer_commits_late, a_key_keeps_its_order_when_its_second_writer_began_first,
    a_late_commit_is_not_skipped, a_rolled_back_event_is_never_read, a_savepoint_rolled_back_hides_only_its_events,
    an_open_transaction_delays_only_its_own_events, an_open_transaction_is_named,
    ten_thousand_rows_of_one_transaction_are_read,
};
pub use content::{
    an_event_at_every_limit_is_kept, every_field_comes_back, keys_that_look_alike_stay_apart,
    what_breaks_a_limit_is_refused_and_nothing_is_stored,
};
pub use migrate::migrations_can_be_taken_back_and_applied_again;
pub use page::{
    a_large_payload_bounds_the_page, a_page_can_be_settled_in_the_middle, a_position_is_stable_when_read_again,
    head_is_behind_everything_readable, many_pages_follow_each_other_without_gap, positions_survive_a_new_store_object,
};
pub use pulse::{
    a_scheduled_event_shows_in_the_pulse, a_signal_shows_in_the_pulse, the_backlog_counts_late_commits,
    the_backlog_counts_what_is_ahead, the_pulse_grows_when_entries_become_readable,
    what_is_committed_is_seen_without_a_pulse,
};
pub use random::randomized_writers_are_read_exactly;
pub use retention::{
    an_entry_is_immutable, prune_archives_when_asked, prune_keeps_what_a_cursor_needs, prune_keeps_what_is_young,
    prune_never_blocks_a_writer, prune_removes_no_more_than_its_batch,
};
pub use setup::{
    a_database_on_this_machine_has_no_clock_skew, every_checked_setting_is_answered, the_version_names_the_database,
};

/// A clause that has not ended by then hangs.
const CLAUSE_MAX: Duration = Duration::from_secs(120);

/// Runs one clause; a clause that hangs has failed.
pub async fn check<T, F: Future<Output = ()>>(adapter: T, clause: impl FnOnce(T) -> F) {
    let ended = timeout(CLAUSE_MAX, Box::pin(clause(adapter))).await;
    assert!(ended.is_ok(), "the clause has not ended after {CLAUSE_MAX:?}");
}

/// Makes every clause a test of its own for the store that the given function opens: `outbox_suite!(fresh::sqlite);`.
#[macro_export]
macro_rules! outbox_suite {
    ($fresh:path) => {
        $crate::outbox_suite! { $fresh;
            a_late_commit_is_not_skipped,
            a_rolled_back_event_is_never_read,
            a_savepoint_rolled_back_hides_only_its_events,
            a_key_keeps_its_order_when_its_first_writer_commits_late,
            a_key_keeps_its_order_when_its_second_writer_began_first,
            an_open_transaction_delays_only_its_own_events,
            an_open_transaction_is_named,
            ten_thousand_rows_of_one_transaction_are_read,
            a_page_can_be_settled_in_the_middle,
            a_position_is_stable_when_read_again,
            positions_survive_a_new_store_object,
            head_is_behind_everything_readable,
            many_pages_follow_each_other_without_gap,
            a_large_payload_bounds_the_page,
            the_pulse_grows_when_entries_become_readable,
            a_scheduled_event_shows_in_the_pulse,
            a_signal_shows_in_the_pulse,
            the_backlog_counts_what_is_ahead,
            the_backlog_counts_late_commits,
            what_is_committed_is_seen_without_a_pulse,
            prune_keeps_what_a_cursor_needs,
            prune_keeps_what_is_young,
            prune_removes_no_more_than_its_batch,
            prune_archives_when_asked,
            prune_never_blocks_a_writer,
            an_entry_is_immutable,
            what_breaks_a_limit_is_refused_and_nothing_is_stored,
            an_event_at_every_limit_is_kept,
            every_field_comes_back,
            keys_that_look_alike_stay_apart,
            migrations_can_be_taken_back_and_applied_again,
            randomized_writers_are_read_exactly,
            the_version_names_the_database,
            every_checked_setting_is_answered,
            a_database_on_this_machine_has_no_clock_skew,
        }
    };
    ($fresh:path; $($clause:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $clause() {
                $crate::outbox_suite::check($fresh().await, $crate::outbox_suite::$clause).await;
            }
        )+
    };
}
