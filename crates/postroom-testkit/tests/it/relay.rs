//! The relay's suite on each store.

mod sqlite {
    postroom_testkit::relay_suite!(postroom_testkit::fresh::sqlite);
}

mod postgres {
    postroom_testkit::relay_suite!(postroom_testkit::fresh::postgres);
}

mod pgbouncer {
    postroom_testkit::relay_suite!(postroom_testkit::fresh::pgbouncer);
}

mod mysql {
    postroom_testkit::relay_suite!(postroom_testkit::fresh::mysql);
}
