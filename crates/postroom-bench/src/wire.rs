//! A client that costs little: one connection to an HTTP server, kept open, with one request at a time.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The end of the head of a response.
const BLANK: &[u8] = b"\r\n\r\n";

/// A connection.
#[derive(Debug)]
pub(super) struct Wire {
    stream: TcpStream,
    /// The response that is read.
    response: Vec<u8>,
}

impl Wire {
    pub(super) async fn open(server: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(server)
            .await
            .context("connect to the server of the bench")?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            response: Vec::new(),
        })
    }

    /// Sends a request; its body is JSON or empty. Answers the status and the body of the response.
    pub(super) async fn send(&mut self, method: &str, path: &str, body: &str) -> Result<(u16, &[u8])> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.write_all(request.as_bytes()).await?;
        self.response.clear();
        let head = loop {
            if let Some(at) = self.response.windows(BLANK.len()).position(|bytes| bytes == BLANK) {
                break at + BLANK.len();
            }
            let read = self.stream.read_buf(&mut self.response).await?;
            ensure!(read > 0, "the server closed the connection");
        };
        let (status, length) = read_head(self.response.get(..head).unwrap_or_default())?;
        while self.response.len() < head + length {
            let read = self.stream.read_buf(&mut self.response).await?;
            ensure!(read > 0, "the server closed the connection in the middle of a response");
        }
        Ok((status, self.response.get(head..).unwrap_or_default()))
    }
}

/// The status and the length of the body.
fn read_head(head: &[u8]) -> Result<(u16, usize)> {
    let head = std::str::from_utf8(head).context("read the head of a response")?;
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then_some(value.trim())?
            .parse()
            .ok()
    });
    Ok((status.context("a response has a status")?, length.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_tells_the_status_and_the_length() {
        let head = b"HTTP/1.1 201 Created\r\nContent-Type: x\r\nContent-Length: 12\r\n\r\n";
        assert_eq!(read_head(head).unwrap(), (201, 12));
        assert_eq!(read_head(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap(), (204, 0));
        assert!(read_head(b"").is_err());
    }
}
