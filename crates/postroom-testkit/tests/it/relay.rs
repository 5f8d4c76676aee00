//! The relay's suite on each store.

mod sqlite {
    postroom_testkit::relay_suite!(postroom_testkit::fresh::sqlite);
}

mod postgres {
    postroom_testkit::relay_suite!(postroom_testkit::fresh::postgres);

    /// Where single rows and tables can be locked.
    mod locked {
        postroom_testkit::relay_suite!(postroom_testkit::fresh::postgres; lease:
            a_lease_that_cannot_be_taken_holds_up_no_other
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
        postroom_testkit::relay_suite!(postroom_testkit::fresh::mysql; lease:
            a_lease_that_cannot_be_taken_holds_up_no_other
        );
        postroom_testkit::relay_suite!(postroom_testkit::fresh::mysql; operate:
            what_is_due_is_released_soon_after_a_crash
        );
        postroom_testkit::relay_suite!(postroom_testkit::fresh::mysql; replay:
            a_replay_looks_before_it_locks
        );
    }
}
