//! The server on real sockets, with an authority and certificates that each test makes for itself.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use axum::routing::{get, post};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::server::client_address::ClientAddress;
use crate::server::serving::{Hosts, TlsFiles};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

const GET: &str = "GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

/// A server that ends with the test.
struct Running {
    address: SocketAddr,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

async fn run(serving: Serving, limits: impl FnOnce(&mut Limits)) -> Running {
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = tcp.local_addr().unwrap();
    let listener = HttpListener::new(tcp, serving).unwrap().limits(limits);
    let client = async |ClientAddress(address)| address.to_string();
    let large = async || "x".repeat(64 << 20);
    let routes = Router::new()
        .route("/", get(client))
        .route("/", post(async |body: String| body))
        .route("/large", get(large));
    let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
    tasks.spawn(listener.run(routes, stop.clone()));
    Running { address, stop, tasks }
}

impl Running {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Everything that the server answers to this text until it closes the connection.
    async fn tell(&self, request: &str) -> String {
        talk(self.connect().await, request).await.unwrap()
    }
}

async fn talk(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> io::Result<String> {
    let talk = async {
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    timeout(PATIENCE, talk).await.expect("the server answers in time")
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("")
}

/// The value of a header, if the answer has it.
fn header<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let head = answer.split("\r\n\r\n").next()?;
    let mut pairs = head.lines().filter_map(|line| line.split_once(": "));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// An authority, and the files of certificates that it has issued.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self {
            issuer: CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn files(&self) -> TlsFiles {
        TlsFiles {
            certificate: self.path("server.pem"),
            key: self.path("server.key"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A certificate for `localhost` in the files; answers its content.
    fn issue(&self) -> CertificateDer<'static> {
        let (certificate, key) = self.make();
        self.put("server.pem", &certificate.pem());
        self.put("server.key", &key.serialize_pem());
        certificate.der().clone()
    }

    fn make(&self) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(["localhost".to_owned()]).unwrap();
        (parameters.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// Replaces a file in one step, as tools for certificates do.
    fn put(&self, name: &str, content: &str) {
        let new = self.path("new");
        fs::write(&new, content).unwrap();
        fs::rename(new, self.path(name)).unwrap();
    }

    fn serving(&self) -> Serving {
        Serving {
            tls: Some(self.files()),
            ..Serving::default()
        }
    }

    /// A TLS connection of a client that trusts the authority alone.
    async fn connect(&self, to: &Running) -> TlsStream<TcpStream> {
        self.connect_with(to, &[&TLS13, &TLS12], b"http/1.1").await.unwrap()
    }

    async fn connect_with(
        &self,
        to: &Running,
        versions: &[&'static rustls::SupportedProtocolVersion],
        alpn: &[u8],
    ) -> io::Result<TlsStream<TcpStream>> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap();
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![alpn.to_vec()];
        let name = ServerName::try_from("localhost").unwrap();
        let handshake = TlsConnector::from(Arc::new(config)).connect(name, to.connect().await);
        timeout(PATIENCE, handshake).await.expect("a handshake in time")
    }

    /// The certificate that a new connection is shown.
    async fn shown(&self, by: &Running) -> CertificateDer<'static> {
        let stream = self.connect(by).await;
        stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
    }
}

#[tokio::test]
async fn it_serves_https_with_both_versions_of_tls() {
    let authority = Authority::new();
    authority.issue();
    let server = run(authority.serving(), |_| ()).await;
    for version in [&TLS12, &TLS13] {
        let stream = authority.connect_with(&server, &[version], b"http/1.1").await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
        let answer = talk(stream, GET).await.unwrap();
        assert!(answer.ends_with("\r\n\r\n127.0.0.1"), "{version:?}: {answer}");
    }
    let other = authority.connect_with(&server, &[&TLS13], b"h2").await;
    assert!(other.is_err(), "it does not speak HTTP/2");
}

#[tokio::test]
async fn a_replaced_certificate_is_served_without_a_restart() {
    let authority = Authority::new();
    let first = authority.issue();
    let server = run(authority.serving(), |limits| {
        limits.certificate_every = Duration::from_millis(10);
    })
    .await;
    assert_eq!(authority.shown(&server).await, first);
    let mut before = authority.connect(&server).await;
    let second = authority.issue();
    until_shown(&authority, &server, &second).await;
    assert_ne!(first, second);
    before
        .write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    assert!(before.read_u8().await.is_ok(), "open connections stay");
}

async fn until_shown(authority: &Authority, server: &Running, expected: &CertificateDer<'static>) {
    let deadline = Instant::now() + PATIENCE;
    while authority.shown(server).await != *expected {
        assert!(Instant::now() < deadline, "the new certificate is not served");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_new_pair_that_cannot_be_used_leaves_the_old_one_in_service() {
    let authority = Authority::new();
    let first = authority.issue();
    let mut certificate = Certificate::load(authority.files()).unwrap();
    let served = certificate.served();
    let in_service = Arc::clone(&served.borrow());
    let (_, foreign_key) = authority.make();
    let key = fs::read_to_string(authority.path("server.key")).unwrap();
    let pem = fs::read_to_string(authority.path("server.pem")).unwrap();
    for (name, content) in [
        ("server.key", foreign_key.serialize_pem()),
        ("server.pem", "garbage".to_owned()),
    ] {
        authority.put(name, &content);
        certificate.look().await;
        assert!(Arc::ptr_eq(&in_service, &served.borrow()), "{name}");
    }
    fs::remove_file(authority.path("server.key")).unwrap();
    certificate.look().await;
    assert!(Arc::ptr_eq(&in_service, &served.borrow()), "no key");
    authority.put("server.key", &key);
    authority.put("server.pem", &pem);
    certificate.look().await;
    let again = Arc::clone(&served.borrow());
    assert!(!Arc::ptr_eq(&in_service, &again), "the pair is back: {first:?}");
    certificate.look().await;
    assert!(Arc::ptr_eq(&again, &served.borrow()), "nothing has changed");
}

#[tokio::test]
async fn a_pair_that_cannot_be_used_ends_the_start() {
    let authority = Authority::new();
    authority.issue();
    let (_, foreign_key) = authority.make();
    let good = authority.files();
    let check = |certificate: &Path, key: &Path, expected: &[&str]| {
        let files = TlsFiles {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
        };
        let error = Certificate::load(files).unwrap_err().to_string();
        for part in expected {
            assert!(error.contains(part), "{part}: {error}");
        }
    };
    let absent = authority.path("absent.pem");
    check(
        &absent,
        &good.key,
        &["read the certificate", "absent.pem", "No such file"],
    );
    check(
        &good.certificate,
        &absent,
        &["read the key", "absent.pem", "No such file"],
    );
    check(
        &good.key,
        &good.key,
        &["server.key contains no certificate", "-----BEGIN CERTIFICATE-----"],
    );
    check(
        &good.certificate,
        &good.certificate,
        &["server.pem contains no private key"],
    );
    authority.put("other.key", &foreign_key.serialize_pem());
    check(
        &good.certificate,
        &authority.path("other.key"),
        &["other.key does not belong to", "server.pem"],
    );
    authority.put(
        "locked.key",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    );
    check(
        &good.certificate,
        &authority.path("locked.key"),
        &["locked.key is encrypted", "without a password"],
    );
    authority.put(
        "broken.pem",
        "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n",
    );
    check(&authority.path("broken.pem"), &good.key, &["broken.pem is broken PEM"]);
    authority.put("large.pem", &"x".repeat(2 << 20));
    check(&authority.path("large.pem"), &good.key, &["large.pem is larger than"]);
}

#[tokio::test]
async fn plain_http_is_told_to_use_https() {
    let authority = Authority::new();
    authority.issue();
    let server = run(authority.serving(), |_| ()).await;
    let body = "x".repeat(60_000);
    let post = format!(
        "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    for request in [GET, &post] {
        let answer = server.tell(request).await;
        assert_eq!(
            (status(&answer), header(&answer, "content-type")),
            ("400", Some("application/problem+json"))
        );
        let body = answer.split("\r\n\r\n").nth(1).unwrap();
        let problem: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(problem["detail"], "this port speaks HTTPS; use https://");
        assert_eq!(problem["code"], "https_only");
    }
}

#[tokio::test]
async fn a_silent_handshake_holds_up_nobody_and_ends() {
    let authority = Authority::new();
    authority.issue();
    let server = run(authority.serving(), |limits| {
        limits.handshake_time_max = Duration::from_secs(2);
        limits.handshakes_max = 2;
    })
    .await;
    let mut silent: Vec<TcpStream> = Vec::new();
    for _ in 0..20 {
        silent.push(server.connect().await);
    }
    let mut stuck = server.connect().await;
    stuck.write_all(&[22, 3, 1]).await.unwrap();
    let begun = Instant::now();
    let answer = talk(authority.connect(&server).await, GET).await.unwrap();
    assert_eq!(status(&answer), "200");
    assert!(begun.elapsed() < Duration::from_secs(2), "it has waited for the others");
    for mut stream in silent.into_iter().chain([stuck]) {
        let closed = timeout(PATIENCE, stream.read(&mut [0])).await.expect("it is closed");
        assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
    }
}

#[tokio::test]
async fn slow_headers_and_idle_connections_are_cut() {
    let server = run(Serving::default(), |limits| {
        limits.headers_time_max = Duration::from_millis(200);
    })
    .await;
    for begin in ["", "GET / HTTP/1.1\r\nhost: localh"] {
        assert_eq!(server.tell(begin).await, "", "{begin:?}");
    }
    let kept = server.tell("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert_eq!(kept.matches("200 OK").count(), 1, "answered, and then closed: {kept}");
}

#[tokio::test]
async fn a_slow_client_cannot_stretch_its_headers() {
    let server = run(Serving::default(), |limits| {
        limits.headers_time_max = Duration::from_millis(300);
    })
    .await;
    let (mut read, mut write) = server.connect().await.into_split();
    let drip = async move {
        write.write_all(b"GET / HTTP/1.1\r\nx: ").await?;
        loop {
            write.write_all(b"a").await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let mut answer = Vec::new();
    let cut = async { drop(read.read_to_end(&mut answer).await) };
    let ended: io::Result<()> = timeout(PATIENCE, async {
        tokio::select! {
            error = drip => error,
            () = cut => Ok(()),
        }
    })
    .await
    .expect("the connection is cut although bytes come");
    assert!(!String::from_utf8_lossy(&answer).contains("200"), "{ended:?}");
}

#[tokio::test]
async fn proxies_may_keep_connections_for_longer() {
    let serving = Serving {
        trusted_proxies: vec!["127.0.0.0/8".parse().unwrap()],
        ..Serving::default()
    };
    let server = run(serving, |limits| limits.headers_time_max = Duration::ZERO).await;
    let answer = server
        .tell(
            "GET / HTTP/1.1\r\nhost: localhost\r\nx-forwarded-for: 127.0.0.1, 203.0.113.9\r\nconnection: close\r\n\r\n",
        )
        .await;
    assert!(answer.ends_with("\r\n\r\n203.0.113.9"), "{answer}");
}

#[tokio::test]
async fn headers_have_limits() {
    let server = run(Serving::default(), |_| ()).await;
    let long = format!(
        "GET / HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n",
        "a".repeat(65 << 10)
    );
    let many = "x: a\r\n".repeat(101);
    let many = format!("GET / HTTP/1.1\r\nhost: localhost\r\n{many}\r\n");
    for request in [long, many] {
        let answer = talk(server.connect().await, &request).await;
        // The rest of a long header may meet a connection that is closed.
        assert!(
            answer.as_ref().map_or(true, |answer| status(answer) == "431"),
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn further_connections_wait_for_a_place() {
    let server = run(Serving::default(), |limits| limits.connections_max = 2).await;
    let (first, _second) = (server.connect().await, server.connect().await);
    let mut third = server.connect().await;
    third.write_all(GET.as_bytes()).await.unwrap();
    let early = timeout(Duration::from_millis(100), third.read_u8()).await;
    assert!(early.is_err(), "two are open: {early:?}");
    drop(first);
    let answer = talk(third, "").await.unwrap();
    assert_eq!(status(&answer), "200");
}

#[tokio::test]
async fn the_settings_say_how_many_connections_are_open_at_once() {
    let serving = Serving {
        connections_max: NonZeroUsize::new(1),
        ..Serving::default()
    };
    let server = run(serving, |_| ()).await;
    let first = server.connect().await;
    let mut second = server.connect().await;
    second.write_all(GET.as_bytes()).await.unwrap();
    let early = timeout(Duration::from_millis(100), second.read_u8()).await;
    assert!(early.is_err(), "one is open: {early:?}");
    drop(first);
    assert_eq!(status(&talk(second, "").await.unwrap()), "200");
}

#[tokio::test]
async fn a_client_that_takes_no_response_loses_its_connection() {
    let server = run(Serving::default(), |limits| {
        limits.connections_max = 1;
        limits.write_time_max = Duration::from_millis(200);
    })
    .await;
    let mut deaf = server.connect().await;
    deaf.write_all(b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    assert_eq!(status(&server.tell(GET).await), "200", "the place is free again");
}

#[tokio::test]
async fn other_hosts_and_foreign_pages_are_refused() {
    let server = run(Serving::default(), |_| ()).await;
    let check = async |headers: &str, expected: &str, code: &str| {
        let answer = server
            .tell(&format!("GET / HTTP/1.1\r\n{headers}connection: close\r\n\r\n"))
            .await;
        assert_eq!(status(&answer), expected, "{headers:?}: {answer}");
        let is_problem = header(&answer, "content-type") == Some("application/problem+json");
        assert!(
            code.is_empty() || (is_problem && answer.contains(&format!("\"code\":\"{code}\""))),
            "{answer}"
        );
        assert!(
            code.is_empty() || header(&answer, "x-content-type-options") == Some("nosniff"),
            "{answer}"
        );
    };
    check("host: localhost\r\n", "200", "").await;
    check(&format!("host: {}\r\n", server.address), "200", "").await;
    check("host: evil.example\r\n", "421", "misdirected").await;
    check("", "400", "host").await;
    check("host: localhost\r\norigin: https://evil.example\r\n", "403", "origin").await;
    check("host: localhost\r\norigin: http://localhost:3000\r\n", "200", "").await;
}

#[tokio::test]
async fn listed_origins_may_call_and_others_may_not() {
    let serving = Serving {
        hosts: Hosts::Any,
        origins: vec!["https://app.example.com".parse().unwrap()],
        ..Serving::default()
    };
    let server = run(serving, |_| ()).await;
    let preflight = async |origin: &str| {
        let asked = "access-control-request-method: POST\r\naccess-control-request-headers: authorization,ce-id\r\n";
        let head =
            format!("OPTIONS / HTTP/1.1\r\nhost: localhost\r\norigin: {origin}\r\n{asked}connection: close\r\n\r\n");
        server.tell(&head).await
    };
    let answer = preflight("https://app.example.com").await;
    let allowed = |name: &str| header(&answer, &format!("access-control-{name}")).unwrap_or("");
    assert_eq!(status(&answer), "200", "{answer}");
    assert_eq!(allowed("allow-origin"), "https://app.example.com");
    assert_eq!(allowed("allow-headers"), "authorization,ce-id");
    assert!(allowed("allow-methods").contains("POST"), "{answer}");
    assert_eq!((allowed("max-age"), allowed("allow-credentials")), ("3600", ""));
    for foreign in [
        "https://evil.example",
        "http://app.example.com",
        "https://app.example.com.evil.example",
        "null",
    ] {
        let answer = preflight(foreign).await;
        assert_eq!(
            header(&answer, "access-control-allow-origin"),
            None,
            "{foreign}: {answer}"
        );
    }
    let call = "GET / HTTP/1.1\r\nhost: localhost\r\norigin: https://app.example.com\r\nconnection: close\r\n\r\n";
    let answer = server.tell(call).await;
    assert_eq!(
        header(&answer, "access-control-allow-origin"),
        Some("https://app.example.com"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_stop_lets_a_request_that_has_begun_end() {
    let mut server = run(Serving::default(), |_| ()).await;
    let _idle = server.connect().await;
    let mut begun = server.connect().await;
    let head = "POST / HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n";
    begun.write_all(head.as_bytes()).await.unwrap();
    let mut go_on = [0; 25];
    begun.read_exact(&mut go_on).await.unwrap();
    assert_eq!(
        &go_on, b"HTTP/1.1 100 Continue\r\n\r\n",
        "its handler waits for the body"
    );
    server.stop.cancel();
    let answer = talk(begun, "body").await.unwrap();
    assert!(answer.ends_with("\r\n\r\nbody"), "{answer}");
    let ended = timeout(PATIENCE, server.tasks.join_next()).await;
    assert!(matches!(ended, Ok(Some(Ok(())))), "the server ends: {ended:?}");
}
