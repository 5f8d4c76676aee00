//! The suite of the relay: what a user is promised, on each database.
//!
//! Every clause is a public function over a fresh store; [`relay_suite!`](crate::relay_suite!) makes each a named test.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a clause asserts: what it meets in vain has failed, and what it measured is worth reading"
)]

mod fixture;

pub mod blocked;
pub mod copies;
pub mod deliver;
pub mod external;
pub mod fail;
pub mod fairness;
pub mod handler;
pub mod lease;
pub mod moving;
pub mod operate;
pub mod recorded;
pub mod renumber;
pub mod replay;
pub mod retry_now;
pub mod unavailable;

/// Makes every clause a test of one store: `relay_suite!(fresh::sqlite)`. Those about subscribers are the ones of
/// [`feed_suite!`](crate::feed_suite!), here fed straight from the outbox.
#[macro_export]
macro_rules! relay_suite {
    ($fresh:path) => {
        mod subscribers {
            $crate::feed_suite!($fresh);
        }
        $crate::relay_suite!($fresh; deliver:
            a_redelivery_has_no_second_effect
            a_cursor_that_was_set_back_is_followed
            a_begin_that_is_cut_off_leaves_no_transaction_open
            an_event_sent_again_is_accepted_once
            shards_share_a_route_and_keep_its_keys_in_order
            a_new_route_can_begin_at_the_head
            a_destination_gets_every_entry_in_order
            a_batch_is_no_larger_than_its_route_says
            events_that_linger_are_handled_together
            an_operator_in_between_repeats_no_delivery
        );
        $crate::relay_suite!($fresh; fail:
            a_destination_that_is_down_is_probed_and_then_drained
            what_is_due_probes_more_and_more_rarely
            more_keys_than_a_statement_can_name_are_retried
            dead_letters_follow_their_route_when_it_is_cut_anew
            what_waits_is_delivered_though_the_filter_has_changed
        );
        $crate::relay_suite!($fresh; unavailable:
            an_entry_that_is_always_unavailable_holds_only_its_key
            an_entry_that_is_always_unavailable_waits_alone_without_order
            an_unavailable_entry_at_the_head_of_the_log_lets_others_pass
            a_strict_route_waits_for_an_unavailable_entry_until_it_is_too_old
            an_outage_burns_no_attempts
            a_destination_that_does_not_answer_is_shown_at_once
            attempts_of_an_unavailable_entry_survive_a_restart
            an_entry_that_is_always_unavailable_does_not_stop_a_route_with_rare_probes
            an_unavailable_head_of_the_log_does_not_stop_a_route_with_rare_probes
            a_route_with_rare_probes_keeps_to_them_over_crashes
            a_destination_that_asks_for_a_longer_wait_gets_it
            a_destination_that_asks_for_no_further_wait_is_not_asked_without_pause
            a_probe_that_an_operator_asks_for_takes_what_was_put_aside
            an_operator_sees_the_next_probe_and_can_have_it_now
        );
        $crate::relay_suite!($fresh; fairness:
            a_big_retry_delays_no_new_event
            pausing_other_routes_delays_no_event
        );
        $crate::relay_suite!($fresh; handler:
            a_drained_relay_has_delivered_everything
            a_drained_relay_waits_for_events_that_another_process_numbers
            only_rejected_events_are_given_up_at_once
            a_plain_connection_schedules_and_cancels
            a_transaction_names_its_database
        );
        $crate::relay_suite!($fresh; external:
            an_external_task_holds_up_its_key_alone
            an_external_task_that_is_cut_off_runs_again
            an_external_task_that_fails_is_tried_again
            what_an_external_task_emits_has_a_cause
            an_external_task_with_an_inbox_is_refused
        );
        $crate::relay_suite!($fresh; operate:
            a_scheduled_event_is_released_when_it_is_due
            a_cancelled_event_is_never_released
            a_scheduled_event_that_the_outbox_refuses_holds_up_no_other
            a_token_is_made_used_and_revoked
            a_relay_without_tables_names_the_way_out
            retention_removes_what_everybody_has
            a_daily_job_runs_at_its_hour_until_nothing_is_left
            a_daily_job_follows_a_changed_time
            the_inbox_forgets_after_its_time
            the_inbox_remembers_what_may_be_read_again
            decided_dead_letters_go_after_their_time
            a_route_is_forgotten_when_nobody_works_it
            status_shows_routes_and_jobs
            why_names_what_is_stuck
            a_timeline_shows_what_became_of_an_event
            the_operators_log_keeps_every_act
        );
        $crate::relay_suite!($fresh; replay:
            a_replay_goes_to_one_route_only
            a_replay_can_have_its_effect_again
            a_replay_keeps_to_its_rate
            a_canceled_replay_takes_back_what_was_not_tried
            a_replay_finds_what_lies_far_apart
            a_replay_respects_the_filter
        );
        $crate::relay_suite!($fresh; retry_now:
            a_retry_that_many_ask_for_delivers_once
            a_retry_asks_a_destination_that_is_down
            why_counts_what_waits_behind_a_failing_event
        );
        $crate::relay_suite!($fresh; recorded:
            a_route_that_records_shows_when_it_had_each_event
        );
        $crate::relay_suite!($fresh; lease:
            one_relay_works_a_route_at_a_time
            a_second_relay_takes_over_when_the_first_stops
            a_job_that_takes_long_keeps_no_lease
            a_deposed_relay_stops_itself
            the_number_of_shards_cannot_change
            two_routes_of_one_name_are_refused
            a_group_named_as_the_inbox_needs_it_is_refused
            a_misspelt_pattern_is_refused
        );
    };
    ($fresh:path; $part:ident: $($clause:ident)+) => {
        mod $part {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $clause() {
                    $crate::relay_suite::$part::$clause($fresh().await).await;
                }
            )+
        }
    };
}

