//! A WebSocket client on a raw connection, which can also break the rules.

#![expect(clippy::panic, reason = "a test harness: what is not answered has failed")]

use std::io::{self, ErrorKind};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::wait::PATIENCE;

/// An open WebSocket, or the answer that refused it.
#[derive(Debug)]
pub struct WebSocket {
    /// The status of the answer: 101 if it is open.
    pub status: u16,
    tcp: TcpStream,
    raw: Vec<u8>,
}

/// A message of the server.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// JSON.
    Text(Value),
    /// The end, with its code and its reason.
    Close(u16, String),
}

/// Any mask will do.
const MASK: [u8; 4] = [7, 77, 177, 7];
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

impl WebSocket {
    /// Asks for a WebSocket; `url` is that of the server.
    pub async fn open(url: &str, path: &str, headers: &[(&str, &str)]) -> Self {
        let opened = timeout(PATIENCE, Self::try_open(url, path, headers)).await;
        match opened {
            Ok(Ok(socket)) => socket,
            Ok(Err(error)) => panic!("WebSocket {path}: {error}"),
            Err(_late) => panic!("WebSocket {path}: no answer"),
        }
    }

    /// The same. An error means that the connection failed.
    pub async fn try_open(url: &str, path: &str, headers: &[(&str, &str)]) -> io::Result<Self> {
        let mut tcp = TcpStream::connect(url.trim_start_matches("http://")).await?;
        let headers: String = headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
        );
        tcp.write_all(request.as_bytes()).await?;
        let mut raw = Vec::new();
        let end = loop {
            if let Some(at) = raw.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            if tcp.read_buf(&mut raw).await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        };
        let rest = raw.split_off(end);
        let head = String::from_utf8(raw).map_err(io::Error::other)?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Ok(Self {
            status: status.ok_or(ErrorKind::InvalidData)?,
            tcp,
            raw: rest,
        })
    }

    /// Sends JSON.
    pub async fn send(&mut self, message: &Value) {
        self.send_text(&message.to_string()).await;
    }

    /// Sends a text.
    pub async fn send_text(&mut self, text: &str) {
        self.send_frame(TEXT, text.as_bytes()).await;
    }

    /// Sends bytes, which are no text.
    pub async fn send_binary(&mut self, bytes: &[u8]) {
        self.send_frame(BINARY, bytes).await;
    }

    /// Ends the conversation.
    pub async fn close(&mut self) {
        self.send_frame(CLOSE, &1000_u16.to_be_bytes()).await;
    }

    async fn send_frame(&mut self, kind: u8, content: &[u8]) {
        let mut frame = vec![0x80 | kind];
        match (u8::try_from(content.len()), u16::try_from(content.len())) {
            (Ok(length @ 0..126), _) => frame.push(0x80 | length),
            (_, Ok(length)) => {
                frame.push(0x80 | 126);
                frame.extend(length.to_be_bytes());
            }
            _ => {
                frame.push(0x80 | 127);
                frame.extend((content.len() as u64).to_be_bytes());
            }
        }
        frame.extend(MASK);
        frame.extend(content.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        let sent = timeout(PATIENCE, self.tcp.write_all(&frame)).await;
        match sent {
            // A server that has ended the conversation may have reset the connection.
            Ok(_) => {}
            Err(_late) => panic!("the server reads nothing"),
        }
    }

    /// The next message; `None` when the connection has ended without one.
    pub async fn next(&mut self) -> Option<Message> {
        match timeout(PATIENCE, self.read()).await {
            Ok(next) => next.ok(),
            Err(_late) => panic!("the server sent nothing for long"),
        }
    }

    /// The next message, which must be JSON.
    pub async fn json(&mut self) -> Value {
        match self.next().await {
            Some(Message::Text(json)) => json,
            other => panic!("{other:?}"),
        }
    }

    /// The next JSON whose `event` is this; others are left out.
    pub async fn next_named(&mut self, event: &str) -> Value {
        loop {
            let json = self.json().await;
            if json.get("event").and_then(Value::as_str) == Some(event) {
                return json;
            }
        }
    }

    /// The code and the reason with which the server ends the conversation; messages before it are left out.
    pub async fn closed(&mut self) -> (u16, String) {
        loop {
            match self.next().await {
                Some(Message::Text(_)) => {}
                Some(Message::Close(code, reason)) => return (code, reason),
                None => panic!("the connection ended without a close"),
            }
        }
    }

    /// Cancel safe: what was read stays.
    async fn read(&mut self) -> io::Result<Message> {
        loop {
            let Some((kind, content)) = self.take_frame() else {
                if self.tcp.read_buf(&mut self.raw).await? == 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                continue;
            };
            match kind {
                TEXT => return Ok(Message::Text(serde_json::from_slice(&content)?)),
                CLOSE => {
                    let (code, reason) = content.split_first_chunk().unwrap_or((&[0, 0], &[]));
                    let reason = String::from_utf8_lossy(reason).into_owned();
                    return Ok(Message::Close(u16::from_be_bytes(*code), reason));
                }
                PING => self.send_frame(PONG, &content).await,
                PONG => {}
                _ => return Err(ErrorKind::InvalidData.into()),
            }
        }
    }

    /// A whole frame of the server, which masks nothing.
    fn take_frame(&mut self) -> Option<(u8, Vec<u8>)> {
        let kind = self.raw.first()? & 0x0f;
        let (begin, length): (usize, usize) = match *self.raw.get(1)? {
            126 => (4, usize::from(u16::from_be_bytes(*self.raw.get(2..)?.first_chunk()?))),
            127 => (
                10,
                usize::try_from(u64::from_be_bytes(*self.raw.get(2..)?.first_chunk()?)).ok()?,
            ),
            length => (2, usize::from(length)),
        };
        let content = self.raw.get(begin..begin.checked_add(length)?)?.to_vec();
        self.raw.drain(..begin + length);
        Some((kind, content))
    }
}
