//! A server with full memory.

use std::time::Duration;

use postroom::{Broker, Ordering, Receipt};
use postroom_redis::Options;
use tokio::time::timeout;

use crate::events::{
    PATIENCE, assert_whole, deliver, entries, join, marks, name, next, number, publish, publisher, receive,
};
use crate::site::{options, own};

/// No event is lost and keys stay in order. Groups continue, and trimming acknowledged entries frees memory.
#[tokio::test]
async fn a_full_server_takes_everything_once_groups_have_made_room() {
    let options = Options {
        keep: Duration::ZERO,
        partitions: 2,
        ..options()
    };
    let site = own(&["--maxmemory", "4mb", "--maxmemory-policy", "noeviction"], options).await;
    let (topic, group) = (name("orders"), name("group"));
    let mut member = join(&site.broker, &group, &topic).await;
    let sent = entries(0, 1000, 7, 10_000);
    let publisher = publisher(&site.broker, &topic);
    let (mut rest, mut came, mut times_full) = (sent.clone(), Vec::new(), 0);
    while !rest.is_empty() {
        let batch = &rest[..rest.len().min(50)];
        let receipts = deliver(&publisher, batch, Ordering::Key).await;
        let delivered = |at: usize| receipts.get(at) == Some(&Receipt::Delivered);
        let is_full = !receipts.iter().all(|receipt| *receipt == Receipt::Delivered);
        if is_full {
            times_full += 1;
            assert!(
                matches!(&receipts[..], [.., Receipt::Held | Receipt::Unavailable { .. }]),
                "{receipts:?}"
            );
            let words = receipts.iter().find_map(|receipt| match receipt {
                Receipt::Unavailable { says: words, .. } => Some(words.clone()),
                _ => None,
            });
            assert!(words.unwrap().contains("OOM"), "the receipt has the server's error");
        }
        let mut at = 0;
        rest.retain(|_| {
            at += 1;
            !delivered(at - 1)
        });
        if is_full {
            // Groups process existing entries although the memory is full.
            while came.len() < sent.len() - rest.len() {
                let messages = next(&mut member, 20).await;
                came.extend(messages.iter().map(number));
                member.ack(&marks(&messages)).await.unwrap();
            }
            assert!(site.broker.trim(&topic).await.unwrap() > 0, "trimming frees memory");
        }
    }
    while came.len() < sent.len() {
        let messages = next(&mut member, 100).await;
        came.extend(messages.iter().map(number));
        member.ack(&marks(&messages)).await.unwrap();
    }
    assert!(times_full > 1, "the memory was full {times_full} times");
    assert_eq!(came.len(), sent.len(), "no duplicates");
    assert_whole(&came, 1000, 7);
}

/// The server refuses no command of a group; otherwise a full server could never be emptied.
#[tokio::test]
async fn groups_work_on_while_the_memory_is_full() {
    const LEASE: Duration = Duration::from_millis(900);
    let options = Options {
        lease: LEASE,
        partitions: 2,
        ..options()
    };
    let site = own(&[], options).await;
    let topic = name("orders");
    let mut member = join(&site.broker, "group", &topic).await;
    publish(&site.broker, &topic, &entries(0, 60, 7, 10)).await;
    limit(&site, "1").await;
    let to = publisher(&site.broker, &topic);
    let receipts = deliver(&to, &entries(60, 62, 1, 10), Ordering::Key).await;
    assert!(
        matches!(&receipts[..], [Receipt::Unavailable { .. }, Receipt::Held]),
        "{receipts:?}"
    );
    let first = next(&mut member, 10).await;
    member.ack(&marks(&first)).await.unwrap();
    let mut came: Vec<i64> = first.iter().map(number).collect();
    next(&mut member, 10).await;
    drop(member);
    let mut heir = join(&site.broker, "group", &topic).await;
    came.extend(receive(&mut heir, 60 - came.len()).await);
    let quiet = timeout(LEASE * 2, heir.next(1)).await;
    assert!(quiet.is_err(), "leases are renewed: {quiet:?}");
    site.broker.bury(&crate::server::letter(&topic)).await.unwrap();
    limit(&site, "0").await;
    publish(&site.broker, &topic, &entries(60, 70, 7, 10)).await;
    came.extend(timeout(PATIENCE, receive(&mut heir, 10)).await.unwrap());
    assert_whole(&came, 70, 7);
}

async fn limit(site: &crate::site::Site, bytes: &str) {
    let set = redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes).clone();
    set.exec_async(&mut site.client().await).await.unwrap();
}
