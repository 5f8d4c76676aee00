//! Refused messages, the wire format as a plain client reads it, and a broker that is killed during a batch.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use postroom::{
    Batch, Broker as _, Destination, Entry, Envelope, Event, Join, Letter, Mode, Ordering, Origin, Receipt, Topic,
};
use postroom_testkit::broker_suite::Site as _;
use rdkafka::Message as _;
use rdkafka::message::OwnedMessage;
use uuid::Uuid;

use crate::site::{KafkaSite, headers};

/// An entry with a payload of about this many bytes.
pub(crate) fn entry(id: i64, key: &str, bytes: usize) -> Entry {
    let payload = format!("{{\"n\":{id},\"fill\":\"{}\"}}", "x".repeat(bytes));
    let payload = serde_json::value::RawValue::from_string(payload).unwrap();
    Entry {
        id,
        event: Event {
            payload, // bypasses the constructor and its size limit
            ..Event::new(
                "suite.noted.v1",
                "suite",
                key,
                serde_json::value::RawValue::NULL.to_owned(),
            )
            .unwrap()
        },
        created_at: postroom::clock::now(),
    }
}

pub(crate) fn name() -> String {
    format!("kafka-{}", Uuid::now_v7())
}

pub(crate) fn topic(name: &str) -> Topic {
    name.parse().unwrap()
}

pub(crate) async fn deliver(to: &dyn Destination, entries: &[Entry], ordering: Ordering) -> Vec<Receipt> {
    let entries: Vec<&Entry> = entries.iter().collect();
    let batch = Batch {
        entries: &entries,
        ordering,
    };
    to.deliver(&batch).await
}

/// Receipts as one character each: `+` delivered, `!` rejected, `-` refused, `.` held, `?` unavailable.
pub(crate) fn letters(receipts: &[Receipt]) -> String {
    let letter = |receipt: &Receipt| match receipt {
        Receipt::Delivered => '+',
        Receipt::Rejected(_) => '!',
        Receipt::Refused(_) => '-',
        Receipt::Held => '.',
        Receipt::Unavailable { .. } => '?',
    };
    receipts.iter().map(letter).collect()
}

pub(crate) fn number(message: &OwnedMessage) -> i64 {
    let value: serde_json::Value = serde_json::from_slice(message.payload().unwrap()).unwrap();
    value["n"].as_i64().unwrap()
}

pub(crate) async fn numbers(site: &KafkaSite, topic: &str) -> Vec<i64> {
    let mut numbers: Vec<i64> = site.read(topic, "read_committed").await.iter().map(number).collect();
    numbers.sort_unstable();
    numbers
}

#[tokio::test]
async fn a_missing_topic_is_named_with_what_to_do() {
    let (site, name) = (KafkaSite::shared(), name());
    let publisher = site.kafka.publisher(topic(&name), Mode::Binary);
    let receipts = deliver(&*publisher, &[entry(1, "a", 1), entry(2, "a", 1)], Ordering::Key).await;
    let Receipt::Refused(words) = &receipts[0] else {
        panic!("{receipts:?}");
    };
    assert!(
        words.contains(&name) && words.contains("`postroom topics apply`"),
        "{words}"
    );
    assert_eq!(receipts[1], Receipt::Held);
    let error = site
        .kafka
        .subscribe(Join::new("g", std::slice::from_ref(&name), postroom::Start::Head))
        .await;
    let words = error.unwrap_err().report();
    assert!(
        words.contains(&name) && words.contains("`postroom topics apply`"),
        "{words}"
    );
    // The lookups did not create the topic.
    let plan = site.kafka.plan(&[crate::topics::spec(&name, 1)]).await.unwrap();
    assert!(plan[0].to_string().starts_with("create"), "{plan:?}");
}

/// A message too large for the driver or for the topic is rejected alone; later messages of its key are held and not sent.
async fn too_large(site: &KafkaSite, limit: &str, bytes: usize) {
    let name = name();
    site.create_with(&name, 2, &[("max.message.bytes", limit)]).await;
    let entries: Vec<Entry> = (0..60)
        .map(|n| {
            let bytes = if n == 20 { bytes } else { 200 };
            entry(n, &format!("key-{}", n % 4), bytes)
        })
        .collect();
    for (ordering, is_held) in [
        (Ordering::Key, (|n| n > 20 && n % 4 == 0) as fn(i64) -> bool),
        (Ordering::None, |_| false),
        (Ordering::Strict, |n| n > 20),
    ] {
        let before = numbers(site, &name).await.len();
        let publisher = site.kafka.publisher(topic(&name), Mode::Binary);
        let receipts = deliver(&*publisher, &entries, ordering).await;
        let expected: String = (0..60)
            .map(|n| match n {
                20 => '!',
                n if is_held(n) => '.',
                _ => '+',
            })
            .collect();
        assert_eq!(letters(&receipts), expected, "{ordering:?} {receipts:?}");
        let arrived = numbers(site, &name).await.len() - before;
        assert_eq!(arrived, expected.matches('+').count(), "{ordering:?}");
        // The publisher is still usable.
        let more = deliver(&*publisher, &entries[..5], ordering).await;
        assert_eq!(letters(&more), "+++++");
    }
    assert_ordered(&site.read(&name, "read_committed").await);
}

