//! The findings of the doctor about each database server.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong fails the test")]

use postroom_testkit::{fresh, redis_server, server};
use sea_orm::{ConnectionTrait, Database};
use serde_json::Value;

use crate::harness::Place;

/// The findings of the doctor in a store, with or without Postroom's tables.
async fn examine(url: &str) -> Value {
    let said = Place::new().run(&["doctor", "--json", "--store", url]).await;
    serde_json::from_str(&said.out).unwrap()
}

/// The finding about this subject.
fn finding<'a>(findings: &'a Value, what: &str) -> &'a Value {
    let mut all = findings.as_array().unwrap().iter();
    all.find(|finding| finding["what"] == what)
        .unwrap_or_else(|| panic!("nothing about {what}: {findings:#}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_finds_nothing_wrong_with_the_servers_of_the_tests() {
    let mysql = [
        "innodb_flush_log_at_trx_commit",
        "innodb_doublewrite",
        "log_bin_trust_function_creators",
        "binlog_format",
        "wait_timeout",
        "max_connections",
    ];
    for (fresh, settings) in [
        (
            fresh::postgres().await,
            &["synchronous_commit", "fsync", "max_connections"][..],
        ),
        (fresh::mysql().await, &mysql[..]),
    ] {
        let findings = examine(&fresh.url()).await;
        for setting in settings {
            assert_eq!(finding(&findings, setting)["state"], "ok", "{setting}: {findings:#}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_names_the_traps_of_a_mariadb() {
    let server = server::mariadb(&[
        "log-bin",
        "log-bin-trust-function-creators=0",
        "binlog-format=statement",
        "wait-timeout=20",
        "max-connections=40",
    ])
    .await;
    let admin = Database::connect(server.url()).await.unwrap();
    for statement in ["create user app@'%'", "grant all on postroom.* to app@'%'"] {
        admin.execute_unprepared(statement).await.unwrap();
    }
    let url = server.url().replace("postroom@", "app@");
    let findings = examine(&url).await;
    for (setting, next) in [
        ("log_bin_trust_function_creators", "log_bin_trust_function_creators = 1"),
        ("binlog_format", "binlog_format = row"),
        ("wait_timeout", "wait_timeout = 60"),
        ("max_connections", "max_connections = 100"),
    ] {
        let finding = finding(&findings, setting);
        assert_eq!(finding["state"], "warn", "{setting}: {findings:#}");
        assert!(
            finding["next"].as_str().unwrap().contains(next),
            "{setting}: {findings:#}"
        );
    }
}

/// Brokers are looked at as the store is: whether they answer, and what about them can cost messages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_looks_at_the_brokers() {
    let (place, redis) = (
        Place::new(),
        redis_server::redis(&["--maxmemory-policy", "allkeys-lru"]).await,
    );
    place.configure(&format!(
        "[brokers.redis]\nurl = \"{}\"\n[brokers.kafka]\nurl = \"{}\"\nprefix = \"doctor-\"\n\
         [brokers.rabbitmq]\nurl = \"amqp://127.0.0.1:1/%2f\"\n[modules.hello]\nbroker = \"kafka\"\n",
        redis.url(),
        std::env::var("POSTROOM_TEST_KAFKA_URL").unwrap()
    ));
    let said = place.run(&["doctor", "--json"]).await;
    let findings: Value = serde_json::from_str(&said.out).unwrap();
    let check = |what: &str, state: &str, says: &str| {
        let mut all = findings.as_array().unwrap().iter();
        let is_found = all.any(|finding| {
            finding["what"] == what && finding["state"] == state && finding["says"].as_str().unwrap().contains(says)
        });
        assert!(is_found, "{what} {state} {says}: {findings:#}");
    };
    check("redis", "ok", "answers");
    check("redis", "warn", "allkeys-lru");
    check("kafka", "ok", "answers");
    check("kafka", "warn", "there is no topic doctor-");
    check("rabbitmq", "fail", "");
}
