//! Transactions: fencing, aborts and visibility.

use postroom::{Broker as _, Mode, Ordering, Receipt};
use postroom_kafka::{Kafka, Options};
use rdkafka::producer::{BaseRecord, Producer as _, ThreadedProducer};

use crate::publish::{deliver, entry, letters, name, numbers, topic};
use crate::site::KafkaSite;

#[tokio::test]
async fn a_zombie_is_fenced_and_says_so() {
    let (site, name) = (KafkaSite::shared(), name());
    site.create_with(&name, 2, &[]).await;
    let zombie = site.kafka.transactional(&name).publisher(topic(&name), Mode::Binary);
    assert_eq!(
        letters(&deliver(&*zombie, &[entry(1, "a", 1)], Ordering::Key).await),
        "+"
    );
    let elsewhere = Kafka::new(&Options::new(&site.url)).unwrap().transactional(&name);
    let owner = elsewhere.publisher(topic(&name), Mode::Binary);
    assert_eq!(
        letters(&deliver(&*owner, &[entry(2, "a", 1)], Ordering::Key).await),
        "+"
    );
    for _ in 0..2 {
        let receipts = deliver(&*zombie, &[entry(3, "a", 1), entry(4, "b", 1)], Ordering::Key).await;
        let Receipt::Unavailable { says: words, .. } = &receipts[0] else {
            panic!("{receipts:?}");
        };
        assert!(words.contains("fenced") && words.contains(&name), "{words}");
    }
    // The zombie does not fence the new owner.
    assert_eq!(
        letters(&deliver(&*owner, &[entry(5, "a", 1)], Ordering::Key).await),
        "+"
    );
    assert_eq!(numbers(&site, &name).await, [1, 2, 5]);
}

/// A relay was paused before its first batch, or before it replaced its producer, and its lease has expired meanwhile.
#[tokio::test]
async fn a_zombie_that_has_published_nothing_fences_nobody() {
    let (site, name) = (KafkaSite::shared(), name());
    site.create_with(&name, 2, &[]).await;
    let zombie = site.kafka.transactional(&name).publisher(topic(&name), Mode::Binary);
    let elsewhere = Kafka::new(&Options::new(&site.url)).unwrap().transactional(&name);
    let owner = elsewhere.publisher(topic(&name), Mode::Binary);
    assert_eq!(
        letters(&deliver(&*owner, &[entry(1, "a", 1)], Ordering::Key).await),
        "+"
    );
    let unleased = postroom::while_leased(|| false, async {
        deliver(&*zombie, &[entry(2, "a", 1)], Ordering::Key).await
    });
    let receipts = unleased.await;
    assert!(
        matches!(&receipts[..], [Receipt::Unavailable { says: words, .. }] if words.contains("lease")),
        "{receipts:?}"
    );
    assert_eq!(
        letters(&deliver(&*owner, &[entry(3, "a", 1)], Ordering::Key).await),
        "+"
    );
    assert_eq!(numbers(&site, &name).await, [1, 3]);
}

#[tokio::test]
async fn an_aborted_transaction_is_invisible() {
    let (site, name) = (KafkaSite::shared(), name());
    site.create_with(&name, 1, &[]).await;
    let mut config = site.client();
    config.set("transactional.id", &name);
    let aborts = name.clone();
    let abort = move || {
        let producer: ThreadedProducer<rdkafka::producer::DefaultProducerContext> = config.create().unwrap();
        let limit = std::time::Duration::from_secs(10);
        producer.init_transactions(limit).unwrap();
        producer.begin_transaction().unwrap();
        producer
            .send(BaseRecord::to(&aborts).key("a").payload("{\"n\":99}"))
            .map_err(|(error, _)| error)
            .unwrap();
        producer.flush(limit).unwrap();
        producer.abort_transaction(limit).unwrap();
    };
    tokio::task::spawn_blocking(abort).await.unwrap();
    let publisher = site.kafka.transactional(&name).publisher(topic(&name), Mode::Binary);
    let sent = [entry(1, "a", 1), entry(2, "b", 1)];
    assert_eq!(letters(&deliver(&*publisher, &sent, Ordering::Key).await), "++");
    assert_eq!(numbers(&site, &name).await, [1, 2]);
    let everything = site.read(&name, "read_uncommitted").await;
    assert_eq!(everything.len(), 3, "the aborted one is in the log");
    let mut member = site.join(&name, &name, postroom::Start::Beginning).await;
    let limit = std::time::Duration::from_secs(30);
    let mut came = Vec::new();
    while came.len() < 2 {
        let messages = tokio::time::timeout(limit, member.next(10)).await.unwrap().unwrap();
        came.extend(messages.iter().map(|message| message.body.clone()));
    }
    assert!(
        came.iter().all(|body| !String::from_utf8_lossy(body).contains("99")),
        "{came:?}"
    );
}

/// A transaction omits messages whose topic is missing, and contains the others.
#[tokio::test]
async fn a_missing_topic_holds_its_key_in_a_transaction() {
    let (site, name) = (KafkaSite::shared(), name());
    site.create_with(&format!("{name}-noted"), 2, &[]).await;
    let publisher = site
        .kafka
        .transactional(&name)
        .publisher(topic(&format!("{name}-{{domain}}")), Mode::Binary);
    let mut entries = [entry(1, "a", 1), entry(2, "a", 1), entry(3, "a", 1), entry(4, "b", 1)];
    entries[1].event.event_type = "suite.elsewhere.v1".to_owned();
    assert_eq!(letters(&deliver(&*publisher, &entries, Ordering::Key).await), "+-.+");
    assert_eq!(numbers(&site, &format!("{name}-noted")).await, [1, 4]);
}
