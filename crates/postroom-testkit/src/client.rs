//! A client of a stage: one connection for each request, so that a server that is killed is noticed at once.

#![expect(clippy::panic, reason = "a test harness: what is not answered has failed")]

use std::io::{self, ErrorKind};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::wait::PATIENCE;

/// An HTTP response.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The media type of the body; empty, if there is none.
    pub kind: String,
    /// The headers, in the order in which they came. Names are lower case. `date` is left out: it differs between equal answers.
    pub headers: Vec<(String, String)>,
    /// The body: JSON, or a text, or nothing.
    pub body: Value,
}

impl Answer {
    /// The code of a problem.
    pub fn code(&self) -> &str {
        assert_eq!(self.kind, "application/problem+json", "{self:?}");
        assert_eq!(self.body.get("status"), Some(&self.status.into()), "{self:?}");
        let code = self.body.get("code").and_then(Value::as_str);
        code.unwrap_or_else(|| panic!("a problem without a code: {self:?}"))
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(known, _)| known == name);
        found.next().map(|(_, value)| value.as_str())
    }

    /// The body of what was made.
    pub fn created(self) -> Value {
        assert_eq!(self.status, 201, "{self:?}");
        self.body
    }

    /// The body of an answer that says yes.
    pub fn ok(self) -> Value {
        assert!((200..300).contains(&self.status), "{self:?}");
        self.body
    }
}

/// Where a server is, without a slash at the end.
#[derive(Clone, Debug)]
pub struct Client(pub String);

impl Client {
    /// Sends a GET request.
    pub async fn get(&self, path: &str) -> Answer {
        self.must("GET", path, &[], "").await
    }

    /// Sends a POST request with a JSON body.
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.must("POST", path, &[], &body.to_string()).await
    }

    /// A request that must be answered, whatever the answer is.
    pub async fn must(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let answer = self.send(method, path, headers, body).await;
        answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// A request; its body is JSON, unless a header says otherwise. An error means that nobody knows what became of it.
    pub async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> io::Result<Answer> {
        self.send_bytes(method, path, headers, body.as_bytes()).await
    }

    /// The same with a body that is not text.
    pub async fn send_bytes(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Answer> {
        let is_json = !body.is_empty() && !headers.iter().any(|(name, _)| *name == "content-type");
        let json = is_json.then_some(&("content-type", "application/json"));
        let headers = headers.iter().chain(json);
        let own: String = headers.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{own}content-length: {}\r\n\r\n",
            body.len()
        );
        let talk = async {
            let mut stream = TcpStream::connect(self.0.trim_start_matches("http://")).await?;
            stream.write_all(request.as_bytes()).await?;
            stream.write_all(body).await?;
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
    let named = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let name = name.to_ascii_lowercase();
        (name != "date").then(|| (name, value.trim().to_owned()))
    };
    let mut answer = Answer {
        status: head.split(' ').nth(1)?.parse().ok()?,
        kind: String::new(),
        headers: head.lines().skip(1).filter_map(named).collect(),
        body: match body {
            "" => Value::Null,
            body => serde_json::from_str(body).unwrap_or_else(|_text| body.into()),
        },
    };
    answer.kind = answer.header("content-type").unwrap_or_default().to_owned();
    let length = answer.header("content-length").unwrap_or("0");
    (length.parse() == Ok(body.len())).then_some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_cut_off_is_none() {
        let whole = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 7\r\n\r\n{\"a\":1}";
        assert_eq!(read(whole).unwrap().ok()["a"], 1);
        assert_eq!(read("HTTP/1.1 204 No Content\r\n\r\n").unwrap().ok(), Value::Null);
        for length in 0..whole.len() {
            assert_eq!(read(&whole[..length]), None, "{length}");
        }
    }
}
