//! Each fact and each search of tasteam becomes one stored row, with the properties of the catalogue.

use postroom_activity::Source;
use postroom_testkit::{Fresh, fresh};
use serde_json::json;

use crate::queue::Stream;
use crate::site::{Site, keys};

postroom_testkit::on_each_database! {
    facts_are_stored: facts_are_stored_sqlite, facts_are_stored_postgres, facts_are_stored_mariadb;
    a_search_is_recorded: a_search_is_recorded_sqlite, a_search_is_recorded_postgres, a_search_is_recorded_mariadb;
    events_are_found: events_are_found_sqlite, events_are_found_postgres, events_are_found_mariadb;
}

async fn facts_are_stored(fresh: Fresh) {
    facts(&Site::open(fresh).await).await;
}

async fn a_search_is_recorded(fresh: Fresh) {
    search(&Site::open(fresh).await).await;
}

async fn events_are_found(fresh: Fresh) {
    find(&Site::open(fresh).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn facts_are_stored_redis_and_postgres() {
    let stream = Stream::new();
    facts(&stream.feed(fresh::postgres().await).await).await;
    assert_eq!(stream.length(), 2, "they came by the stream");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_is_recorded_redis_and_postgres() {
    let stream = Stream::new();
    search(&stream.feed(fresh::postgres().await).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_found_redis_and_postgres() {
    let stream = Stream::new();
    find(&stream.feed(fresh::postgres().await).await).await;
}

async fn facts(site: &Site) {
    let (restaurant, group) = (site.restaurant("국밥집").await, site.group("점심 모임").await);
    let review = site.review(restaurant).await;
    for _ in 0..2 {
        site.join(group, "EMAIL").await;
    }
    let stored = site.until_stored(2).await;
    let of = |name: &str| {
        let found = stored.iter().find(|stored| stored.event.event_name == name);
        found.unwrap().event.clone()
    };
    let written = of("review.created");
    assert_eq!((written.event_version.as_str(), written.source), ("v1", Source::Server));
    assert_eq!(written.member_id, Some(42));
    let expected = json!({
        "reviewId": review, "restaurantId": restaurant, "groupId": null, "subgroupId": null, "hasImage": true,
    });
    assert_eq!(json!(written.properties), expected);
    let joined = of("group.joined");
    assert_eq!(joined.member_id, Some(7));
    assert_eq!(
        (&joined.properties["groupId"], &joined.properties["joinType"]),
        (&json!(group), &json!("EMAIL"))
    );
    assert!(
        joined.properties["joinedAt"].as_str().unwrap().ends_with('Z'),
        "{joined:?}"
    );
}

async fn search(site: &Site) {
    site.restaurant("Seoul Noodles").await;
    let found = site
        .get("/tasteam/search?q=seoul&memberId=9&latitude=37.5&longitude=127.0")
        .await;
    assert_eq!(found["restaurants"].as_array().unwrap().len(), 1);
    assert_eq!(site.get("/tasteam/search?q=100%25").await["restaurants"], json!([]));
    let stored = site.until_stored(2).await;
    let search = &stored.last().unwrap().event;
    assert_eq!(
        (search.event_name.as_str(), search.member_id),
        ("search.executed", Some(9))
    );
    let expected = json!({
        "queryHash": keys().hash("seoul"), "resultGroupCount": 0, "resultRestaurantCount": 1, "hasLocation": true,
    });
    assert_eq!(json!(search.properties), expected);
}

async fn find(site: &Site) {
    let (restaurant, group) = (site.restaurant("국밥집").await, site.group("점심 모임").await);
    for _ in 0..5 {
        site.review(restaurant).await;
    }
    site.join(group, "PASSWORD").await;
    site.until_stored(6).await;
    let path = "/api/v1/activity/admin/events";
    let all = site.get(path).await;
    assert_eq!(all["events"].as_array().unwrap().len(), 6);
    assert!(all["next"].is_null());
    let mut ids = Vec::new();
    let mut page = site.get(&format!("{path}?memberId=42&limit=2")).await;
    loop {
        ids.extend(
            page["events"]
                .as_array()
                .unwrap()
                .iter()
                .map(|event| event["eventId"].to_string()),
        );
        let Some(next) = page["next"].as_str() else {
            break;
        };
        page = site.get(&format!("{path}?memberId=42&limit=2&after={next}")).await;
    }
    assert_eq!(ids.len(), 5, "page by page");
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 5, "each once");
    let joined = site
        .get(&format!("{path}?eventName=group.joined&from=2020-01-01T00:00:00Z"))
        .await;
    assert_eq!(joined["events"].as_array().unwrap().len(), 1);
    assert_eq!(
        site.get(&format!("{path}?until=2020-01-01T00:00:00Z")).await["events"],
        json!([])
    );
    for (query, word) in [
        ("limit=0", "limit is 0"),
        ("from=yesterday", "from is"),
        ("after=x", "after"),
        ("x=1", "x"),
    ] {
        let answer = site.client.get(&format!("{path}?{query}")).await;
        assert!(matches!(answer.status, 400 | 422), "{query}: {answer:?}");
        assert!(answer.body["detail"].as_str().unwrap().contains(word), "{answer:?}");
    }
}
