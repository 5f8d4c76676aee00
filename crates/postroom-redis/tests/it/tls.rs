//! TLS connections, accepted and refused.

use postroom::{ErrorKind, Ordering, Receipt, Tls};
use postroom_redis::{Options, Redis};
use postroom_testkit::certificate::Certificates;
use postroom_testkit::redis_server::{RedisServer, redis};
use postroom_testkit::server::free_port;

use crate::events::{assert_whole, deliver, entries, join, name, publish, publisher, receive};

/// A Redis with TLS, and its address. With `is_mutual` it requires a client certificate.
pub(crate) async fn encrypted(certificates: &Certificates, is_mutual: bool) -> (RedisServer, String) {
    let port = free_port().unwrap().to_string();
    let [authority, certificate, key] = [certificates.authority(), certificates.certificate(), certificates.key()]
        .map(|file| file.display().to_string());
    let server = redis(&[
        "--tls-port",
        &port,
        "--tls-ca-cert-file",
        &authority,
        "--tls-cert-file",
        &certificate,
        "--tls-key-file",
        &key,
        "--tls-auth-clients",
        if is_mutual { "yes" } else { "no" },
    ])
    .await;
    (server, format!("rediss://127.0.0.1:{port}/"))
}

fn open(url: &str, tls: Tls) -> Redis {
    let options = Options {
        tls,
        ..Options::default()
    };
    Redis::open(url, options).unwrap()
}

/// The receipt of one entry.
async fn try_one(broker: &Redis) -> Receipt {
    let to = publisher(broker, &name("orders"));
    deliver(&to, &entries(0, 1, 1, 10), Ordering::Key).await.remove(0)
}

#[tokio::test]
async fn what_is_published_over_tls_is_received_over_tls() {
    let certificates = Certificates::of("root");
    let (_server, url) = encrypted(&certificates, false).await;
    let broker = open(&url, certificates.trusted());
    let topic = name("orders");
    publish(&broker, &topic, &entries(0, 50, 5, 100)).await;
    let mut member = join(&broker, "group", &topic).await;
    assert_whole(&receive(&mut member, 50).await, 50, 5);
}

#[tokio::test]
async fn a_server_with_an_untrusted_certificate_is_refused() {
    let (certificates, others) = (Certificates::of("root"), Certificates::of("root"));
    let (_server, url) = encrypted(&certificates, false).await;
    for tls in [others.trusted(), Tls::default()] {
        let receipt = try_one(&open(&url, tls)).await;
        let Receipt::Unavailable { says: said, .. } = &receipt else {
            panic!("{receipt:?}");
        };
        assert!(said.contains("UnknownIssuer"), "the error names the reason: {said}");
    }
}

#[tokio::test]
async fn mutual_tls_sends_the_client_certificate() {
    let certificates = Certificates::of("root");
    let (_server, url) = encrypted(&certificates, true).await;
    assert_eq!(try_one(&open(&url, certificates.mutual())).await, Receipt::Delivered);
    let receipt = try_one(&open(&url, certificates.trusted())).await;
    assert!(matches!(receipt, Receipt::Unavailable { .. }), "{receipt:?}");
}

#[test]
fn a_file_without_a_certificate_is_an_invalid_option() {
    let tls = Tls {
        authority: Some("-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n".to_owned()),
        identity: None,
    };
    let options = Options {
        tls,
        ..Options::default()
    };
    let error = Redis::open("rediss://127.0.0.1/", options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
}
