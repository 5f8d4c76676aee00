//! Entries of programs that know neither Postroom nor CloudEvents: readers and screens.

use std::sync::{Arc, Mutex};

use postroom::{
    BoxError, Envelope, Error, Event, Filter, Handler, Message, Relay, Result, Screen, Subscriber, Tx, dead,
    parse_payload,
};
use postroom_redis::{Options, Redis};
use postroom_testkit::foreign::redis_cli;
use postroom_testkit::wait::until;
use postroom_testkit::{Fresh, fresh};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::events::name;
use crate::site::{Site, options, shared};

const TYPE: &str = "activity.recorded.v1";

/// Keeps what it handles; rejects events whose payload says so.
#[derive(Clone, Debug, Default)]
struct Store(Arc<Mutex<Vec<Event>>>);

impl Handler for Store {
    async fn handle(&self, _tx: &mut Tx, event: &Event) -> Result<(), BoxError> {
        if event.decode::<Value>()?["reject"] == json!(true) {
            return Err(postroom::reject("a handler rejects it").into());
        }
        self.0.lock().unwrap().push(event.clone());
        Ok(())
    }
}

/// The fields of an activity, or a JSON document in one field.
fn read_activity(message: &Message) -> Result<Option<Envelope>> {
    if let Some(document) = message.fields.text("payload") {
        return Ok(Some(Envelope::new(TYPE, parse_payload(document)?)));
    }
    let name = message.fields.text("eventName");
    let name = name.ok_or_else(|| Error::invalid("the field eventName is missing"))?;
    if name == "heartbeat" {
        return Ok(None);
    }
    let properties = message.fields.text("properties").unwrap_or("{}");
    let mut activity = Envelope::new(TYPE, parse_payload(properties)?)
        .attribute("source", "/tasteam")
        .attribute("subject", message.fields.text("memberId").unwrap_or("nobody"));
    activity.attributes.extend(
        message
            .fields
            .text("eventId")
            .map(|id| ("id".to_owned(), id.to_owned())),
    );
    Ok(Some(activity))
}

/// Lets numbers and names through, and no text of users.
struct NoText;

impl Screen for NoText {
    fn event(&self, event: &mut Event) -> Result<()> {
        let mut payload: Value = event.decode()?;
        if let Some(fields) = payload.as_object_mut() {
            fields.retain(|_, value| !value.is_string());
        }
        event.payload = parse_payload(&payload.to_string())?;
        Ok(())
    }

    fn raw(&self, name: &str, value: &[u8]) -> Vec<u8> {
        match name {
            "eventId" => value.to_vec(),
            _ => b"(removed)".to_vec(),
        }
    }
}

/// The results of the entries of a stream.
struct Outcome {
    site: Site,
    stream: String,
    handled: Vec<Event>,
    letters: Vec<dead::DeadLetter>,
}

impl Outcome {
    /// The copies of dead letters on the broker, as redis-cli shows them.
    fn copies(&self) -> String {
        redis_cli(
            &self.site.url,
            &["XRANGE", &format!("{{{}}}:dead", self.stream), "-", "+"],
        )
    }

    fn payloads(&self) -> Vec<Value> {
        let payload = |event: &Event| event.decode().unwrap();
        self.handled.iter().map(payload).collect()
    }
}

/// Adds entries with redis-cli, and runs a subscriber until its group has acknowledged all of them.
async fn run(entries: &[&[&str]], change: impl FnOnce(Subscriber) -> Subscriber) -> Outcome {
    let (site, fresh, store) = (shared().await, fresh::sqlite().await, Store::default());
    let named = Options {
        stream: "{topic}".to_owned(),
        partitions: 1,
        ..options()
    };
    let broker = Redis::open(&site.url, named).unwrap();
    let (stream, group) = (name("domain.user.activity"), name("activity-store"));
    for fields in entries {
        redis_cli(&site.url, &[&["XADD", stream.as_str(), "*"], *fields].concat());
    }
    let topics = vec![stream.clone()];
    let subscriber = change(Subscriber::matching(group.clone(), ["activity.**"], store.clone()));
    let route = subscriber.fed_by(Arc::new(broker.clone()), topics.clone(), Filter::all());
    let stop = CancellationToken::new();
    let watch = async {
        let is_done = async || {
            let lags = broker.lag(&group, &topics).await.unwrap();
            lags.iter().any(|lag| lag.unread == Some(0) && lag.pending == 0)
        };
        until("all entries are acknowledged", is_done).await;
        stop.cancel();
    };
    let relay = Box::pin(Relay::new(fresh.store()).route(route).run(stop.clone()));
    let (ended, ()) = tokio::join!(relay, watch);
    ended.unwrap();
    let handled = store.0.lock().unwrap().clone();
    Outcome {
        letters: letters(&fresh).await,
        site,
        stream,
        handled,
    }
}

