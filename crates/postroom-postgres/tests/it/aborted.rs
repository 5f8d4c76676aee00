use std::time::Duration;

use postroom::{Outbox, table};
use sea_orm::ConnectionTrait as _;

use crate::fresh::Fresh;

/// A transaction that is given up while it begins leaves no open transaction behind: the driver does not count it, and would hand
/// out the connection with it.
#[tokio::test]
async fn a_transaction_that_is_dropped_while_it_begins_stays_open_nowhere() {
    let fresh = Fresh::new().await;
    let db = Outbox::pool(&fresh.store, 1);
    for micros in [0, 20, 50, 100, 200, 400] {
        let begin = table::begin(&db);
        drop(tokio::time::timeout(Duration::from_micros(micros), begin).await);
        db.execute_unprepared("create table if not exists written (id int)")
            .await
            .unwrap();
    }
    let open = "select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in%'";
    let row = fresh
        .store
        .db()
        .query_one_raw(sea_orm::Statement::from_string(sea_orm::DbBackend::Postgres, open));
    let open: i64 = row.await.unwrap().unwrap().try_get_by_index(0).unwrap();
    assert_eq!(open, 0);
}
