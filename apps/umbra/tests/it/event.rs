//! The events of the module and what became of them.

use postroom::operate;
use postroom_testkit::Fresh;

use crate::site::Site;

on_each_database! {
    published: an_event_has_the_time_when_the_last_subscriber_had_it_sqlite,
        an_event_has_the_time_when_the_last_subscriber_had_it_postgres,
        an_event_has_the_time_when_the_last_subscriber_had_it_mariadb;
}

async fn published(fresh: Fresh) {
    let site = Site::open(fresh).await;
    let pause = async |is_paused| {
        operate::set_paused(&*site.fresh, "umbra-audit", is_paused, "test")
            .await
            .unwrap();
    };
    site.user("1001", "visa").await;
    site.quiet().await;
    pause(true).await;
    site.user("1002", "visa").await;
    let first = |events: &serde_json::Value| {
        let events = events.as_array().unwrap().iter();
        let mut registered = events.filter(|one| one["event_type"] == "UserRegistered");
        registered.next().cloned().unwrap()
    };
    let waiting = first(&site.get("/events").await);
    assert_eq!(waiting["payload"]["discord_user_id"], "1002", "{waiting}");
    assert!(
        waiting["published_at"].is_null() && waiting["retry_count"] == 0,
        "{waiting}"
    );
    pause(false).await;
    let all_published = |events: &serde_json::Value| {
        let mut events = events.as_array().unwrap().iter();
        events.all(|event| !event["published_at"].is_null())
    };
    let events = site.until("/events?limit=100", all_published).await;
    for event in events.as_array().unwrap() {
        assert!(
            event["published_at"].as_str() > event["occurred_at"].as_str(),
            "{event}"
        );
    }
    site.stage.close().await;
}