async fn letters(fresh: &Fresh) -> Vec<dead::DeadLetter> {
    let all = dead::Selection::default();
    dead::list(fresh.db(), &all, None, 10).await.unwrap()
}

const REVIEW: [&str; 8] = [
    "eventId",
    "e-1",
    "eventName",
    "review.created",
    "memberId",
    "42",
    "properties",
    r#"{"reviewId":1}"#,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_makes_events_of_a_strangers_entries() {
    let without_id: [&str; 4] = ["eventName", "search", "properties", r#"{"n":2}"#];
    let entries: [&[&str]; 7] = [
        &REVIEW,
        &REVIEW, // the same eventId: one event
        &without_id,
        &without_id, // another entry: another event
        &["eventName", "heartbeat"],
        &["payload", r#"{"n":3}"#],
        &[
            "content-type",
            "application/cloudevents+json",
            "data",
            r#"{"specversion":"1.0","id":"4","source":"/s","type":"activity.recorded.v1","data":{"n":4}}"#,
        ],
    ];
    let outcome = run(&entries, |subscriber| subscriber.reads(read_activity)).await;
    let expected = [
        json!({ "reviewId": 1 }),
        json!({ "n": 2 }),
        json!({ "n": 2 }),
        json!({ "n": 3 }),
        json!({ "n": 4 }),
    ];
    assert_eq!(outcome.payloads(), expected);
    let review = &outcome.handled[0];
    assert_eq!(
        (review.aggregate_id.as_str(), review.source.as_str()),
        ("42", "/tasteam")
    );
    assert_eq!(outcome.handled[3].source, outcome.stream, "the topic is the source");
    assert!(outcome.letters.is_empty(), "{:?}", outcome.letters);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_a_reader_cannot_read_is_a_dead_letter_with_its_reason_and_fields() {
    let odd: [&str; 4] = ["eventNaem", "review.created", "memberId", "42"];
    let outcome = run(&[&odd, &REVIEW], |subscriber| subscriber.reads(read_activity)).await;
    assert_eq!(outcome.payloads(), [json!({ "reviewId": 1 })]);
    let letter = &outcome.letters[0];
    assert_eq!(letter.error, "the field eventName is missing");
    assert_eq!(letter.entry.event.event_type, "postroom.unreadable.v1");
    let shown: Value = letter.entry.event.decode().unwrap();
    assert_eq!(
        shown["fields"],
        json!({ "eventNaem": "review.created", "memberId": "42" })
    );
    let copies = outcome.copies();
    for text in [
        "eventNaem\nreview.created",
        "postroom-error\nthe field eventName is missing",
    ] {
        assert!(copies.contains(text), "{copies}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_reader_a_strangers_entry_is_a_dead_letter_with_its_fields() {
    let outcome = run(&[&REVIEW], |mut subscriber| {
        subscriber.joins_at = postroom::Start::Beginning;
        subscriber
    })
    .await;
    let shown = outcome.letters[0].entry.event.payload.get();
    assert!(shown.contains("review.created"), "{shown}");
}

/// Nothing that a screen removes is in a dead letter, nor in its copy, whatever the reason of the dead letter is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_08_a_screen_cleans_what_is_stored_and_copied() {
    let unreadable: [&str; 4] = ["eventId", "e-2", "text", "SECRET of a review"];
    let rejected: [&str; 6] = [
        "eventId",
        "e-3",
        "eventName",
        "review.created",
        "properties",
        r#"{"reject":true,"text":"SECRET of a review"}"#,
    ];
    let broken: [&str; 4] = ["content-type", "application/cloudevents+json", "data", r#""SECRET""#];
    let handled: [&str; 4] = [
        "eventName",
        "review.created",
        "properties",
        r#"{"n":1,"text":"SECRET"}"#,
    ];
    let entries: [&[&str]; 4] = [&unreadable, &rejected, &broken, &handled];
    let outcome = run(&entries, |subscriber| {
        subscriber.reads(read_activity).screen(Arc::new(NoText))
    })
    .await;
    assert_eq!(outcome.payloads(), [json!({ "n": 1 })]);
    assert_eq!(outcome.letters.len(), 3);
    let stored = format!("{:?}", outcome.letters);
    let copies = outcome.copies();
    for shown in [&stored, &copies] {
        assert!(!shown.contains("SECRET"), "{shown}");
        assert!(shown.contains("e-2") && shown.contains("e-3"), "{shown}");
    }
    assert_eq!(copies.matches("postroom-error").count(), 3, "{copies}");
}
