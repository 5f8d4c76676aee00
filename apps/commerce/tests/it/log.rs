//! What the log says of the shop's events.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postroom_testkit::fresh;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tracing_subscriber::EnvFilter;

use crate::dead::{foreign, letter};
use crate::shop::{PATIENCE, Shop};

/// Log lines as JSON.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// Waits for a line with these words; answers the level of the first, and its fields.
    async fn find(&self, words: &str) -> (String, Value) {
        let begun = Instant::now();
        loop {
            let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
            let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            let found = lines.into_iter().find(|line| line["fields"]["message"] == words);
            if let Some(found) = found {
                return (found["level"].as_str().unwrap().to_owned(), found["fields"].clone());
            }
            assert!(begun.elapsed() < PATIENCE, "nothing says {words:?}: {text}");
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// On one thread, so that the lines of this test are its own.
#[tokio::test]
async fn c_08_each_event_of_note_has_its_line_at_its_level() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_env_filter(EnvFilter::new("info,postroom=debug,commerce=debug"))
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let shop = Shop::open(fresh::sqlite().await, None).await;
    let lamp = shop.product(100, 1).await;
    foreign(
        &shop,
        "order.paid",
        "4711",
        json!({ "orderId": 4711, "paymentId": 1, "amount": 987_654_321 }),
    )
    .await;
    assert_eq!(shop.buy(7, &[(lamp, 1)]).await.0, 201);
    shop.until_counted(lamp, [0, 1, 0]).await;
    let letter = letter(&shop, "commerce-sales").await;
    shop.deliver_again().await;

    let (level, fields) = lines.find("entry failed and is tried again").await;
    assert_eq!(
        (level.as_str(), &fields["attempts"], &fields["after_ms"]),
        ("INFO", &json!(1), &json!(1000))
    );
    assert_eq!(fields["event"], json!(letter.entry.event.id));
    let (level, fields) = lines.find("entry became a dead letter").await;
    assert_eq!((level.as_str(), &fields["route"]), ("WARN", &json!("commerce-sales")));
    assert_eq!(fields["event"], json!(letter.entry.event.id));
    let (level, fields) = lines.find("event was handled before").await;
    assert_eq!((level.as_str(), &fields["group"]), ("DEBUG", &json!("commerce-sales")));
    let (level, fields) = lines.find("the stock is depleted; forgot what was cached").await;
    assert_eq!((level.as_str(), &fields["product"]), ("DEBUG", &json!(lamp)));
    let all = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert!(!all.contains("987654321"), "a payload is in the log");
}
