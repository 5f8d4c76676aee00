//! Requests of a webhook, and the receipts for its responses.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use postroom::{Batch, Destination as _, Entry, Event, Mode, Ordering, Receipt};
use postroom_http::Webhook;
use sha2::Sha256;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::receiver::Receiver;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

mod suite {
    postroom_testkit::destination_suite!(super::structured, super::structured);
}

async fn structured() -> Receiver {
    Receiver::open(Mode::Structured, &[]).await
}

fn entry(event_type: &str) -> Entry {
    let payload = serde_json::value::RawValue::from_string(r#"{"n":1}"#.to_owned()).unwrap();
    Entry {
        id: 5,
        event: Event::new(event_type, "Order", "é 7", payload).unwrap(),
        created_at: postroom::clock::now(),
    }
}

async fn deliver(receiver: &Receiver, entry: &Entry) -> Receipt {
    let batch = Batch {
        entries: &[entry],
        ordering: Ordering::Key,
    };
    receiver.webhook.deliver(&batch).await.remove(0)
}

#[tokio::test]
async fn every_attempt_is_signed_anew_under_the_same_id() {
    let receiver = Receiver::open(Mode::Structured, &[SECRET]).await;
    let entry = entry("shop.order.paid.v1");
    assert_eq!(deliver(&receiver, &entry).await, Receipt::Delivered);
    assert_eq!(deliver(&receiver, &entry).await, Receipt::Delivered);
    let requests = receiver.requests.lock().unwrap();
    let header = |at: usize, name: &str| requests[at].0[name].to_str().unwrap().to_owned();
    let id = entry.event.id.to_string();
    assert_eq!([header(0, "webhook-id"), header(1, "webhook-id")], [id.clone(), id]);
    for at in 0..2 {
        let signed = [
            header(at, "webhook-id").as_bytes(),
            b".",
            header(at, "webhook-timestamp").as_bytes(),
            b".",
            &requests[at].1,
        ]
        .concat();
        let secret = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let mut mac = Hmac::<Sha256>::new_from_slice(&secret).unwrap();
        mac.update(&signed);
        let expected = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        assert_eq!(header(at, "webhook-signature"), expected);
    }
    let timestamp: i64 = header(0, "webhook-timestamp").parse().unwrap();
    assert!((postroom::clock::now().unix_timestamp() - timestamp).abs() < 60);
    assert_eq!(header(0, "content-type"), "application/cloudevents+json");
}

#[tokio::test]
async fn binary_mode_puts_attributes_into_headers() {
    let receiver = Receiver::open(Mode::Binary, &[]).await;
    assert_eq!(
        deliver(&receiver, &entry("shop.order.paid.v1")).await,
        Receipt::Delivered
    );
    let requests = receiver.requests.lock().unwrap();
    let (headers, body) = &requests[0];
    let header = |name: &str| headers[name].to_str().unwrap();
    assert_eq!(header("ce-type"), "shop.order.paid.v1");
    assert_eq!(header("ce-specversion"), "1.0");
    assert_eq!(header("ce-aggregateid"), "%C3%A9%207");
    assert_eq!(header("content-type"), "application/json");
    assert_eq!(body, br#"{"n":1}"#);
}

#[tokio::test]
async fn the_response_decides_the_receipt() {
    let receiver = structured().await;
    let refused = Receipt::Refused("422 Unprocessable Entity: no such thing".to_owned());
    assert_eq!(deliver(&receiver, &entry("shop.refused.v1")).await, refused);
    let unavailable = Receipt::unavailable("503 Service Unavailable: later");
    assert_eq!(deliver(&receiver, &entry("shop.down.v1")).await, unavailable);
    let busy = Receipt::Unavailable {
        says: "429 Too Many Requests: slowly".to_owned(),
        after: Some(Duration::from_secs(120)),
    };
    assert_eq!(deliver(&receiver, &entry("shop.busy.v1")).await, busy);
}

/// No server listens, or the server refuses and repeats the address: the secret in the address is in no receipt.
#[tokio::test]
async fn the_address_is_in_no_receipt() {
    let receiver = structured().await;
    let refusing = format!("http://{}/echo?token=sesame", receiver.address);
    let unavailable = "http://127.0.0.1:1/hook?token=sesame".to_owned();
    for (url, says) in [(refusing, "nothing at"), (unavailable, "post the event")] {
        let webhook = Webhook::new(&url, Mode::Structured, Vec::new(), Duration::from_secs(5)).unwrap();
        let entry = entry("shop.order.paid.v1");
        let batch = Batch {
            entries: &[&entry],
            ordering: Ordering::Key,
        };
        let receipts = webhook.deliver(&batch).await;
        let shown = format!("{webhook:?} {receipts:?}");
        assert!(
            shown.contains(says) && !shown.contains("sesame") && !shown.contains("echo"),
            "{shown}"
        );
    }
}

/// A receiver that answers one request of a connection and closes it on the next one, like a server with an idle timeout.
async fn closes_after_one_response(listener: TcpListener) {
    let ok = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let mut request = [0; 16 << 10];
    loop {
        let (mut connection, _) = listener.accept().await.unwrap();
        if connection.read(&mut request).await.unwrap() > 0 {
            connection.write_all(ok).await.unwrap();
            let _next = connection.read(&mut request).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_kept_connection_that_is_closed_is_no_refusal() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let webhook = Webhook::new(&url, Mode::Structured, Vec::new(), Duration::from_secs(10)).unwrap();
    let entry = entry("shop.order.paid.v1");
    let batch = Batch {
        entries: &[&entry],
        ordering: Ordering::Key,
    };
    let deliver_thrice = async {
        for _ in 0..3 {
            assert_eq!(webhook.deliver(&batch).await, [Receipt::Delivered]);
        }
    };
    tokio::select! {
        () = deliver_thrice => {}
        () = closes_after_one_response(listener) => {}
    }
}
