//! A memory alarm of RabbitMQ blocks publishers, but not consumers.

use std::time::{Duration, Instant};

use postroom::{Entry, Mode, Receipt};
use tokio::time::timeout;

use crate::site::{deliver, entry, name, number, private};

#[tokio::test(flavor = "multi_thread")]
async fn an_alarm_makes_publishers_wait_and_nobody_else() {
    let mut site = private().await;
    let topic = name("alarm");
    let mut member = site.join("all", &topic).await;
    let publisher = site.publisher(&topic, Mode::Binary);
    let entries: Vec<Entry> = (0..20).map(|n| entry(n, "a.b", &format!("key-{}", n % 4))).collect();
    assert_eq!(deliver(&publisher, &entries[..4]).await, vec![Receipt::Delivered; 4]);
    site.server()
        .control(&["set_vm_memory_high_watermark", "0.00001"])
        .await
        .unwrap();
    for _ in 0..2 {
        let start = Instant::now();
        let receipts = timeout(Duration::from_secs(30), deliver(&publisher, &entries[4..])).await;
        for receipt in receipts.expect("a call ends") {
            assert!(
                matches!(receipt, Receipt::Unavailable { .. } | Receipt::Held),
                "{receipt:?}"
            );
        }
        assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    }
    let mut came = Vec::new();
    while came.len() < 4 {
        let messages = timeout(Duration::from_secs(10), member.next(10))
            .await
            .expect("consuming continues");
        let messages = messages.unwrap();
        came.extend(messages.iter().map(number));
        let marks: Vec<_> = messages.iter().map(|message| message.mark.clone()).collect();
        member.ack(&marks).await.unwrap();
    }
    site.server()
        .control(&["set_vm_memory_high_watermark", "0.8"])
        .await
        .unwrap();
    let mut rest: Vec<Entry> = entries[4..].to_vec();
    let publishing = async {
        while !rest.is_empty() {
            let mut receipts = deliver(&publisher, &rest).await.into_iter();
            rest.retain(|_| receipts.next() != Some(Receipt::Delivered));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(Duration::from_secs(60), publishing)
        .await
        .expect("publishing continues");
    let receiving = async {
        while (0..20).any(|n| !came.contains(&n)) {
            came.extend(member.next(50).await.unwrap().iter().map(number));
        }
    };
    timeout(Duration::from_secs(60), receiving)
        .await
        .expect("everything is delivered");
    for key in 0..4 {
        let mut seen = std::collections::HashSet::new();
        let firsts: Vec<i64> = came
            .iter()
            .copied()
            .filter(|n| n % 4 == key && seen.insert(*n))
            .collect();
        assert!(firsts.is_sorted(), "key {key}: {came:?}");
    }
}
