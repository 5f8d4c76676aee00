//! Responses that last long, on real sockets.

use std::sync::Mutex;

use axum::extract::Request;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::*;
use crate::server::LongLived;

const PATIENCE: Duration = Duration::from_secs(20);
const LARGE: usize = 8 << 20;
const STREAM: &str = "GET /stream HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// A server whose stream shows what is sent here, until the sender is dropped.
struct Running {
    address: SocketAddr,
    text: mpsc::Sender<String>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

async fn run(limits: impl FnOnce(&mut Limits)) -> Running {
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = tcp.local_addr().unwrap();
    let listener = HttpListener::new(tcp, Serving::default()).unwrap().limits(limits);
    let (text, texts) = mpsc::channel(8);
    let texts = Arc::new(Mutex::new(Some(texts)));
    let routes = Router::new()
        .route("/", get(async || "plain"))
        .route("/large", get(async || "x".repeat(LARGE)))
        .route("/upgrade", get(upgrade))
        .route(
            "/stream",
            get(async move || match texts.lock().unwrap().take() {
                Some(texts) => show(texts),
                None => "taken".into_response(),
            }),
        );
    let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
    tasks.spawn(listener.run(routes, stop.clone()));
    Running {
        address,
        text,
        stop,
        tasks,
    }
}

fn show(texts: mpsc::Receiver<String>) -> Response {
    let next =
        |mut texts: mpsc::Receiver<String>| async { texts.recv().await.map(|text| (Ok::<_, Infallible>(text), texts)) };
    let mut response = Body::from_stream(stream::unfold(texts, next)).into_response();
    response.extensions_mut().insert(LongLived);
    response
}

/// A protocol of its own that says nothing and ends with its client.
#[expect(clippy::disallowed_methods, reason = "it ends with its client")]
async fn upgrade(request: Request) -> Response {
    drop(tokio::spawn(async move {
        let mut upgraded = TokioIo::new(hyper::upgrade::on(request).await.unwrap());
        tokio::io::copy(&mut upgraded, &mut tokio::io::sink()).await.unwrap();
    }));
    let headers = [(header::CONNECTION, "upgrade"), (header::UPGRADE, "silence")];
    (axum::http::StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

impl Running {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn say(&self, text: &str) {
        timeout(PATIENCE, self.text.send(text.to_owned()))
            .await
            .unwrap()
            .unwrap();
    }
}

/// Reads until the text ends with this.
async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut text = Vec::new();
    let read = async {
        while !text.ends_with(end.as_bytes()) {
            let count = stream.read_buf(&mut text).await.unwrap();
            assert_ne!(count, 0, "it ended: {}", String::from_utf8_lossy(&text));
        }
    };
    timeout(PATIENCE, read).await.expect("it is answered in time");
    String::from_utf8(text).unwrap()
}

async fn read_all(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut text))
        .await
        .unwrap()
        .unwrap();
    text
}

#[tokio::test]
async fn a_long_response_shows_each_part_at_once_and_ends_with_its_connection() {
    let Running { address, text, .. } = &mut run(|_| ()).await;
    let mut client = TcpStream::connect(*address).await.unwrap();
    client.write_all(STREAM.as_bytes()).await.unwrap();
    let head = read_until(&mut client, "\r\n\r\n").await;
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("transfer-encoding: chunked"),
        "{head}"
    );
    assert!(head.contains("\r\ndate: "), "{head}");
    text.send("first".to_owned()).await.unwrap();
    assert_eq!(read_until(&mut client, "first\r\n").await, "5\r\nfirst\r\n");
    text.send(String::new()).await.unwrap(); // an empty chunk would end the body
    let long = "x".repeat(300);
    text.send(long.clone()).await.unwrap();
    assert_eq!(read_until(&mut client, "x\r\n").await, format!("12c\r\n{long}\r\n"));
    client.write_all(STREAM.as_bytes()).await.unwrap(); // nobody answers it
    text.send("last".to_owned()).await.unwrap();
    assert_eq!(read_until(&mut client, "last\r\n").await, "4\r\nlast\r\n");
    *text = mpsc::channel(1).0;
    assert_eq!(read_all(&mut client).await, "0\r\n\r\n");
}