/// Numbers of the same key ascend within each delivery.
fn assert_ordered(messages: &[OwnedMessage]) {
    let mut last: HashMap<Vec<u8>, i64> = HashMap::new();
    for message in messages {
        let (key, number) = (message.key().unwrap().to_vec(), number(message));
        let before = last.insert(key, number);
        // Every delivery starts with a number below 5.
        assert!(
            before.is_none_or(|before| before < number || number < 5),
            "{before:?} {number}"
        );
    }
}

#[tokio::test]
async fn what_is_too_large_for_the_driver_holds_only_its_key() {
    too_large(&KafkaSite::shared(), "1048588", 1_100_000).await;
}

#[tokio::test]
async fn what_is_too_large_for_the_topic_holds_only_its_key() {
    too_large(&KafkaSite::shared(), "3000", 5000).await;
}

/// Requests in flight do not overtake an earlier request that the broker refuses. The driver alone would send them again.
#[tokio::test]
async fn what_is_under_way_does_not_pass_what_is_refused() {
    let (site, name) = (KafkaSite::shared(), name());
    site.create_with(&name, 1, &[("max.message.bytes", "1020000")]).await;
    let entries: Vec<Entry> = (0..300)
        .map(|n| {
            let bytes = if n == 60 { 1_030_000 } else { 20_000 };
            entry(n, &format!("key-{}", n % 2), bytes)
        })
        .collect();
    let publisher = site.kafka.publisher(topic(&name), Mode::Binary);
    let receipts = deliver(&*publisher, &entries, Ordering::Key).await;
    let expected = |n: i64| match n {
        60 => '!',
        n if n > 60 && n % 2 == 0 => '.',
        _ => '+',
    };
    assert_eq!(
        letters(&receipts),
        (0..300).map(expected).collect::<String>(),
        "{receipts:?}"
    );
    let arrived: Vec<i64> = site.read(&name, "read_committed").await.iter().map(number).collect();
    for key in 0..2 {
        let of_key: Vec<i64> = arrived.iter().copied().filter(|n| n % 2 == key).collect();
        let sent: Vec<i64> = (0..300).filter(|n| n % 2 == key && expected(*n) == '+').collect();
        assert_eq!(of_key, sent, "key {key}, each once and in order");
    }
}

#[tokio::test]
async fn what_is_too_large_is_found_in_a_transaction_too() {
    too_large(&KafkaSite::shared().in_transactions(), "3000", 5000).await;
    too_large(&KafkaSite::shared().in_transactions(), "1048588", 1_100_000).await;
}

#[tokio::test]
async fn a_plain_client_reads_cloud_events_keyed_by_aggregate() {
    let site = KafkaSite::shared();
    for mode in [Mode::Binary, Mode::Structured] {
        let name = name();
        site.create_with(&name, 3, &[]).await;
        let mut sent = entry(7, "a key / with: 문자", 3);
        sent.event = sent.event.header("tenant", "acme é");
        let publisher = site.kafka.publisher(topic(&name), mode.clone());
        assert_eq!(
            letters(&deliver(&*publisher, &[sent.clone()], Ordering::Key).await),
            "+"
        );
        let messages = site.read(&name, "read_committed").await;
        assert_eq!(messages.len(), 1);
        assert_eq!(messages[0].key(), Some("a key / with: 문자".as_bytes()));
        let (headers, value) = (headers(&messages[0]), messages[0].payload().unwrap());
        let envelope = match mode {
            Mode::Own(_) => unreachable!("no CloudEvent"),
            Mode::Binary => {
                assert_eq!(headers["content-type"], "application/json");
                assert!(!headers.contains_key("ce_datacontenttype"));
                assert_eq!(headers["ce_specversion"], "1.0");
                assert_eq!(headers["ce_id"], sent.event.id.to_string());
                assert_eq!(headers["ce_tenant"], "acme é");
                assert_eq!(value, sent.event.payload.get().as_bytes());
                let attributes = headers
                    .iter()
                    .filter_map(|(k, v)| Some((k.strip_prefix("ce_")?.to_owned(), v.clone())));
                Envelope::from_binary(attributes.collect(), value).unwrap()
            }
            Mode::Structured => {
                assert_eq!(headers["content-type"], "application/cloudevents+json; charset=UTF-8");
                assert_eq!(headers.len(), 1);
                Envelope::from_structured(value).unwrap()
            }
        };
        assert_eq!(envelope.into_event().unwrap().id, sent.event.id);
    }
}

