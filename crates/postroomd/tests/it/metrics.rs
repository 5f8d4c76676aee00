//! Metrics: scraped while events flow, and compared with what is known to have happened.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what goes wrong fails the test"
)]

use std::collections::{BTreeMap, BTreeSet};

use postroom_testkit::redis_server::redis;
use postroom_testkit::wait::until;

use crate::harness::{Daemon, Place};

/// Every value by its name and labels.
type Values = BTreeMap<String, f64>;

/// Reads a page as Prometheus does, and insists on what it insists on: every value belongs to a metric whose type and help
/// came before it, no value comes twice, and the page has an end.
fn parse(page: &str) -> Values {
    let (mut types, mut helps) = (BTreeMap::new(), BTreeSet::new());
    let mut values = Values::new();
    let body = page.strip_suffix("# EOF\n").unwrap_or_else(|| panic!("no end: {page}"));
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.splitn(3, ' ');
            let (what, name, text) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
            let is_new = match what {
                "HELP" => helps.insert(name.to_owned()),
                "TYPE" => types.insert(name.to_owned(), text.to_owned()).is_none(),
                other => panic!("{other}: {line}"),
            };
            assert!(is_new, "twice: {line}");
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let name = series.split('{').next().unwrap();
        let family = [name, name.trim_end_matches("_total"), name.trim_end_matches("_info")];
        let family = family.into_iter().find(|family| types.contains_key(*family));
        let family = family.unwrap_or_else(|| panic!("no type: {line}"));
        let is_counter = types[family] == "counter";
        assert_eq!(is_counter, name.ends_with("_total"), "{line}");
        assert!(helps.contains(family), "no help: {line}");
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{line}");
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
        assert!(value.is_finite() && value >= 0.0, "{line}");
        assert!(values.insert(series.to_owned(), value).is_none(), "twice: {line}");
    }
    values
}

/// Scrapes until the values are as wanted.
async fn scrape(daemon: &Daemon, wanted: impl Fn(&Values) -> bool) -> Values {
    let page = daemon
        .wait_for("/metrics", |code, body| code == 200 && wanted(&parse(body)))
        .await;
    for secret in ["order-", "lamp", "glass", "ada", "courier"] {
        assert!(!page.contains(secret), "{secret}: {page}");
    }
    parse(&page)
}

fn of(values: &Values, series: &str) -> f64 {
    *values
        .get(series)
        .unwrap_or_else(|| panic!("no {series} in {values:#?}"))
}

#[tokio::test]
async fn metrics_agree_with_what_happened() {
    let place = Place::migrated().await;
    let relay = place.start(&["serve", "--roles", "relay"]).await;
    let order =
        |id: &str, item: &str| format!(r#"{{"order_id":"{id}","customer":"ada","item":"{item}","quantity":1}}"#);
    for number in 0..5 {
        let id = format!("order-{number}");
        place.emit(&id, &order(&id, "lamp")).await;
    }
    place.emit("order-5", &order("order-5", "glass")).await; // the courier takes it a second later
    place.emit("order-6", r#"{"no":"order"}"#).await; // nobody can read it
    let line =
        |name: &str, route: &str| format!("postroom_{name}_total{{route=\"{route}\",shard=\"0\",part=\"line\"}}");
    let values = scrape(&relay, |values| {
        let is = |series: &str, wanted: f64| values.get(series) == Some(&wanted);
        is(&line("delivered", "hello-receipts"), 6.0)
            && is(&line("delivered", "hello-flaky"), 12.0)
            && is("postroom_route_dead_letters{route=\"hello-flaky\",shard=\"0\"}", 1.0)
            && is(
                "postroom_route_parked_entries{route=\"hello-flaky\",shard=\"0\",state=\"retry\"}",
                0.0,
            )
            && is("postroom_route_backlog_entries{route=\"hello-flaky\",shard=\"0\"}", 0.0)
    })
    .await;
    let count = |name: &str, route: &str| of(&values, &line(name, route));
    assert_eq!(count("dead", "hello-receipts"), 1.0);
    assert_eq!(count("failed", "hello-receipts"), 1.0);
    assert_eq!(count("parked", "hello-receipts"), 0.0);
    assert_eq!(count("dead", "hello-flaky"), 1.0);
    assert!(
        (1.0..=2.0).contains(&count("parked", "hello-flaky")),
        "the glass, and perhaps its receipt"
    );
    // One retry delivers each parked event; every other retry failed. Two first attempts failed too.
    assert_eq!(
        count("retried", "hello-flaky") - count("parked", "hello-flaky"),
        count("failed", "hello-flaky") - 2.0,
        "{values:#?}"
    );
    for name in ["working", "reachable"] {
        let series = format!("postroom_{name}{{route=\"hello-flaky\",shard=\"0\",part=\"line\"}}");
        assert_eq!(of(&values, &series), 1.0, "{series}");
    }
    assert_eq!(
        of(&values, "postroom_route_leased{route=\"hello-flaky\",shard=\"0\"}"),
        1.0
    );
    assert_eq!(
        of(&values, "postroom_route_paused{route=\"hello-flaky\",shard=\"0\"}"),
        0.0
    );
    assert!(of(&values, "postroom_pulse_age_seconds") < 10.0);
    let status = place.route("hello-flaky").await;
    assert_eq!(status["delivered"], 12, "the store says the same");
    relay.stop().await;
}

#[tokio::test]
async fn metrics_show_consumers_and_a_broker_that_is_away() {
    let mut server = redis(&[]).await;
    let place = Place::new();
    place.configure(&format!(
        "[modules.hello]\nbroker = \"redis\"\n[brokers.redis]\nurl = \"{}\"\n",
        server.url()
    ));
    place.ok(&["migrate"]).await;
    let relay = place.start(&["serve", "--roles", "relay"]).await;
    for number in 0..4 {
        let order = r#"{"customer":"ada","item":"lamp","quantity":1}"#;
        let (code, answer) = relay.request("POST", "/hello/orders", order).await;
        assert_eq!(code, 201, "{number}: {answer}");
    }
    let consumer = |name: &str| format!("postroom_{name}{{route=\"hello-receipts\",shard=\"0\",part=\"consumer\"}}");
    let values = scrape(&relay, |values| {
        values.get(&consumer("delivered_total")) == Some(&4.0)
            && values.get("postroom_group_waiting_messages{group=\"hello-receipts\"}") == Some(&0.0)
            && values.get("postroom_delivered_total{route=\"to-redis\",shard=\"0\",part=\"line\"}") == Some(&8.0)
    })
    .await;
    assert_eq!(of(&values, &consumer("working")), 1.0);
    assert_eq!(of(&values, &consumer("reachable")), 1.0);
    server.stop().await.unwrap();
    scrape(&relay, |values| values.get(&consumer("reachable")) == Some(&0.0)).await;
    until("another process sees it too", || async {
        place
            .ok(&["why"])
            .await
            .contains("down hello-receipts: cannot go on, for ")
    })
    .await;
    assert!(place.ok(&["status"]).await.contains("cannot go on: "));
    let doctor = place.run(&["doctor"]).await;
    assert!(doctor.out.contains("hello-receipts cannot go on: "), "{}", doctor.out);
    server.restart().await.unwrap();
    until("it is reached again", || async {
        !place.ok(&["why"]).await.contains("down hello")
    })
    .await;
    relay.stop().await;
}
