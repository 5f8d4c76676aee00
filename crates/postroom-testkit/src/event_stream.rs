//! A client of server-sent events on a raw connection: it reads only when it is asked to, and sees every block.

#![expect(clippy::panic, reason = "a test harness: what is not answered has failed")]

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::wait::PATIENCE;

/// A response that may be a stream of events.
#[derive(Debug)]
pub struct EventStream {
    /// The status.
    pub status: u16,
    /// The headers. Names are lower case.
    pub headers: Vec<(String, String)>,
    tcp: TcpStream,
    /// Bytes of the body, with their chunks.
    raw: Vec<u8>,
    /// The text of the body that is no whole block yet.
    text: Vec<u8>,
    is_chunked: bool,
    has_ended: bool,
}

/// A block of a stream of events. One without data is no event for a browser: it sets the id or the time to reconnect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerEvent {
    /// Its `id`.
    pub id: Option<String>,
    /// Its `event`.
    pub event: String,
    /// Its `data`.
    pub data: String,
    /// Its `retry`, in milliseconds.
    pub retry: Option<u64>,
}

impl ServerEvent {
    /// Its data as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    fn parse(block: &str) -> Self {
        let mut event = Self::default();
        for line in block.trim_end().lines() {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "id" => event.id = Some(value.to_owned()),
                "event" => value.clone_into(&mut event.event),
                "data" => value.clone_into(&mut event.data),
                "retry" => event.retry = value.parse().ok(),
                _ => panic!("an unknown field in {block:?}"),
            }
        }
        event
    }
}

impl EventStream {
    /// Opens a stream with a GET request; `url` is that of the server.
    pub async fn open(url: &str, path: &str, headers: &[(&str, &str)]) -> Self {
        let opened = Self::try_open(url, path, headers).await;
        opened.unwrap_or_else(|error| panic!("GET {path}: {error}"))
    }

    /// The same. An error means that the connection failed.
    pub async fn try_open(url: &str, path: &str, headers: &[(&str, &str)]) -> io::Result<Self> {
        Self::open_with_buffer(url, (path, headers), None).await
    }

    /// The same with a small receive buffer in the system: the server notices soon that this client does not read.
    pub async fn open_with_buffer(
        url: &str,
        (path, headers): (&str, &[(&str, &str)]),
        bytes: Option<u32>,
    ) -> io::Result<Self> {
        let address: SocketAddr = url.trim_start_matches("http://").parse().map_err(io::Error::other)?;
        let socket = TcpSocket::new_v4()?;
        if let Some(bytes) = bytes {
            socket.set_recv_buffer_size(bytes)?;
        }
        let headers: String = headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n{headers}\r\n");
        let open = async {
            let mut tcp = socket.connect(address).await?;
            tcp.write_all(request.as_bytes()).await?;
            Self::begin(tcp).await
        };
        let late = |_late| io::Error::from(ErrorKind::TimedOut);
        timeout(PATIENCE, open).await.map_err(late)?
    }

    async fn begin(mut tcp: TcpStream) -> io::Result<Self> {
        let mut raw = Vec::new();
        let end = loop {
            if let Some(at) = find(&raw, b"\r\n\r\n") {
                break at;
            }
            if tcp.read_buf(&mut raw).await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        };
        let body = raw.split_off(end + 4);
        let head = String::from_utf8(raw).map_err(io::Error::other)?;
        let named = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        };
        let headers: Vec<_> = head.lines().skip(1).filter_map(named).collect();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Ok(Self {
            status: status.ok_or(ErrorKind::InvalidData)?,
            is_chunked: headers
                .iter()
                .any(|(name, value)| name == "transfer-encoding" && value == "chunked"),
            headers,
            tcp,
            raw: body,
            text: Vec::new(),
            has_ended: false,
        })
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(known, _)| known == name);
        found.next().map(|(_, value)| value.as_str())
    }

    /// The next block; `None` when the stream has ended as it should. A stream that breaks fails the test.
    pub async fn next(&mut self) -> Option<ServerEvent> {
        let next = self.try_next().await;
        next.unwrap_or_else(|error| panic!("the stream broke: {error}"))
    }

    /// The same. An error means that the stream broke, or that nothing came for long.
    pub async fn try_next(&mut self) -> io::Result<Option<ServerEvent>> {
        let late = |_late| io::Error::from(ErrorKind::TimedOut);
        timeout(PATIENCE, self.read()).await.map_err(late)?
    }

    /// The next event with this name; other blocks are left out. The end of the stream fails the test.
    pub async fn next_named(&mut self, name: &str) -> ServerEvent {
        loop {
            match self.next().await {
                Some(event) if event.event == name => return event,
                Some(_) => {}
                None => panic!("the stream ended before an event {name:?}"),
            }
        }
    }

    /// All blocks until the stream ends.
    pub async fn rest(&mut self) -> Vec<ServerEvent> {
        let mut all = Vec::new();
        while let Some(event) = self.next().await {
            all.push(event);
        }
        all
    }

    /// Cancel safe: what was read stays.
    async fn read(&mut self) -> io::Result<Option<ServerEvent>> {
        loop {
            if let Some(at) = find(&self.text, b"\n\n") {
                let rest = self.text.split_off(at + 2);
                let block = std::mem::replace(&mut self.text, rest);
                let block = String::from_utf8(block).map_err(io::Error::other)?;
                return Ok(Some(ServerEvent::parse(&block)));
            }
            if self.has_ended {
                return Ok(None);
            }
            if self.unchunk()? {
                continue;
            }
            if self.tcp.read_buf(&mut self.raw).await? == 0 {
                match self.is_chunked {
                    true => return Err(ErrorKind::UnexpectedEof.into()),
                    false => self.has_ended = true,
                }
            }
        }
    }

    /// Moves a whole chunk to the text; answers whether there was one.
    fn unchunk(&mut self) -> io::Result<bool> {
        if !self.is_chunked {
            return Ok(false);
        }
        let Some(line) = find(&self.raw, b"\r\n") else {
            return Ok(false);
        };
        let size = self.raw.get(..line).and_then(|size| std::str::from_utf8(size).ok());
        let size = size.and_then(|size| usize::from_str_radix(size, 16).ok());
        let size = size.ok_or(ErrorKind::InvalidData)?;
        let Some(chunk) = self.raw.get(line + 2..line + 2 + size) else {
            return Ok(false);
        };
        if self.raw.len() < line + 4 + size {
            return Ok(false);
        }
        self.text.extend_from_slice(chunk);
        self.has_ended = size == 0;
        self.raw.drain(..line + 4 + size);
        Ok(true)
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}
