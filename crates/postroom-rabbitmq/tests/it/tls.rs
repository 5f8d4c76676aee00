//! TLS connections, accepted and refused.

#![expect(clippy::expect_used, reason = "a panic fails the test")]

use std::time::Duration;

use postroom::{Broker, ErrorKind, Join, Mode, Receipt, Start, Tls, Topic};
use postroom_rabbitmq::RabbitMq;
use postroom_testkit::certificate::Certificates;
use postroom_testkit::rabbitmq_server::{Server, rabbitmq_with};
use postroom_testkit::server::free_port;
use tokio::time::timeout;

use crate::site::{deliver, entry, name, number};

/// A RabbitMQ with TLS, and its address. With `is_mutual` it requires a client certificate.
async fn encrypted(certificates: &Certificates, is_mutual: bool) -> (Server, String) {
    let port = free_port().expect("a port");
    let verify = if is_mutual { "verify_peer" } else { "verify_none" };
    let settings = format!(
        "listeners.ssl.default = 127.0.0.1:{port}\n\
         ssl_options.cacertfile = {}\n\
         ssl_options.certfile = {}\n\
         ssl_options.keyfile = {}\n\
         ssl_options.verify = {verify}\n\
         ssl_options.fail_if_no_peer_cert = {is_mutual}\n",
        certificates.authority().display(),
        certificates.certificate().display(),
        certificates.key().display(),
    );
    let server = rabbitmq_with(&settings).await;
    (server, format!("amqps://guest:guest@127.0.0.1:{port}/%2f"))
}

async fn try_one(broker: &RabbitMq, topic: &str) -> Receipt {
    let publisher = broker.publisher(topic.parse::<Topic>().expect("a topic"), Mode::Binary);
    deliver(&publisher, &[entry(0, "a.b", "key")]).await.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_published_over_tls_is_received_over_tls() {
    let (certificates, others) = (Certificates::of("rabbitmq"), Certificates::of("rabbitmq"));
    let (_server, url) = encrypted(&certificates, true).await;
    let broker = RabbitMq::with_tls(&url, &certificates.mutual()).expect("an address");
    let topic = name("encrypted");
    let mut member = broker
        .subscribe(Join::new("group", std::slice::from_ref(&topic), Start::Beginning))
        .await
        .expect("joined");
    let publisher = broker.publisher(topic.parse::<Topic>().expect("a topic"), Mode::Binary);
    let entries: Vec<_> = (0..50).map(|n| entry(n, "a.b", &format!("key-{}", n % 5))).collect();
    let receipts = deliver(&publisher, &entries).await;
    assert!(
        receipts.iter().all(|receipt| *receipt == Receipt::Delivered),
        "{receipts:?}"
    );
    let mut came = Vec::new();
    while came.len() < 50 {
        let next = timeout(Duration::from_secs(30), member.next(100)).await.expect("more");
        let messages = next.expect("messages");
        came.extend(messages.iter().map(number));
        let marks: Vec<_> = messages.into_iter().map(|message| message.mark).collect();
        member.ack(&marks).await.expect("acknowledged");
    }
    came.sort_unstable();
    assert_eq!(came, (0..50).collect::<Vec<_>>());
    for (tls, why) in [
        (others.mutual(), "UnknownIssuer"),
        (Tls::default(), "UnknownIssuer"),
        (certificates.trusted(), ""), // no client certificate
    ] {
        let stranger = RabbitMq::with_tls(&url, &tls).expect("an address");
        let receipt = try_one(&stranger, &topic).await;
        let Receipt::Unavailable { says: said, .. } = &receipt else {
            panic!("refused, not {receipt:?}");
        };
        assert!(said.contains(why), "the error names the reason: {said}");
    }
}

#[test]
fn a_file_without_a_certificate_is_an_invalid_option() {
    for text in [
        "",
        "nothing",
        "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n",
    ] {
        let tls = Tls {
            authority: Some(text.to_owned()),
            identity: None,
        };
        let error = RabbitMq::with_tls("amqps://127.0.0.1", &tls).expect_err("no certificate");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
    }
}
