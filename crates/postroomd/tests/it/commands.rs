//! One-shot commands on a store, with and without a relay.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::AsyncWriteExt;

use crate::harness::Place;

const ORDER: &str = r#"{"order_id":"1","customer":"ada","item":"lamp","quantity":1}"#;

#[tokio::test]
async fn what_is_emitted_can_be_tailed() {
    let place = Place::migrated().await;
    let first = place.emit("1", ORDER).await;
    let arguments = [
        "emit",
        "--type",
        "shop.order.paid.v1",
        "--aggregate-type",
        "order",
        "--aggregate-id",
        "ä\u{1b}[2J",
    ];
    let mut emit = place
        .command(
            &[
                &arguments[..],
                &["--payload", "-", "--header", "tenant=blue", "--source", "till"],
            ]
            .concat(),
        )
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    emit.stdin
        .take()
        .unwrap()
        .write_all(br#"{"total": 12345678901234567890}"#)
        .await
        .unwrap();
    let second = emit.wait_with_output().await.unwrap();
    assert!(second.status.success());
    let second = String::from_utf8(second.stdout).unwrap();

    let lines = place.ok(&["tail"]).await;
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].contains(&first) && lines[0].contains("hello.order.placed.v1") && lines[0].contains("order/1"));
    assert!(lines[1].contains(second.trim()) && lines[1].contains(r#"{"total": 12345678901234567890}"#));
    assert!(!lines[1].contains('\u{1b}'), "an event cannot take over the terminal");

    let documents = place.ok(&["tail", "--json", "--type", "shop.**"]).await;
    let document: Value = serde_json::from_str(&documents).unwrap();
    assert_eq!(document["type"], "shop.order.paid.v1");
    assert_eq!(document["headers"]["tenant"], "blue");
    assert_eq!(document["source"], "till");
    assert_eq!(place.ok(&["tail", "--from", "head"]).await, "");
}

#[tokio::test]
async fn a_tail_follows_and_its_reader_may_leave() {
    let place = Place::migrated().await;
    let mut tail = place
        .command(&["tail", "--follow", "--from", "beginning"])
        .spawn()
        .unwrap();
    let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(tail.stdout.take().unwrap()));
    let id = place.emit("1", ORDER).await;
    assert!(lines.next_line().await.unwrap().unwrap().contains(&id));
    drop(lines);
    place.emit("2", ORDER).await;
    let ended = tail.wait_with_output().await.unwrap();
    assert!(
        ended.status.success(),
        "a closed pipe is no failure: {}",
        String::from_utf8_lossy(&ended.stderr)
    );
}

#[tokio::test]
async fn a_scheduled_event_waits_for_its_time() {
    let place = Place::migrated().await;
    let far = ["--at", "2099-01-01T00:00:00Z"];
    let emit = [
        "emit",
        "--type",
        "a.b",
        "--aggregate-type",
        "a",
        "--aggregate-id",
        "1",
        "--payload",
        "{}",
    ];
    let id = place.ok(&[&emit[..], &far].concat()).await;
    assert_eq!(place.ok(&["tail"]).await, "");
    assert_eq!(place.json(&["status"]).await["scheduled"], 1);
    let said = place.ok(&["why", id.trim()]).await;
    assert!(said.contains("scheduled 2099-01-01 00:00:00.000"), "{said}");
    assert_eq!(place.json(&["why", id.trim()]).await["due_at"], "2099-01-01T00:00:00Z");
}