/// Makes the clauses about subscribers tests of a broker that feeds them: `feed_suite!(fed)`, where `fed` opens a store
/// with [`Fresh::fed_by`](crate::Fresh::fed_by). Handlers do not change, so neither do their promises.
#[macro_export]
macro_rules! feed_suite {
    ($fresh:path) => {
        $crate::relay_suite!($fresh; deliver:
            a_committed_event_has_one_effect
            a_rolled_back_event_has_none
            events_of_a_key_have_their_effects_in_order
            a_restart_continues_where_it_left
            a_relay_killed_in_the_middle_loses_and_doubles_nothing
            a_handler_emits_through_the_outbox
            a_chain_that_loops_ends_as_a_dead_letter
            a_batch_handler_has_one_effect_per_event
            an_old_version_is_handled_as_the_newest
            a_filter_lets_only_its_types_pass
        );
        $crate::relay_suite!($fresh; fail:
            a_poison_event_holds_only_its_key
            a_dead_letter_lets_its_key_go_on
            a_dead_letter_holds_its_key_until_it_is_retried
            a_dead_letter_holds_its_key_until_it_is_discarded
            a_failing_subscriber_holds_up_no_other
            a_handler_that_panics_takes_down_nothing
            a_handler_that_hangs_is_ended
            an_invalid_event_is_a_dead_letter_at_once
            a_poison_event_in_a_batch_is_found
            a_strict_route_lets_nothing_pass
            without_order_an_entry_waits_alone
            what_waits_survives_a_restart
            two_operators_retry_at_once
            dead_letters_of_one_key_are_retried_in_order
            a_swallowed_error_costs_nobody_else_an_effect
        );
        $crate::relay_suite!($fresh; operate:
            a_paused_route_waits_until_it_is_resumed
        );
        $crate::relay_suite!($fresh; retry_now:
            a_strict_route_goes_on_when_an_operator_retries_its_first_event
            a_key_goes_on_when_an_operator_retries_its_first_event
            a_retry_during_a_delivery_that_fails_changes_nothing
            a_retry_of_what_waits_for_none_says_what_helps
        );
    };
}

/// Makes the clauses about the broker's copies of dead letters tests of that broker: `copies_suite!(fed)`.
#[macro_export]
macro_rules! copies_suite {
    ($fresh:path) => {
        $crate::relay_suite!($fresh; copies:
            a_copy_goes_when_its_letter_is_retried_or_discarded
            copies_go_whose_letters_were_decided_before_the_relay_began
        );
    };
}

/// Makes the clauses about subscribers that move between the outbox and a broker tests of that broker: `move_suite!(fed)`.
#[macro_export]
macro_rules! move_suite {
    ($fresh:path) => {
        $crate::relay_suite!($fresh; moving:
            a_backlog_in_the_outbox_survives_the_move_to_a_broker
            a_backlog_survives_a_publisher_that_begins_at_the_head
            a_backlog_in_the_topic_survives_the_move_to_the_outbox
            what_waits_behind_a_failure_keeps_its_order_in_a_move
            a_type_that_the_broker_brings_from_now_on_is_not_missed
            a_subscriber_that_is_switched_off_and_on_misses_nothing
        );
    };
}
