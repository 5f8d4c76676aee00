//! The relay's suite on each store.

mod sqlite {
    postroom_testkit::relay_suite!(postroom_testkit::fresh::sqlite);

    /// Only here can somebody reset the numbers without the store's knowing.
    mod renumbered {
        postroom_testkit::relay_suite!(postroom_testkit::fresh::sqlite; renumber:
            a_log_numbered_anew_loses_nothing
            a_letter_whose_number_is_used_again_is_retried
        );
    }
}

mod postgres {
    postroom_testkit::relay_suite!(postroom_testkit::fresh::postgres);

    /// Where single rows and tables can be locked.
    mod locked {
        postroom_testkit::relay_suite!(postroom_testkit::fresh::postgres; blocked:
            a_locked_table_holds_up_only_its_own_subscribers
            a_locked_lease_keeps_no_other_from_being_renewed
            a_lease_that_cannot_be_taken_is_named
            an_open_cancel_delays_no_other_scheduled_event
            a_process_that_stands_still_in_a_transaction_is_replaced
        );
        postroom_testkit::relay_suite!(postroom_testkit::fresh::postgres; lease:
            a_lease_that_cannot_be_taken_holds_up_no_other
        );
        postroom_testkit::relay_suite!(postroom_testkit::fresh::postgres; fail:
            a_handler_that_waits_for_a_lock_is_ended
        );
        postroom_testkit::relay_suite!(postroom_testkit::fresh::postgres; operate:
            what_is_due_is_released_soon_after_a_crash
        );
        postroom_testkit::relay_suite!(postroom_testkit::fresh::postgres; replay:
            a_replay_looks_before_it_locks
            a_replay_that_reads_for_long_holds_up_no_lease
        );
    }
}

mod pgbouncer {
    postroom_testkit::relay_suite!(postroom_testkit::fresh::pgbouncer);
}

mod mysql {
    postroom_testkit::relay_suite!(postroom_testkit::fresh::mysql);

    mod locked {
        postroom_testkit::relay_suite!(postroom_testkit::fresh::mysql; blocked:
            a_locked_table_holds_up_only_its_own_subscribers
            a_locked_lease_keeps_no_other_from_being_renewed
            a_lease_that_cannot_be_taken_is_named
            an_open_cancel_delays_no_other_scheduled_event
            a_process_that_stands_still_in_a_transaction_is_replaced
        );
        postroom_testkit::relay_suite!(postroom_testkit::fresh::mysql; lease:
            a_lease_that_cannot_be_taken_holds_up_no_other
        );
        postroom_testkit::relay_suite!(postroom_testkit::fresh::mysql; fail:
            a_handler_that_waits_for_a_lock_is_ended
        );
        postroom_testkit::relay_suite!(postroom_testkit::fresh::mysql; operate:
            what_is_due_is_released_soon_after_a_crash
        );
        postroom_testkit::relay_suite!(postroom_testkit::fresh::mysql; replay:
            a_replay_looks_before_it_locks
        );
    }
}