#[tokio::test]
async fn a_route_can_be_paused_resumed_and_replayed() {
    let place = Place::new();
    let routes = "[[routes]]\nname = \"all\"\nto = \"null\"\n[[routes]]\nname = \"other\"\nto = \"null\"\n";
    place.configure(&format!("[modules.hello]\nenabled = false\n{routes}"));
    place.ok(&["migrate"]).await;
    place.emit("1", ORDER).await;
    place.emit("2", ORDER).await;
    let relay = place.start(&["serve", "--roles", "relay"]).await;
    place.wait_for_route("all", |route| route["delivered"] == 2).await;

    let paused = place.json(&["pause", "all"]).await;
    assert_eq!(paused, serde_json::json!({ "route": "all", "is_paused": true }));
    place.emit("3", ORDER).await;
    place.wait_for_route("other", |route| route["delivered"] == 3).await;
    let paused = place.route("all").await;
    assert_eq!(
        (&paused["is_paused"], &paused["delivered"]),
        (&Value::Bool(true), &Value::from(2))
    );
    assert!(place.ok(&["why"]).await.contains("postroom resume all"));
    assert_eq!(place.json(&["resume", "all"]).await["is_paused"], false);
    place.wait_for_route("all", |route| route["delivered"] == 3).await;

    let replay = [
        "replay",
        "--route",
        "all",
        "--aggregate-type",
        "order",
        "--type",
        "hello.order.**",
        "--to-id",
        "2",
    ];
    let counted = place.json(&[&replay[..], &["--dry-run"]].concat()).await;
    assert_eq!(
        counted,
        serde_json::json!({ "entries": 2, "first_id": 1, "last_id": 2 })
    );
    assert!(
        place.ok(&["replay", "list"]).await.contains("there are no replays"),
        "it only counted"
    );
    assert_eq!(place.json(&replay).await["replay_id"], 1);
    place.wait_for_route("all", |route| route["delivered"] == 5).await;
    assert_eq!(place.route("other").await["delivered"], 3, "no other route notices");
    let listed = place.json(&["replay", "list"]).await;
    let first = &listed[0];
    assert_eq!(
        (&first["route"], &first["state"], &first["parked"], &first["created_by"]),
        (&"all".into(), &"done".into(), &2.into(), &"cli:ada".into())
    );
    let refused = place.fails(&["replay", "cancel", "1"]).await;
    assert!(refused.contains("replay 1 is done already"), "{refused}");
    relay.stop().await;
}

/// A subscriber of the example that is asked to have its effect a second time finds its row there.
#[tokio::test]
async fn the_example_can_be_replayed_again() {
    let place = Place::migrated().await;
    let relay = place.start(&["serve", "--roles", "relay"]).await;
    place.emit("1", ORDER).await;
    let until = async |route: &str, delivered: i64| {
        let done = |status: &Value| status["delivered"] == delivered || status["dead"] != 0;
        let status = place.wait_for_route(route, done).await;
        assert_eq!(status["delivered"], delivered, "{status}");
    };
    until("hello-flaky", 2).await; // the order and its receipt
    place
        .ok(&["replay", "--route", "hello-receipts", "--all", "--again"])
        .await;
    until("hello-receipts", 2).await;
    until("hello-flaky", 3).await; // a receipt that is told of again
    place
        .ok(&["replay", "--route", "hello-flaky", "--all", "--again"])
        .await;
    until("hello-flaky", 6).await;
    relay.stop().await;
}

#[tokio::test]
async fn why_tells_the_way_of_an_event() {
    let place = Place::migrated().await;
    let id = place.emit("1", ORDER).await;
    assert!(place.ok(&["why", &id]).await.contains("no route knows it"));
    let relay = place.start(&["serve", "--roles", "relay"]).await;
    place
        .wait_for_route("hello-receipts", |route| route["delivered"] == 1)
        .await;
    place
        .wait_for_route("hello-flaky", |route| route["delivered"].as_i64() >= Some(1))
        .await;
    let timeline = place.json(&["why", &id]).await;
    assert_eq!(timeline["entry"]["id"], id.as_str());
    let steps = timeline["steps"].as_array().unwrap().iter();
    let of_the_example = |step: &&Value| step["route"].as_str().is_some_and(|name| name.starts_with("hello-"));
    let steps: Vec<&Value> = steps.filter(of_the_example).collect();
    assert_eq!(steps.len(), 2, "{timeline}");
    assert!(
        steps
            .iter()
            .all(|step| step["state"] == "passed" && step["handled_at"].is_string()),
        "{timeline}"
    );
    let others: Vec<&Value> = timeline["steps"].as_array().unwrap().iter().collect();
    let is_unwanted = |step: &&&Value| step["state"] == "unwanted";
    assert_eq!(
        others.iter().filter(is_unwanted).count(),
        others.len() - 2,
        "{timeline}"
    );
    let said = place.ok(&["why", &id]).await;
    let is_told = said.contains(&format!(
        "{} routes do not take hello.order.placed.v1",
        others.len() - 2
    ));
    assert!(is_told && !said.contains("ledger-"), "{said}");
    relay.stop().await;
    assert_eq!(place.ok(&["why"]).await, "nothing holds anything up\n");
    place.emit("2", ORDER).await;
    let said = place.ok(&["why"]).await;
    assert!(said.contains("no relay delivers the route, 1 entry waits"), "{said}");
}

