//! The kinds of errors in a handler's transaction.

#![expect(clippy::unwrap_used, reason = "a test harness: what fails here fails the test")]

use postroom::{Error, ErrorKind, Fault, Outbox, table};
use sea_orm::ConnectionTrait;
use sqlx::AssertSqlSafe;

use crate::fresh::Fresh;

/// Runs a statement that fails in a handler's transaction, by sqlx and by SeaORM: both errors must have this kind and fault.
async fn fails_as(fresh: &Fresh, statement: &str, expected: (ErrorKind, Fault)) {
    let mut tx = table::begin(fresh.store.db()).await.unwrap();
    let query = sqlx::raw_sql(AssertSqlSafe(statement.to_owned()));
    let by_sqlx = Error::from(query.execute(tx.mysql().unwrap()).await.unwrap_err());
    assert_eq!(
        (by_sqlx.kind(), Fault::of(&by_sqlx)),
        expected,
        "{statement}: {by_sqlx}"
    );
    drop(tx);
    let tx = table::begin(fresh.store.db()).await.unwrap();
    let by_sea_orm = Error::from(tx.execute_unprepared(statement).await.unwrap_err());
    assert_eq!(
        (by_sea_orm.kind(), Fault::of(&by_sea_orm)),
        expected,
        "{statement}: {by_sea_orm}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_in_a_handler_has_the_kind_of_its_number() {
    let fresh = Fresh::migrated().await;
    for (number, state, kind, fault) in [
        (1040, "08004", ErrorKind::Unavailable, Fault::Other),
        (1047, "08S01", ErrorKind::Unavailable, Fault::Other),
        (1053, "08S01", ErrorKind::Unavailable, Fault::Other),
        (1062, "23000", ErrorKind::Conflict, Fault::Other),
        (1114, "HY000", ErrorKind::Unavailable, Fault::DiskFull),
        (1205, "HY000", ErrorKind::Unavailable, Fault::Locked),
        (1213, "40001", ErrorKind::Unavailable, Fault::Other),
        (1290, "HY000", ErrorKind::Unavailable, Fault::Other),
        (1317, "70100", ErrorKind::Failed, Fault::Other),
        (1644, "45000", ErrorKind::Failed, Fault::Other),
        (2006, "HY000", ErrorKind::Unavailable, Fault::Other),
    ] {
        let signal = format!("signal sqlstate '{state}' set mysql_errno = {number}, message_text = 'words'");
        fails_as(&fresh, &signal, (kind, fault)).await;
    }
    let words = "signal sqlstate '45000' set message_text = 'Deadlock found: Connection refused: disk is full'";
    fails_as(&fresh, words, (ErrorKind::Failed, Fault::Other)).await;
    fresh.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_missing_table_of_postroom_is_named_so() {
    let fresh = Fresh::migrated().await;
    let missing = (ErrorKind::Failed, Fault::TablesMissing);
    fails_as(&fresh, "select 1 from postroom_nothing", missing).await;
    fails_as(&fresh, "call postroom_nothing()", missing).await;
    fails_as(&fresh, "select 1 from orders", (ErrorKind::Failed, Fault::Other)).await;
    fresh.gone().await;
}
