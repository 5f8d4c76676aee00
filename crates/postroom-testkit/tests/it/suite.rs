//! Every clause on every store, and that the list of clauses is whole.

use postroom_testkit::fresh;

mod postgres {
    use postroom_testkit::fresh;
    postroom_testkit::outbox_suite!(fresh::postgres);
}

mod pgbouncer {
    use postroom_testkit::fresh;
    postroom_testkit::outbox_suite!(fresh::pgbouncer);
}

mod mysql {
    use postroom_testkit::fresh;
    postroom_testkit::outbox_suite!(fresh::mysql);
}

mod sqlite {
    use postroom_testkit::fresh;
    postroom_testkit::outbox_suite!(fresh::sqlite);
}

#[test]
fn every_clause_is_in_the_list() {
    let list = include_str!("../../src/outbox_suite.rs")
        .split("macro_rules!")
        .nth(1)
        .unwrap();
    let topics = [
        include_str!("../../src/outbox_suite/commit.rs"),
        include_str!("../../src/outbox_suite/content.rs"),
        include_str!("../../src/outbox_suite/migrate.rs"),
        include_str!("../../src/outbox_suite/page.rs"),
        include_str!("../../src/outbox_suite/pulse.rs"),
        include_str!("../../src/outbox_suite/random.rs"),
        include_str!("../../src/outbox_suite/retention.rs"),
        include_str!("../../src/outbox_suite/setup.rs"),
    ];
    let clauses: Vec<&str> = topics
        .iter()
        .flat_map(|topic| topic.split("\npub async fn ").skip(1))
        .map(|clause| clause.split('(').next().unwrap())
        .collect();
    assert!(clauses.len() >= 30, "{clauses:?}");
    for clause in clauses {
        assert!(
            list.contains(&format!(" {clause},")),
            "{clause} is a clause that no store runs"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn migrations_have_the_same_numbers_and_names_on_every_store() {
    let stores = [fresh::postgres().await, fresh::mysql().await, fresh::sqlite().await];
    let [postgres, mysql, sqlite] = stores.map(|store| {
        let all = store.migrations();
        all.iter()
            .map(|migration| (migration.number, migration.name))
            .collect::<Vec<_>>()
    });
    assert!(!postgres.is_empty());
    assert_eq!((&postgres, &postgres), (&mysql, &sqlite));
}
