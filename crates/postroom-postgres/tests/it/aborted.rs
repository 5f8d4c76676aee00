use postroom::{Outbox, table};
use sqlx::Executor as _;

use crate::fresh::Fresh;

/// A connection that comes back inside an aborted transaction, which the driver does not know of, is not handed out again.
#[tokio::test]
async fn a_transaction_that_failed_while_it_began_poisons_no_pool() {
    let fresh = Fresh::new().await;
    let db = Outbox::pool(&fresh.store, 1);
    let mut connection = db.get_postgres_connection_pool().acquire().await.unwrap();
    let begun = connection
        .execute("begin; set local statement_timeout = 'no number'")
        .await;
    assert!(begun.is_err());
    drop(connection);
    for _ in 0..3 {
        let tx = table::begin(&db).await.unwrap();
        tx.commit().await.unwrap();
    }
}
