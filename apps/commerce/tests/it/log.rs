//! The log lines about the shop's events.

use std::cell::RefCell;
use std::io::Write;
use std::sync::Once;

use postroom_testkit::fresh;
use postroom_testkit::own_topics::OwnTopics;
use postroom_testkit::wait::until_some;
use serde_json::{Value, json};
use tracing_subscriber::EnvFilter;

use crate::dead::{foreign, letter};
use crate::shop::{Shop, TOPICS};

thread_local! {
    /// The log of this thread. Each test has its own thread.
    static LINES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Writes log lines to the buffer of the thread that logs them.
struct Lines;

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LINES.with_borrow_mut(|lines| lines.write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// Installs one log subscriber for the whole process. A per-thread subscriber does not work: `tracing` caches the
    /// interest of a call site for the first thread that reaches it.
    fn keep() {
        static KEPT: Once = Once::new();
        KEPT.call_once(|| {
            tracing_subscriber::fmt()
                .json()
                .with_env_filter(EnvFilter::new("info,postroom=debug,commerce=debug"))
                .with_writer(|| Lines)
                .init();
        });
    }

    fn text() -> String {
        LINES.with_borrow(|lines| String::from_utf8(lines.clone()).unwrap())
    }

    /// Waits for a line that contains these words. Returns the level of the first such line and its fields.
    async fn find(words: &str) -> (String, Value) {
        let found = until_some(&format!("the log contains {words:?}"), || async {
            let text = Lines::text();
            let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            lines.find(|line| line["fields"]["message"] == words)
        })
        .await;
        (found["level"].as_str().unwrap().to_owned(), found["fields"].clone())
    }
}

// Each test runs on one thread, so its buffer holds only its own lines.

#[tokio::test]
async fn c_08_each_event_of_note_has_its_line_at_its_level_sqlite() {
    each_event_of_note_has_its_line_at_its_level(Shop::here(fresh::sqlite().await, None).await).await;
}

#[tokio::test]
async fn c_08_each_event_of_note_has_its_line_at_its_level_postgres_through_kafka() {
    let topics = OwnTopics::create(&TOPICS).await;
    let shop = Shop::here(fresh::postgres().await, Some(topics)).await;
    each_event_of_note_has_its_line_at_its_level(shop).await;
}

async fn each_event_of_note_has_its_line_at_its_level(shop: Shop) {
    Lines::keep();
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

    let (level, fields) = Lines::find("entry failed and is tried again").await;
    assert_eq!(
        (level.as_str(), &fields["attempts"], &fields["after_ms"]),
        ("INFO", &json!(1), &json!(1000))
    );
    assert_eq!(fields["event"], json!(letter.entry.event.id));
    let (level, fields) = Lines::find("entry became a dead letter").await;
    assert_eq!((level.as_str(), &fields["route"]), ("WARN", &json!("commerce-sales")));
    assert_eq!(fields["event"], json!(letter.entry.event.id));
    let (level, fields) = Lines::find("event was handled before").await;
    assert_eq!((level.as_str(), &fields["group"]), ("DEBUG", &json!("commerce-sales")));
    let (level, fields) = Lines::find("the stock is depleted; forgot what was cached").await;
    assert_eq!((level.as_str(), &fields["product"]), ("DEBUG", &json!(lamp)));
    assert!(!Lines::text().contains("987654321"), "a payload is in the log");
}
