use postroom::{Outbox, migration};

use crate::fresh::Fresh;

#[tokio::test]
async fn migrations_go_up_down_and_up_again_with_rows_in_them() {
    let db = Fresh::new().await;
    let all = db.store.migrations();
    db.commit(&["one"]).await;
    db.pulse().await;
    for expected in all.iter().rev() {
        let undone = migration::down(db.store.db(), "postroom", all).await.unwrap().unwrap();
        assert_eq!(undone.number, expected.number);
    }
    let tables = "select count(*) from pg_class where relnamespace = 'postroom'::regnamespace and relkind = 'r'";
    assert_eq!(db.number(tables).await, 1, "only the table of migrations is left");
    let functions = db
        .number("select count(*) from pg_proc where pronamespace = 'postroom'::regnamespace")
        .await;
    assert_eq!(functions, 0);
    assert_eq!(
        migration::up(db.store.db(), "postroom", all).await.unwrap().len(),
        all.len()
    );
    assert!(migration::up(db.store.db(), "postroom", all).await.unwrap().is_empty());
    db.commit(&["two"]).await;
    assert_eq!(db.texts(&mut postroom::Position::START.clone()).await, ["two"]);
}

#[tokio::test]
async fn a_writer_has_its_xid_before_its_number() {
    let db = Fresh::new().await;
    let place = |column: &str| {
        let attribute = "select attnum::bigint from pg_attribute where attrelid = 'postroom.outbox'::regclass";
        format!("{attribute} and attname = '{column}'")
    };
    assert!(
        db.number(&place("tx")).await < db.number(&place("id")).await,
        "id before tx loses rows"
    );
    let cache = db
        .number("select seqcache from pg_sequence where seqrelid = 'postroom.outbox_id_seq'::regclass")
        .await;
    assert_eq!(cache, 1, "numbers kept back by a session would be drawn before its xid");
}

#[tokio::test]
async fn names_of_constraints_are_not_cut() {
    let db = Fresh::new().await;
    let cut = db
        .number("select count(*) from pg_constraint where octet_length(conname) >= 63")
        .await;
    assert_eq!(cut, 0);
}
