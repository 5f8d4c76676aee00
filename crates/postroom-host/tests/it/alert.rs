//! The begin and the end of an alert are sent once, also when messengers or processes fail meanwhile.

use std::time::Duration;

use postroom::alert::{Reply, Turn};
use postroom_host::Messengers;
use postroom_testkit::wait::until;
use postroom_testkit::{Fresh, fresh};
use serde_json::{Value, json};

use crate::watched::{RULES, Watched, looks, page};

/// A test on each database.
macro_rules! on_every_store {
    ($($test:ident)*) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $test() { super::$test(postroom_testkit::fresh::sqlite().await).await; })*
        }
        mod postgres {
            $(#[tokio::test]
            async fn $test() { super::$test(postroom_testkit::fresh::postgres().await).await; })*
        }
        mod mariadb {
            $(#[tokio::test]
            async fn $test() { super::$test(postroom_testkit::fresh::mysql().await).await; })*
        }
    };
}

on_every_store! {
    a_rule_is_told_once_when_it_begins_and_once_when_it_ends
    two_processes_tell_once
    what_cannot_be_told_now_is_told_later
}

fn began(rule: &str) -> (String, Turn) {
    (rule.to_owned(), Turn::Began)
}

fn ended(rule: &str) -> (String, Turn) {
    (rule.to_owned(), Turn::Ended)
}

fn later(after: Option<Duration>) -> Reply {
    Reply::Later {
        says: "busy".to_owned(),
        after,
    }
}

async fn a_rule_is_told_once_when_it_begins_and_once_when_it_ends(fresh: Fresh) {
    let watched = Watched::default();
    let running = watched.run(&fresh).await;
    looks(&fresh).await;
    assert_eq!(watched.slack.asked(), []);
    let [calm, _] = page(&running.client).await;
    let expected = json!({
        "module": "watched", "rule": "too_many", "channel": "slack", "says": "there are too many",
        "next": "take some away", "number": 0, "limit": 10, "is_firing": false, "since": null, "is_told": false,
        "error": null, "has_destination": true,
    });
    assert_eq!(calm, expected);

    watched.count(11);
    looks(&fresh).await;
    assert_eq!(watched.slack.taken(), [began("too_many")]);
    assert_eq!(watched.slack.asked()[0].says, "there are too many: 11, the limit is 10");
    let [firing, _] = page(&running.client).await;
    assert_eq!((&firing["is_firing"], &firing["is_told"]), (&json!(true), &json!(true)));
    assert!(firing["since"].is_string(), "{firing}");

    watched.count(100);
    looks(&fresh).await;
    assert_eq!(watched.pagerduty.taken(), [began("far_too_many")]);
    watched.count(10);
    looks(&fresh).await;
    assert_eq!(watched.slack.taken(), [began("too_many"), ended("too_many")]);
    assert_eq!(
        watched.pagerduty.taken(),
        [began("far_too_many"), ended("far_too_many")]
    );
    let since = |notice: &postroom::alert::Notice| notice.since;
    let told: Vec<_> = watched.slack.asked().iter().map(since).collect();
    assert_eq!(told[0], told[1], "the end says when it began");
    let [over, _] = page(&running.client).await;
    assert_eq!((&over["is_told"], &over["since"]), (&json!(false), &Value::Null));
    running.close().await;
}

async fn two_processes_tell_once(fresh: Fresh) {
    let watched = Watched::default();
    let (first, second) = (watched.run(&fresh).await, watched.run(&fresh).await);
    watched.count(200);
    until("somebody tells", || async { !watched.pagerduty.taken().is_empty() }).await;
    looks(&fresh).await;
    drop(first); // and the other one goes on
    watched.count(0);
    until("the end is told", || async { watched.pagerduty.taken().len() > 1 }).await;
    looks(&fresh).await;
    for (messenger, rule) in [(&watched.slack, "too_many"), (&watched.pagerduty, "far_too_many")] {
        assert_eq!(messenger.taken(), [began(rule), ended(rule)]);
    }
    second.close().await;
}

