//! Long lists are returned in pages.

use postroom_testkit::Fresh;
use sea_orm::ConnectionTrait as _;
use serde_json::json;

use crate::site::{Site, text};

on_each_database! {
    parts: a_listing_comes_in_parts_sqlite, a_listing_comes_in_parts_postgres, a_listing_comes_in_parts_mariadb;
}

const COUNT: usize = 120;

async fn parts(fresh: Fresh) {
    let site = Site::open(fresh).await;
    for n in 0..COUNT {
        let notice = format!("insert into umbra_notice values ('n-{n:03}', 'ada', 'hello', 'delivered')");
        let audit = format!("insert into umbra_audit values ('a-{n:03}', 'Seen', 'guild', 'g1', '{{}}', 0)");
        let other = format!("insert into umbra_audit values ('b-{n:03}', 'Seen', 'user', 'g1', '{{}}', 0)");
        for sql in [notice, audit, other] {
            site.fresh.db().execute_unprepared(&sql).await.unwrap();
        }
    }
    for (path, id) in [
        ("/users/ada/notices", "event_id"),
        ("/audit/guild/g1", "outbox_event_id"),
    ] {
        let part = async |query: String| -> Vec<String> {
            let listed = site.get(&format!("{path}{query}")).await;
            listed.as_array().unwrap().iter().map(|one| text(one, id)).collect()
        };
        let first = part(String::new()).await;
        assert_eq!(first.len(), 100, "{path}");
        let rest = part(format!("?after={}", first[99])).await;
        assert_eq!((rest.len(), first.last() < rest.first()), (COUNT - 100, true), "{path}");
        assert_eq!(part(format!("?after={}&limit=7", first[0])).await, first[1..8]);
        for limit in [0, 101, 1_000] {
            let (code, problem) = site
                .request("GET", &format!("{path}?limit={limit}"), &json!(null))
                .await;
            let says = problem["detail"].as_str().unwrap();
            assert_eq!((code, says), (422, format!("limit is {limit}; give 1 to 100").as_str()));
        }
    }
    site.stage.close().await;
}
