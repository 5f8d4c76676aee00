use postroom::operate::token::{self, NewToken, Role, Scope};
use postroom::{Outbox, table};
use postroom_postgres::Postgres;
use postroom_testkit::fresh;
use postroom_testkit::interpreter::{Interpreter, Words};
use sea_orm::ConnectionTrait as _;

/// The transaction begins, and then fails before the driver counts it.
const FAILS_TO_BEGIN: Words = &[("set local lock_timeout", "set local lick_timeout")];

/// A connection whose transaction failed while it began is not used again: the driver does not know that the server has a
/// transaction there.
#[tokio::test]
async fn a_transaction_that_fails_while_it_begins_poisons_no_pool() {
    let fresh = fresh::postgres().await;
    let url = fresh.url();
    let (_, rest) = url.split_once('@').unwrap();
    let (server, _) = rest.split_once('/').unwrap();
    let interpreter = Interpreter::before(server, FAILS_TO_BEGIN).await;
    let store = Postgres::connect(&url.replace(server, &interpreter.address.to_string()))
        .await
        .unwrap();
    let db = Outbox::pool(&store, 1);
    let new = NewToken {
        name: "till".to_owned(),
        role: Role::Viewer,
        scope: Scope::default(),
        expires_at: None,
    };
    token::create(&db, &new, "kim").await.unwrap_err();
    let tx = table::begin(&db).await.unwrap();
    tx.execute_unprepared("create table written (id int)").await.unwrap();
    tx.commit().await.unwrap();
    let written = fresh.db().execute_unprepared("insert into written values (1)").await;
    written.unwrap();
}
