//! RabbitMQ is killed in the middle of a batch.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use postroom::{Destination, Entry, Mode, Receipt};
use tokio::time::timeout;

use crate::site::{deliver, entry, name, number, private};

const KEYS: i64 = 40;

/// Publishes in batches until everything is delivered, and reports the number of delivered entries.
async fn publish(publisher: &Arc<dyn Destination>, entries: &[Entry], confirmed: &tokio::sync::watch::Sender<usize>) {
    for batch in entries.chunks(200) {
        let mut rest = batch.to_vec();
        while !rest.is_empty() {
            let mut receipts = deliver(publisher, &rest).await.into_iter();
            let before = rest.len();
            rest.retain(|_| receipts.next() != Some(Receipt::Delivered));
            confirmed.send_modify(|count| *count += before - rest.len());
            if !rest.is_empty() {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_killed_in_the_middle_loses_nothing_that_it_confirmed() {
    let mut site = private().await;
    let topic = name("killed");
    drop(site.join("all", &topic).await);
    // RabbitMQ 3.10 writes the name of a new quorum queue to disk up to a second later (`names.dets`). A node that is killed
    // before that loses the queue.
    let synced = site
        .server()
        .control(&["eval", "[ok = dets:sync(T) || T <- dets:all()]."])
        .await;
    synced.expect("names are on disk");
    let publisher = site.publisher(&topic, Mode::Binary);
    let entries: Vec<Entry> = (0..4000)
        .map(|n| entry(n, "a.b", &format!("key-{}", n % KEYS)))
        .collect();
    let (confirmed, mut watch) = tokio::sync::watch::channel(0);
    let killing = async {
        for mark in [700, 2300] {
            watch.wait_for(|count| *count >= mark).await.expect("it is published");
            site.server().kill().expect("killed");
            site.server().restart().await.expect("started");
        }
    };
    let both = async { tokio::join!(publish(&publisher, &entries, &confirmed), killing) };
    timeout(Duration::from_secs(180), both)
        .await
        .expect("publishing continues");
    let mut member = site.join("all", &topic).await;
    let mut came: Vec<i64> = Vec::new();
    let receiving = async {
        while came.iter().collect::<BTreeSet<_>>().len() < entries.len() {
            let messages = member.next(500).await.unwrap();
            came.extend(messages.iter().map(number));
            let marks: Vec<_> = messages.iter().map(|message| message.mark.clone()).collect();
            member.ack(&marks).await.unwrap();
        }
    };
    let ended = timeout(Duration::from_secs(60), receiving).await;
    let missing = entries.len() - came.iter().collect::<BTreeSet<_>>().len();
    assert!(ended.is_ok(), "{missing} confirmed messages are lost");
    for key in 0..KEYS {
        let mut seen = HashSet::new();
        let firsts: Vec<i64> = came
            .iter()
            .copied()
            .filter(|n| n % KEYS == key && seen.insert(*n))
            .collect();
        assert!(firsts.is_sorted(), "key {key}: {firsts:?}");
    }
    println!("{} duplicates", came.len() - entries.len());
}
