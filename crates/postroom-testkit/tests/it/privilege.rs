//! Rights that a server asks for besides those on the database.

use postroom::{Outbox, migration};
use postroom_mysql::Mysql;
use postroom_testkit::server;
use sea_orm::{ConnectionTrait, Database};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb_with_a_binary_log_says_what_triggers_need() {
    let server = server::mariadb(&["log-bin", "log-bin-trust-function-creators=0"]).await;
    let admin = Database::connect(server.url()).await.unwrap();
    for statement in ["create user app@'%'", "grant all on postroom.* to app@'%'"] {
        admin.execute_unprepared(statement).await.unwrap();
    }
    let store = Mysql::connect(&server.url().replace("postroom@", "app@"))
        .await
        .unwrap();
    let up = || migration::up(store.db(), "postroom", store.migrations());

    let error = up().await.unwrap_err().report();
    assert!(
        error.contains("set persist log_bin_trust_function_creators = 1"),
        "{error}"
    );
    assert!(error.contains("run the migration again"), "{error}");

    let trust = "set global log_bin_trust_function_creators = 1";
    admin.execute_unprepared(trust).await.unwrap();
    assert_eq!(up().await.unwrap().len(), store.migrations().len(), "it goes on");
    let change = "update postroom_outbox set source = 'changed'";
    store.db().execute_unprepared(change).await.unwrap();
}
