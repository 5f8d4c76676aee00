//! Requests to Slack and PagerDuty, and the meaning of their responses.

use std::time::Duration;

use postroom::alert::{Messenger as _, Notice, Reply, Turn};
use postroom_http::{PagerDuty, Slack};
use postroom_testkit::fake_messenger::{Answer, FakeMessenger, ROUTING_KEY};
use serde_json::json;

fn notice(turn: Turn) -> Notice {
    Notice {
        rule: "ledger_events_failed".to_owned(),
        turn,
        since: postroom::db_clock::parse_sqlite_stamp("2026-01-02T03:04:05.678Z").unwrap(),
        says: "events were given up: 3, the limit is 0".to_owned(),
        next: "postroom dead list, then <retry> & wait".to_owned(),
    }
}

fn pagerduty(fake: &FakeMessenger) -> PagerDuty {
    PagerDuty::new(&fake.url, ROUTING_KEY, "db-1").unwrap()
}

#[tokio::test]
async fn slack_gets_a_line_of_text() {
    let fake = FakeMessenger::slack().await;
    let slack = Slack::new(&fake.url).unwrap();
    for turn in [Turn::Began, Turn::Ended] {
        assert_eq!(slack.tell(&notice(turn)).await, Reply::Taken);
    }
    let began = "*ledger_events_failed* began at 2026-01-02T03:04:05Z: events were given up: 3, the limit is 0.\n\
                 Next: postroom dead list, then &lt;retry&gt; &amp; wait";
    let ended = "*ledger_events_failed* is over. It began at 2026-01-02T03:04:05Z.";
    assert_eq!(fake.taken(), [json!({ "text": began }), json!({ "text": ended })]);
}

#[tokio::test]
async fn pagerduty_gets_a_trigger_and_a_resolve_with_the_same_key() {
    let fake = FakeMessenger::pagerduty().await;
    for turn in [Turn::Began, Turn::Ended] {
        assert_eq!(pagerduty(&fake).tell(&notice(turn)).await, Reply::Taken);
    }
    let trigger = json!({
        "routing_key": ROUTING_KEY,
        "event_action": "trigger",
        "dedup_key": "ledger_events_failed",
        "payload": {
            "summary": "ledger_events_failed: events were given up: 3, the limit is 0",
            "source": "db-1",
            "severity": "critical",
            "timestamp": "2026-01-02T03:04:05Z",
            "custom_details": { "next": "postroom dead list, then <retry> & wait" },
        },
    });
    let resolve = json!({
        "routing_key": ROUTING_KEY, "event_action": "resolve", "dedup_key": "ledger_events_failed",
    });
    assert_eq!(fake.taken(), [trigger, resolve]);
}

#[tokio::test]
async fn a_long_summary_is_cut_to_what_pagerduty_takes() {
    let fake = FakeMessenger::pagerduty().await;
    let mut long = notice(Turn::Began);
    long.says = "é".repeat(3_000);
    assert_eq!(pagerduty(&fake).tell(&long).await, Reply::Taken);
}

#[tokio::test]
async fn a_wrong_setting_is_refused_for_good() {
    let (slack, duty) = (FakeMessenger::slack().await, FakeMessenger::pagerduty().await);
    let gone = Slack::new(&format!("{}-of-another", slack.url)).unwrap();
    let reply = gone.tell(&notice(Turn::Began)).await;
    assert_eq!(reply, Reply::Refused("404 Not Found: no_service".to_owned()));
    let path = format!("/{}", slack.url.splitn(4, '/').nth(3).unwrap());
    slack.answer([Answer::new(404, format!("Cannot POST {path}"))]);
    let reply = Slack::new(&slack.url).unwrap().tell(&notice(Turn::Began)).await;
    assert_eq!(reply, Reply::Refused("404 Not Found: Cannot POST …".to_owned()));
    let stranger = PagerDuty::new(&duty.url, "short", "db-1").unwrap();
    let Reply::Refused(says) = stranger.tell(&notice(Turn::Ended)).await else {
        panic!("a short key was accepted")
    };
    assert!(
        says.starts_with("400 Bad Request: ") && says.contains("routing_key"),
        "{says}"
    );
    assert_eq!((slack.taken().len(), duty.taken().len()), (0, 0));
}

#[tokio::test]
async fn a_busy_or_broken_server_is_tried_again_after_the_time_it_says() {
    let fake = FakeMessenger::slack().await;
    let limited = Answer {
        retry_after: Some(17),
        ..Answer::new(429, "rate_limited")
    };
    fake.answer([limited, Answer::new(500, "rollup_error")]);
    let slack = Slack::new(&fake.url).unwrap();
    let later = |says: &str, after| Reply::Later {
        says: says.to_owned(),
        after,
    };
    let busy = later("429 Too Many Requests: rate_limited", Some(Duration::from_secs(17)));
    assert_eq!(slack.tell(&notice(Turn::Began)).await, busy);
    let broken = later("500 Internal Server Error: rollup_error", None);
    assert_eq!(slack.tell(&notice(Turn::Began)).await, broken);
    assert_eq!(slack.tell(&notice(Turn::Began)).await, Reply::Taken);
}

/// The error for an unavailable server does not contain its address or key, because they are secrets.
#[tokio::test]
async fn no_reply_contains_the_secret() {
    let fake = FakeMessenger::slack().await;
    let url = fake.url.clone();
    drop(fake);
    let slack = Slack::new(&url).unwrap();
    let Reply::Later { says, after: None } = slack.tell(&notice(Turn::Began)).await else {
        panic!("expected a retry, because no server listens")
    };
    assert!(
        !says.contains("secret") && says.starts_with("post a notice: "),
        "{says}"
    );
    assert!(!format!("{slack:?}").contains("secret"));
    let duty = PagerDuty::new("http://127.0.0.1:1/v2/enqueue", ROUTING_KEY, "db-1").unwrap();
    assert!(!format!("{duty:?}").contains(ROUTING_KEY));
}
