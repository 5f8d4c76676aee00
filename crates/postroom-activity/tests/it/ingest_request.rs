//! Requests: whether they are taken at all, in which form, and how large.

use std::io::Write as _;
use std::slice::from_ref;

use flate2::Compression;
use flate2::write::GzEncoder;
use postroom_host::{Origin, Serving};
use postroom_testkit::client::Answer;
use postroom_testkit::{fresh, walk};
use serde_json::{Value, json};

use crate::ingest_site::{EVENTS, Setup, Site, event, stored, word};

fn zip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

async fn post(site: &Site, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    site.client.send_bytes("POST", EVENTS, headers, body).await.unwrap()
}

fn batch(events: &[Value]) -> String {
    json!({ "events": events }).to_string()
}

#[tokio::test]
async fn client_ingest_is_off_by_default_and_says_how_to_switch_it_on() {
    let fresh = fresh::sqlite().await;
    let site = Site::set(&fresh, Setup::default()).await;
    for answer in [
        site.send(&[event()]).await,
        site.client.get("/api/v1/activity/client.js").await,
    ] {
        assert_eq!((answer.status, answer.code()), (404, "client_ingest_disabled"));
        let detail = answer.body["detail"].as_str().unwrap();
        assert!(
            detail.contains("client_ingest_enabled = true in [modules.activity]"),
            "{detail}"
        );
    }
    assert_eq!(stored(&fresh).await, 0);
}

#[tokio::test]
async fn gzip_and_plain_text_are_accepted_and_other_forms_are_not() {
    let fresh = fresh::sqlite().await;
    let site = Site::open(&fresh).await;
    let json = ("content-type", "application/json");
    let (zipped, beacon) = (event(), event());
    let gzip = [json, ("content-encoding", "gzip")];
    let answer = post(&site, &gzip, &zip(&batch(from_ref(&zipped)))).await;
    assert_eq!(word(&answer, &zipped), "ok");
    let answer = post(
        &site,
        &[("content-type", "text/plain;charset=UTF-8")],
        batch(from_ref(&beacon)).as_bytes(),
    )
    .await;
    assert_eq!(word(&answer, &beacon), "ok");
    for (headers, code) in [
        ([json, ("content-encoding", "br")], "encoding"),
        ([("content-type", "text/html"), ("accept", "*/*")], "media_type"),
    ] {
        let answer = post(&site, &headers, b"{}").await;
        assert_eq!((answer.status, answer.code()), (415, code));
    }
    let answer = post(&site, &gzip, b"{}").await;
    assert_eq!((answer.status, answer.code()), (400, "malformed"));
    assert_eq!(stored(&fresh).await, 2);
}

#[tokio::test]
async fn a_request_has_limits_and_names_them() {
    let fresh = fresh::sqlite().await;
    let site = Site::open(&fresh).await;
    let events: Vec<Value> = (0..101).map(|_| event()).collect();
    let answer = site.send(&events).await;
    assert_eq!((answer.status, answer.code()), (400, "too_many_events"));
    let detail = answer.body["detail"].as_str().unwrap();
    assert!(
        detail.contains("101 events, the limit is 100 (ingest_max_batch_size)"),
        "{detail}"
    );
    let answer = site.send(&events[..100]).await;
    assert_eq!(answer.body["results"].as_object().unwrap().len(), 100);
    let json = ("content-type", "application/json");
    let large = format!("{{\"events\":[]{}}}", " ".repeat(1 << 20));
    for (headers, body) in [
        ([json, ("accept", "*/*")], large.clone().into_bytes()),
        ([json, ("content-encoding", "gzip")], zip(&large)),
    ] {
        let answer = post(&site, &headers, &body).await;
        assert_eq!((answer.status, answer.code()), (413, "too_large"));
    }
    let answer = post(&site, &[json], br#"{"event":[]}"#).await;
    assert_eq!((answer.status, answer.code()), (400, "malformed"));
    assert_eq!(site.send(&[]).await.ok(), json!({ "results": {} }));
    assert_eq!(stored(&fresh).await, 100);
    let small = Site::set(&fresh, Setup::with(json!({ "ingest_max_batch_size": 1 }))).await;
    let answer = small.send(&[event(), event()]).await;
    assert_eq!((answer.status, answer.code()), (400, "too_many_events"));
}

#[tokio::test]
async fn a_page_of_a_listed_origin_may_read_the_answer() {
    let fresh = fresh::sqlite().await;
    let origin = "https://shop.example";
    let serving = Serving {
        origins: vec![origin.parse::<Origin>().unwrap()],
        ..Serving::default()
    };
    let setup = Setup {
        serving,
        ..Setup::with(json!({}))
    };
    let site = Site::set(&fresh, setup).await;
    let answer = post(
        &site,
        &[("content-type", "text/plain"), ("origin", origin)],
        batch(&[event()]).as_bytes(),
    )
    .await;
    assert_eq!(answer.header("access-control-allow-origin"), Some(origin));
    let exposed = answer.header("access-control-expose-headers").unwrap();
    for name in ["retry-after", "ratelimit", "ratelimit-policy"] {
        assert!(exposed.split(',').any(|exposed| exposed.trim() == name), "{exposed}");
    }
    let asks = [
        ("origin", origin),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,content-type"),
    ];
    let answer = site.client.must("OPTIONS", EVENTS, &asks, "").await;
    assert_eq!(
        (answer.status, answer.header("access-control-allow-origin")),
        (200, Some(origin))
    );
}

#[tokio::test]
async fn the_browser_module_is_served_as_a_script_that_browsers_may_keep() {
    let fresh = fresh::sqlite().await;
    let site = Site::open(&fresh).await;
    let answer = site.client.get("/api/v1/activity/client.js").await;
    assert_eq!(
        (answer.status, answer.kind.as_str()),
        (200, "text/javascript; charset=utf-8")
    );
    assert_eq!(answer.header("cache-control"), Some("public, max-age=300"));
    assert!(answer.body.as_str().unwrap().contains("export function createActivity"));
}

#[tokio::test]
async fn the_request_of_the_guide_has_the_answer_of_the_guide() {
    let fresh = fresh::sqlite().await;
    let site = Site::open(&fresh).await;
    let page = "docs/guide/activity-ingest.md";
    let said = walk::run(&walk::blocks(page, "request"), ("POSTROOM", &site.client.0))
        .await
        .done();
    assert_eq!(said.trim(), walk::blocks(page, "answer").trim());
}
