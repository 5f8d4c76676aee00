//! Brokers and the daemon's own server with TLS, as they are configured.

use postroom_testkit::certificate::Certificates;
use postroom_testkit::rabbitmq_server::rabbitmq_with;
use postroom_testkit::redis_server::redis;
use postroom_testkit::server::free_port;
use tokio::process::Command;

use crate::broker::works;
use crate::harness::Place;

fn place(broker: &str, url: &str, certificates: &Certificates) -> Place {
    let place = Place::new();
    place.configure(&format!(
        "[modules.hello]\nbroker = \"{broker}\"\n[brokers.{broker}]\nurl = \"{url}\"\nca = \"{}\"\n",
        certificates.authority().display()
    ));
    place
}

#[tokio::test]
async fn it_works_through_redis_over_tls() {
    let certificates = Certificates::of("root");
    let port = free_port().unwrap().to_string();
    let (certificate, key) = (certificates.certificate(), certificates.key());
    let _server = redis(&[
        "--tls-port",
        &port,
        "--tls-cert-file",
        certificate.to_str().unwrap(),
        "--tls-key-file",
        key.to_str().unwrap(),
        "--tls-ca-cert-file",
        certificates.authority().to_str().unwrap(),
        "--tls-auth-clients",
        "no",
    ])
    .await;
    works(&place("redis", &format!("rediss://localhost:{port}/"), &certificates)).await;
}

#[tokio::test]
async fn it_works_through_rabbitmq_over_tls() {
    let certificates = Certificates::of("rabbitmq");
    let port = free_port().unwrap();
    let settings = format!(
        "listeners.ssl.default = 127.0.0.1:{port}\nssl_options.cacertfile = {}\nssl_options.certfile = {}\nssl_options.keyfile = {}\n",
        certificates.authority().display(),
        certificates.certificate().display(),
        certificates.key().display(),
    );
    let _server = rabbitmq_with(&settings).await;
    let url = format!("amqps://guest:guest@localhost:{port}/%2f");
    works(&place("rabbitmq", &url, &certificates)).await;
}

#[tokio::test]
async fn the_daemon_serves_https() {
    let certificates = Certificates::of("root");
    let place = Place::new();
    let configure = |certificate: &str| {
        let key = certificates.key();
        place.configure(&format!(
            "[server.tls]\ncertificate = \"{certificate}\"\nkey = \"{}\"\n",
            key.display()
        ));
    };
    configure("absent.pem");
    let refused = place.fails(&["up", "--listen", "127.0.0.1:0"]).await;
    assert!(refused.contains("read the certificate absent.pem"), "{refused}");
    configure(certificates.certificate().to_str().unwrap());
    let up = place.start(&["up"]).await;
    let url = format!("https://{}/health/live", up.address);
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--max-time", "60", "--cacert"]);
    curl.arg(certificates.authority())
        .args(["--write-out", " %{http_code} %{ssl_verify_result}", &url]);
    let said = curl.output().await.unwrap();
    let answer = String::from_utf8(said.stdout).unwrap();
    assert!(
        answer.ends_with(" 200 0"),
        "{answer} {}",
        String::from_utf8_lossy(&said.stderr)
    );
    let (code, body) = up.request("GET", "/health/live", "").await;
    assert_eq!(code, 400, "{body}");
    assert!(body.contains("use https://"), "{body}");
    up.stop().await;
}