/// Slack fails at the beginning and at the end; PagerDuty does not wait for it.
async fn what_cannot_be_told_now_is_told_later(fresh: Fresh) {
    let watched = Watched::default();
    watched
        .slack
        .reply([later(None), later(None), Reply::Taken, later(None)]);
    let running = watched.run(&fresh).await;
    watched.count(100);
    until("PagerDuty is told", || async { watched.pagerduty.taken().len() == 1 }).await;
    until("Slack is told", || async { watched.slack.taken().len() == 1 }).await;
    looks(&fresh).await;
    assert_eq!(watched.slack.asked().len(), 3);
    watched.count(0);
    until("Slack is told of the end", || async {
        watched.slack.taken().len() == 2
    })
    .await;
    looks(&fresh).await;
    assert_eq!(watched.slack.taken(), [began("too_many"), ended("too_many")]);
    assert_eq!(watched.slack.asked().len(), 5);
    running.close().await;
}

#[tokio::test]
async fn somebody_who_asks_for_time_gets_it() {
    let (fresh, watched) = (fresh::sqlite().await, Watched::default());
    let after = Duration::from_secs(3);
    watched.slack.reply([later(Some(after))]);
    let running = watched.run(&fresh).await;
    watched.count(11);
    until("it is shown why", || async {
        let [waiting, _] = page(&running.client).await;
        waiting["error"] == "busy" && waiting["is_told"] == false
    })
    .await;
    until("Slack is told", || async { watched.slack.taken().len() == 1 }).await;
    let waited = watched.slack.waited();
    // By the clock of the database, in milliseconds, which may begin before ours.
    assert!(waited > after - Duration::from_millis(200), "{waited:?}");
    looks(&fresh).await;
    let [told, _] = page(&running.client).await;
    assert_eq!((&told["is_told"], &told["error"]), (&json!(true), &Value::Null));
    running.close().await;
}

/// A notice that is refused for good is not sent again by this process; a process with another setting tries it.
#[tokio::test]
async fn what_is_refused_is_tried_again_by_another_process_only() {
    let (fresh, watched) = (fresh::sqlite().await, Watched::default());
    let no = || Reply::Refused("404 Not Found: no_service".to_owned());
    watched.slack.reply([no()]);
    let running = watched.run(&fresh).await;
    watched.count(11);
    until("Slack is asked", || async { watched.slack.asked().len() == 1 }).await;
    looks(&fresh).await;
    assert_eq!(watched.slack.asked().len(), 1);
    let [refused, _] = page(&running.client).await;
    assert_eq!(
        (&refused["is_told"], &refused["error"]),
        (&json!(false), &json!("404 Not Found: no_service"))
    );
    running.close().await;
    let running = watched.run(&fresh).await;
    until("another one tells", || async { watched.slack.taken().len() == 1 }).await;
    running.close().await;
}

/// The end may have reached somebody although nobody said so: what begins again must reach them too.
#[tokio::test]
async fn what_begins_again_before_its_end_was_told_is_told_again() {
    let (fresh, watched) = (fresh::sqlite().await, Watched::default());
    let running = watched.run(&fresh).await;
    watched.count(100);
    until("it began", || async { watched.pagerduty.taken().len() == 1 }).await;
    watched.pagerduty.reply([later(Some(Duration::from_secs(3600)))]);
    watched.count(0);
    until("the end was tried", || async { watched.pagerduty.asked().len() == 2 }).await;
    watched.count(100);
    until("it begins again", || async { watched.pagerduty.asked().len() == 3 }).await;
    looks(&fresh).await;
    assert_eq!(
        watched.pagerduty.taken(),
        [began("far_too_many"), began("far_too_many")]
    );
    running.close().await;
}

#[tokio::test]
async fn without_anybody_to_tell_rules_are_still_shown() {
    let (fresh, watched) = (fresh::sqlite().await, Watched::default());
    let running = watched.run_with(&fresh, Messengers::new()).await;
    watched.count(100);
    looks(&fresh).await;
    for shown in page(&running.client).await {
        assert_eq!((&shown["is_firing"], &shown["is_told"]), (&json!(true), &json!(false)));
        assert!(
            shown["since"].is_string() && shown["has_destination"] == false,
            "{shown}"
        );
    }
    watched.count(0);
    looks(&fresh).await;
    let rules = RULES.map(|rule| rule.name);
    assert_eq!(postroom::alert::load(fresh.db(), &rules).await.unwrap(), []);
    running.close().await;
}