/// Keys map to the same partitions as in other clients: `murmur2(key) & 0x7fffffff % partitions`.
#[tokio::test]
async fn keys_have_the_partitions_that_other_clients_give_them() {
    let (site, name) = (KafkaSite::shared(), name());
    site.create_with(&name, 7, &[]).await;
    let keys = [
        "21",
        "foobar",
        "a-little-bit-long-string",
        "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
    ];
    let hashes: [i32; 4] = [-973_932_308, -790_332_482, -985_981_536, -58_897_971];
    let entries: Vec<Entry> = keys.iter().zip(0..).map(|(key, n)| entry(n, key, 1)).collect();
    let publisher = site.kafka.publisher(topic(&name), Mode::Binary);
    assert_eq!(letters(&deliver(&*publisher, &entries, Ordering::Key).await), "++++");
    for message in site.read(&name, "read_committed").await {
        let at = usize::try_from(number(&message)).unwrap();
        assert_eq!(message.partition(), (hashes[at] & 0x7fff_ffff) % 7, "{}", keys[at]);
    }
}

#[tokio::test]
async fn a_letter_without_its_topic_is_an_error_that_names_it() {
    let (site, name) = (KafkaSite::shared(), name());
    site.create_with(&name, 1, &[]).await;
    let error = site.kafka.bury(&letter(&name, b"{}".to_vec())).await.unwrap_err();
    assert_eq!(error.kind(), postroom::ErrorKind::NotFound);
    assert!(error.report().contains(&format!("{name}.DLT")), "{error:?}");
}

#[tokio::test]
async fn a_letter_that_is_too_large_is_buried_without_its_body() {
    let (site, name) = (KafkaSite::shared(), name());
    site.create_with(&format!("{name}.DLT"), 1, &[("max.message.bytes", "2000")])
        .await;
    site.kafka.bury(&letter(&name, vec![b'x'; 5000])).await.unwrap();
    let letters = site.read(&format!("{name}.DLT"), "read_committed").await;
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].key(), Some(&b"42"[..]));
    let headers = headers(&letters[0]);
    assert!(headers["postroom-body"].contains("too large"), "{headers:?}");
    assert_eq!(headers["postroom-origin-topic"], name);
}

fn letter(topic: &str, body: Vec<u8>) -> Letter {
    Letter {
        event_id: Uuid::nil(),
        group: "g".to_owned(),
        origin: Origin {
            topic: topic.to_owned(),
            place: "partition 0, offset 1".to_owned(),
        },
        content_type: Some("application/json".to_owned()),
        attributes: BTreeMap::from([("aggregateid".to_owned(), "42".to_owned())]),
        fields: postroom::Fields::default(),
        body,
        error: "why".to_owned(),
        attempts: 3,
    }
}

/// The broker is killed repeatedly while a publisher sends: no message is lost, and every key stays in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_killed_in_the_middle_of_a_batch_loses_nothing() {
    let (mut site, name) = (KafkaSite::private().await, name());
    site.create_with(&name, 3, &[]).await;
    let publisher = site.kafka.publisher(topic(&name), Mode::Binary);
    let entries: Vec<Entry> = (0..6000).map(|n| entry(n, &format!("key-{}", n % 7), 300)).collect();
    let publish = async {
        for batch in entries.chunks(500) {
            publish_all(&*publisher, batch).await;
        }
    };
    let disturb = async {
        for pause_ms in [30, 400] {
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            site.server.as_mut().unwrap().kill().unwrap();
            site.start().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(240), async { tokio::join!(publish, disturb) })
        .await
        .unwrap();
    let mut firsts: HashMap<i64, Vec<i64>> = HashMap::new();
    let mut seen = std::collections::BTreeSet::new();
    for message in site.read(&name, "read_committed").await {
        let n = number(&message);
        if seen.insert(n) {
            firsts.entry(n % 7).or_default().push(n);
        }
    }
    assert!(seen.iter().copied().eq(0..6000), "{} of 6000", seen.len());
    for (key, numbers) in firsts {
        assert!(numbers.is_sorted(), "key {key}: {numbers:?}");
    }
}

/// Publishes like a relay: retries undelivered entries in order.
async fn publish_all(publisher: &dyn Destination, entries: &[Entry]) {
    let mut rest: Vec<&Entry> = entries.iter().collect();
    while !rest.is_empty() {
        let batch = Batch {
            entries: &rest,
            ordering: Ordering::Key,
        };
        let receipts = publisher.deliver(&batch).await;
        for (entry, receipt) in rest.iter().zip(&receipts) {
            let is_expected = matches!(
                receipt,
                Receipt::Delivered | Receipt::Held | Receipt::Unavailable { .. }
            );
            assert!(is_expected, "{}: {receipt:?}", entry.id);
        }
        let mut answers = receipts.iter();
        rest.retain(|_| answers.next() != Some(&Receipt::Delivered));
        if !rest.is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
