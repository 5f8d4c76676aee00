use std::collections::BTreeSet;

use postroom::{Outbox, migration};
use tokio::task::JoinSet;

use crate::{Fixture, event, migrated, open};

const ROWS_EVERYWHERE: &str = "
    insert into postroom_outbox (event_type, aggregate_type, aggregate_id, payload) values ('a.b', 'a', '1', '1');
    insert into postroom_outbox_cursor (route, shard, position) values ('r', 0, '0:0:0');
    insert into postroom_access_token (hash, hint, name, role, created_by) values ('h', 'p', 'n', 'admin', 'a');
    insert into postroom_outbox_parked (route, shard, id, event_id, event_type, aggregate_type, aggregate_id, payload, state)
        values ('r', 0, 1, 'e', 't', 'a', '1', '1', 'retry');
    insert into postroom_outbox_failed (route, shard, id, event_id, event_type, aggregate_type, aggregate_id, payload)
        values ('r', 0, 1, 'e', 't', 'a', '1', '1');
    insert into postroom_event_handled (idempotency_key) values ('g:1');
    insert into postroom_outbox_replay (route, filter, per_second, until_id) values ('r', '{}', 10, 5);
    insert into postroom_outbox_scheduled (event_id, event_type, aggregate_type, aggregate_id, payload, due_at)
        values ('0197a7f2-0000-7000-8000-000000000001', 't', 'a', '1', '1', '2030-01-01T00:00:00.000Z');
    insert into postroom_outbox_job (name) values ('prune');
    insert into postroom_audit_events (id, event_id, event_type, aggregate_type, aggregate_id, payload, occurred_at, created_at)
        values (1, 'e', 't', 'a', '1', '1', '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z');
    insert into postroom_admin_audit (actor, action, target) values ('me', 'retry', '1');
    insert into postroom_outbox_route_change values ('r', 1);
    insert into postroom_outbox_down values ('r', 0, 'delivery', 'away', '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z', null);
    insert into postroom_alert (rule, turn, since, is_told, due_at) values ('r', 'began', '2026-01-01T00:00:00.000Z', 0, '2026-01-01T00:00:00.000Z');
";

#[tokio::test]
async fn up_down_and_up_again_with_rows_in_every_table() {
    let fixture = Fixture::new().await;
    let (db, all) = (fixture.store.db(), fixture.store.migrations());
    let first = tables(&fixture).await;
    assert_eq!(first.len(), 16, "every table of the platform: {first:?}");
    fixture.sql(ROWS_EVERYWHERE).await;
    while migration::down(db, "postroom", all).await.unwrap().is_some() {}
    assert_eq!(
        tables(&fixture).await,
        BTreeSet::from(["postroom_migration".to_owned()])
    );
    assert_eq!(migration::up(db, "postroom", all).await.unwrap().len(), all.len());
    assert_eq!(tables(&fixture).await, first);
    fixture.sql(ROWS_EVERYWHERE).await;
    assert_eq!(fixture.ids_read().await, ["1"]);
}

#[tokio::test]
async fn many_processes_may_create_and_migrate_one_new_file_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("not/yet/there/postroom.db");
    let mut openers = JoinSet::new();
    for _ in 0..8 {
        let file = file.clone();
        openers.spawn(async move { migrated(&file).await.pulse().await.unwrap().signal });
    }
    assert_eq!(openers.join_all().await, [0; 8]);
}

#[tokio::test]
async fn a_file_without_tables_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let error = open(&folder.path().join("empty.db")).await.pulse().await.unwrap_err();
    assert!(error.to_string().contains("apply the migrations first"), "{error}");
}

#[tokio::test]
async fn a_file_keeps_its_events_when_it_is_closed_and_opened() {
    let fixture = Fixture::new().await;
    fixture.commit(&[event("kept")]).await;
    fixture.store.close().await;
    let again = open(&fixture.file()).await;
    assert_eq!(crate::drain(&again, postroom::Position::START, 10).await.0, ["kept"]);
}

async fn tables(fixture: &Fixture) -> BTreeSet<String> {
    let mut tx = fixture.store.begin().await.unwrap();
    let names: Vec<String> =
        sqlx::query_scalar("select name from sqlite_master where type = 'table' and name like 'postroom%'")
            .fetch_all(&mut *tx)
            .await
            .unwrap();
    names.into_iter().collect()
}