#[tokio::test]
async fn why_says_what_an_event_id_is() {
    let said = Place::migrated().await.run(&["why", "order-7"]).await;
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(
        said.err.contains("no event id") && said.err.contains("`postroom tail`"),
        "{}",
        said.err
    );
}

#[tokio::test]
async fn a_printed_script_is_known_to_migrate() {
    let place = Place::new();
    let script = place.ok(&["migrate", "--print"]).await;
    assert_eq!(place.json(&["migrate", "--print"]).await["sql"], script.trim_end());
    let left = std::fs::read_dir(place.path()).unwrap().count();
    assert_eq!(left, 0, "printing opens no store");
    let other = Place::new();
    let file = format!("sqlite://{}", other.path().join("own.db").display());
    let store = postroom_sqlite::Sqlite::open(&file).await.unwrap();
    let db = postroom::Outbox::db(&store);
    sea_orm::ConnectionTrait::execute_unprepared(db, &script).await.unwrap();
    store.close().await;
    let said = place.ok(&["migrate", "--store", &file]).await;
    assert_eq!(said, format!("{file} is up to date\n"));
    let said = place.json(&["migrate", "--store", &file]).await;
    assert_eq!(said, serde_json::json!({ "store": file, "applied": [] }));
}

#[tokio::test]
async fn a_migration_is_taken_back_only_on_purpose() {
    let place = Place::migrated().await;
    assert!(place.fails(&["migrate", "--down"]).await.contains("add --yes"));
    assert_eq!(
        place.ok(&["migrate", "--down", "--of", "hello", "--yes"]).await,
        "took back  hello 0001_shop\n"
    );
    assert_eq!(
        place.ok(&["migrate"]).await.lines().next(),
        Some("applied  hello 0001_shop")
    );
    let down = place.json(&["migrate", "--down", "--of", "hello", "--yes"]).await;
    assert_eq!(down["took_back"], "hello 0001_shop");
    assert_eq!(place.json(&["migrate"]).await["applied"][0], "hello 0001_shop");
}

#[tokio::test]
async fn the_doctor_looks_at_the_store() {
    let place = Place::new();
    let said = place.run(&["doctor"]).await;
    assert_eq!(said.code, Some(1));
    assert!(said.out.contains("fail  store"), "{}", said.out);
    place.ok(&["migrate"]).await;
    let findings = place.json(&["doctor"]).await;
    let state = |what: &str| {
        let finding = findings
            .as_array()
            .unwrap()
            .iter()
            .find(|finding| finding["what"] == what);
        finding.unwrap_or_else(|| panic!("nothing about {what}: {findings}"))["state"].clone()
    };
    for what in [
        "store",
        "version",
        "tables of postroom",
        "tables of hello",
        "clock",
        "journal_mode",
        "synchronous",
    ] {
        assert_eq!(state(what), "ok", "{what}");
    }
    assert_eq!(state("routes"), "warn", "nobody has started a relay");
}

#[tokio::test]
async fn mistakes_are_told_once_with_the_way_out() {
    let place = Place::new();
    let mut told = String::new();
    for arguments in [&["status"][..], &["status", "--config", "none.toml"]] {
        told.push_str(&format!(
            "$ postroom {}\n{}\n",
            arguments.join(" "),
            place.fails(arguments).await
        ));
    }
    place.ok(&["migrate"]).await;
    let emit = |payload| {
        [
            "emit",
            "--type",
            "a b",
            "--aggregate-type",
            "a",
            "--aggregate-id",
            "1",
            "--payload",
            payload,
        ]
    };
    for arguments in [
        &["status", "--route", "nope"][..],
        &["pause", "nope"],
        &["replay", "--route", "nope"],
        &["replay", "--route", "nope", "--all"],
        &["replay", "cancel", "7"],
        &["dead", "show", "7"],
        &["dead", "retry"],
        &["dead", "retry", "7"],
        &["why", "01990000-0000-7000-8000-000000000000"],
        &emit("{}"),
        &emit("{"),
    ] {
        told.push_str(&format!(
            "$ postroom {}\n{}\n",
            arguments.join(" "),
            place.fails(arguments).await
        ));
    }
    insta::assert_snapshot!(told);
    let said = place.run(&["status", "--store", "oracle://scott:tiger@db/orcl"]).await;
    assert_eq!(said.code, Some(2), "a wrong flag");
    assert!(said.err.contains("no store is named oracle://"), "{}", said.err);
}
