//! A client of the ledger: one connection for each request, so that a server that is killed is noticed at once.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test harness: what is missing has failed"
)]

use std::io::{self, ErrorKind};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use uuid::Uuid;

const PATIENCE: Duration = Duration::from_secs(60);

/// What the ledger said.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) kind: String,
    pub(crate) body: Value,
}

impl Answer {
    /// The code of a problem.
    pub(crate) fn code(&self) -> &str {
        assert_eq!(self.kind, "application/problem+json", "{self:?}");
        assert_eq!(self.body["status"], self.status, "{self:?}");
        self.body["code"].as_str().unwrap()
    }

    /// The body of what was made.
    pub(crate) fn created(self) -> Value {
        assert_eq!(self.status, 201, "{self:?}");
        self.body
    }
}

/// Where a ledger is.
#[derive(Clone, Debug)]
pub(crate) struct Client(pub(crate) String);

impl Client {
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.must("GET", path, None, "").await
    }

    /// What is there.
    pub(crate) async fn look(&self, path: &str) -> Value {
        let answer = self.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.body
    }

    /// A request with a key of its own.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_as(&Uuid::now_v7().to_string(), path, body).await
    }

    pub(crate) async fn post_as(&self, key: &str, path: &str, body: &Value) -> Answer {
        self.must("POST", path, Some(key), &body.to_string()).await
    }

    /// Opens an account; answers its id.
    pub(crate) async fn open(&self, owner: &str, currency: &str) -> String {
        let wanted = json!({ "owner": owner, "name": "Everyday", "currency": currency });
        let account = self.post("/ledger/accounts", &wanted).await.created();
        account["account_id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn deposit(&self, account: &str, amount: i64) -> Answer {
        let path = format!("/ledger/accounts/{account}/deposits");
        self.post(&path, &json!({ "amount": amount, "currency": "KRW" })).await
    }

    pub(crate) async fn transfer(&self, from: &str, to: &str, amount: i64) -> Answer {
        let wanted = json!({ "from": from, "to": to, "amount": amount, "currency": "KRW" });
        self.post("/ledger/transfers", &wanted).await
    }

    pub(crate) async fn must(&self, method: &str, path: &str, key: Option<&str>, body: &str) -> Answer {
        let answer = self.send(method, path, key, body).await;
        answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// A request, as it is on the wire.
    pub(crate) async fn send(&self, method: &str, path: &str, key: Option<&str>, body: &str) -> io::Result<Answer> {
        let key = key.map_or(String::new(), |key| format!("idempotency-key: {key}\r\n"));
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: ledger\r\nconnection: close\r\n{key}content-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let talk = async {
            let mut stream = TcpStream::connect(self.0.trim_start_matches("http://")).await?;
            stream.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            io::Result::Ok(answer)
        };
        let answer = timeout(PATIENCE, talk)
            .await
            .map_err(|_late| io::Error::from(ErrorKind::TimedOut))?;
        read(&answer?).ok_or_else(|| io::Error::from(ErrorKind::UnexpectedEof))
    }
}

/// A whole answer; `None` when it was cut off.
fn read(text: &str) -> Option<Answer> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let header = |name: &str| {
        let line = head
            .lines()
            .find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    if header("content-length")?.parse() != Ok(body.len()) {
        return None;
    }
    Some(Answer {
        status: head.split(' ').nth(1)?.parse().ok()?,
        kind: header("content-type")?,
        body: serde_json::from_str(body).ok()?,
    })
}
