//! Collection that fails harms no request, and nothing is lost by it.

use postroom_activity::Recorder;
use postroom_testkit::{Fresh, fresh};
use sea_orm::{ConnectionTrait as _, TransactionTrait as _};
use serde_json::{Value, json};
use tasteam_activity::collecting;

use crate::site::Site;

postroom_testkit::on_each_database! {
    a_broken_table_harms_no_request: a_broken_table_harms_no_request_sqlite, a_broken_table_harms_no_request_postgres,
        a_broken_table_harms_no_request_mariadb;
}

/// Requests while collection does not work.
const REQUESTS: usize = 40;

async fn a_broken_table_harms_no_request(fresh: Fresh) {
    let site = Site::open(fresh).await;
    let restaurant = site.restaurant("국밥집").await;
    site.review(restaurant).await;
    site.until_stored(1).await;
    let db = site.fresh.db();
    let rename = |from: &str, to: &str| format!("alter table {from} rename to {to}");
    db.execute_unprepared(&rename("user_activity_event", "user_activity_away"))
        .await
        .unwrap();
    requests(&site, restaurant).await;
    db.execute_unprepared(&rename("user_activity_away", "user_activity_event"))
        .await
        .unwrap();
    site.until_stored(1 + 2 * REQUESTS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_table_harms_no_request_postgres() {
    let site = Site::open(fresh::postgres().await).await;
    let restaurant = site.restaurant("국밥집").await;
    let lock = site.fresh.writers(1).await;
    let tx = lock.begin().await.unwrap();
    tx.execute_unprepared("lock table user_activity_event in access exclusive mode")
        .await
        .unwrap();
    requests(&site, restaurant).await;
    tx.rollback().await.unwrap();
    site.until_stored(2 * REQUESTS).await;
}

/// Reviews and searches, one after the other. Each must succeed.
async fn requests(site: &Site, restaurant: i64) {
    for _ in 0..REQUESTS {
        site.review(restaurant).await;
        let found = site.get("/tasteam/search?q=noodles").await;
        assert_eq!(found["restaurants"], json!([]));
    }
}

/// However long collection does not work: facts of the server are tried without end, unless the settings allow their loss.
#[test]
fn facts_are_tried_without_end_unless_their_loss_is_allowed() {
    let retries = |section: Value| {
        let module = collecting(Recorder::default()).module();
        let module = module.configure(section.as_object().unwrap().clone()).unwrap();
        let retry = |group: &str| {
            let found = module.subscribers.iter().find(|one| one.group == group);
            let retry = &found.unwrap().retry;
            (retry.attempts_max, retry.age_max)
        };
        (retry("activity-map"), retry("activity-store"))
    };
    let without_end = (None, None);
    assert_eq!(retries(json!({})), (without_end, without_end));
    let (map, store) = retries(json!({ "strict_server_event_lossless": false }));
    assert!(map.1.is_some(), "{map:?}");
    assert_eq!(store, without_end);
}