#[tokio::test]
async fn what_was_answered_before_on_the_connection_comes_first_and_whole() {
    let running = run(|_| ()).await;
    running.say("text").await;
    let mut client = running.connect().await;
    // All requests at once: the head of the stream waits behind megabytes that nobody reads yet.
    let requests =
        format!("GET / HTTP/1.1\r\nhost: localhost\r\n\r\nGET /large HTTP/1.1\r\nhost: localhost\r\n\r\n{STREAM}");
    client.write_all(requests.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let answers = read_until(&mut client, "4\r\ntext\r\n").await;
    let parts: Vec<_> = answers.split("HTTP/1.1 200 OK\r\n").collect();
    assert_eq!(parts.len(), 4, "three answers");
    assert!(parts[1].ends_with("\r\n\r\nplain"), "{}", parts[1]);
    assert!(parts[2].ends_with(&"x".repeat(LARGE)), "the large one is whole");
    assert!(parts[3].ends_with("\r\n\r\n4\r\ntext\r\n"), "{}", parts[3]);
}

#[tokio::test]
async fn clients_that_cannot_take_chunks_and_questions_for_the_head_get_plain_responses() {
    let mut running = run(|_| ()).await;
    let mut old = running.connect().await;
    running.say("text").await;
    old.write_all(b"GET /stream HTTP/1.0\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    running.text = mpsc::channel(1).0;
    let answer = read_all(&mut old).await;
    assert!(
        answer.ends_with("\r\n\r\ntext") && !answer.contains("chunked"),
        "{answer}"
    );

    let running = run(|_| ()).await;
    let mut client = running.connect().await;
    client
        .write_all(b"HEAD /stream HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    read_until(&mut client, "\r\n\r\n").await;
    client
        .write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    read_until(&mut client, "plain").await;
}

#[tokio::test]
async fn a_client_that_goes_ends_its_long_response() {
    let running = run(|_| ()).await;
    let mut client = running.connect().await;
    client.write_all(STREAM.as_bytes()).await.unwrap();
    read_until(&mut client, "\r\n\r\n").await;
    assert!(!running.text.is_closed());
    drop(client);
    timeout(PATIENCE, running.text.closed())
        .await
        .expect("its body is dropped");
}

#[tokio::test]
async fn a_client_that_takes_nothing_loses_its_long_response() {
    let running = run(|limits| limits.write_time_max = Duration::from_millis(300)).await;
    let mut client = running.connect().await;
    client.write_all(STREAM.as_bytes()).await.unwrap();
    let fill = async { while running.text.send("x".repeat(1 << 20)).await.is_ok() {} };
    timeout(PATIENCE, fill).await.expect("its body is dropped");
}

#[tokio::test]
async fn a_stop_waits_for_the_end_of_a_long_response() {
    let mut running = run(|_| ()).await;
    let mut client = running.connect().await;
    client.write_all(STREAM.as_bytes()).await.unwrap();
    read_until(&mut client, "\r\n\r\n").await;
    running.stop.cancel();
    running.say("last").await;
    running.text = mpsc::channel(1).0;
    assert_eq!(read_all(&mut client).await, "4\r\nlast\r\n0\r\n\r\n");
    timeout(PATIENCE, running.tasks.join_next())
        .await
        .expect("the server ends");
}

#[tokio::test]
async fn an_upgraded_connection_keeps_its_place() {
    let running = run(|limits| limits.connections_max = 1).await;
    let mut first = running.connect().await;
    let request = b"GET /upgrade HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: silence\r\n\r\n";
    first.write_all(request).await.unwrap();
    let head = read_until(&mut first, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    let mut second = running.connect().await;
    second
        .write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    let early = timeout(Duration::from_millis(200), second.read_u8()).await;
    assert!(early.is_err(), "the only place is taken: {early:?}");
    drop(first);
    read_until(&mut second, "plain").await;
}
