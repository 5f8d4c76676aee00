//! A server whose memory is full.

use std::time::Duration;

use postroom::{Ordering, Receipt};
use postroom_redis::Options;

use crate::events::{assert_whole, deliver, entries, join, marks, name, next, number, publisher};
use crate::site::{options, own};

/// Nothing is lost and keys stay in order; groups go on, and what they have done makes room.
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
                matches!(&receipts[..], [.., Receipt::Held | Receipt::Unavailable(_)]),
                "{receipts:?}"
            );
            let words = receipts.iter().find_map(|receipt| match receipt {
                Receipt::Unavailable(words) => Some(words.clone()),
                _ => None,
            });
            assert!(words.unwrap().contains("OOM"), "the words of the server are kept");
        }
        let mut at = 0;
        rest.retain(|_| {
            at += 1;
            !delivered(at - 1)
        });
        if is_full {
            // What is there is worked although the memory is full.
            while came.len() < sent.len() - rest.len() {
                let messages = next(&mut member, 20).await;
                came.extend(messages.iter().map(number));
                member.ack(&marks(&messages)).await.unwrap();
            }
            assert!(site.broker.trim(&topic).await.unwrap() > 0, "room is made");
        }
    }
    while came.len() < sent.len() {
        let messages = next(&mut member, 100).await;
        came.extend(messages.iter().map(number));
        member.ack(&marks(&messages)).await.unwrap();
    }
    assert!(times_full > 1, "the memory was full {times_full} times");
    assert_eq!(came.len(), sent.len(), "nothing came twice");
    assert_whole(&came, 1000, 7);
}
