//! Requests to the API of a service, for adapters that build their own bodies.

use std::fmt;
use std::io::Write as _;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use postroom::{Error, ErrorKind, Result};
use reqwest::{Client, Response, StatusCode, Url};

use crate::client::{address, client, error_text, read, send};
use crate::response::read_retry_after;

/// Maximum number of bytes that are read of a response body.
const BODY_BYTES_MAX: usize = 1 << 20;

/// An address that takes POST requests. Each request has a total timeout; redirects are not followed.
///
/// The address may contain a secret: `Debug` output and errors do not contain it.
#[derive(Clone)]
pub struct Endpoint {
    client: Client,
    url: Url,
}

impl Endpoint {
    /// Posts to this address. `timeout` limits each request, from the connection to the last byte of its response.
    pub fn new(url: &str, timeout: Duration) -> Result<Self> {
        Ok(Self {
            client: client(timeout)?,
            url: address(url)?,
        })
    }

    /// The endpoint at this path below the address, with the same connections.
    #[must_use]
    pub fn at(&self, path: &str) -> Self {
        let mut url = self.url.clone();
        url.set_path(&format!("{}{path}", self.url.path().trim_end_matches('/')));
        Self {
            client: self.client.clone(),
            url,
        }
    }

    /// Posts a body. The request is sent twice if the server closes the connection without a response, so it must be safe to
    /// repeat. An error is the text of a request without a complete response.
    pub async fn post(&self, headers: &[(&str, &str)], body: Vec<u8>) -> Result<Answer, String> {
        let mut request = self.client.post(self.url.clone()).body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answered = async {
            let response = send(request).await?;
            Answer::read(response).await
        };
        answered.await.map_err(|error| error_text("post", error))
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Endpoint(…)")
    }
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The delay that the header `Retry-After` asks for.
    pub retry_after: Option<Duration>,
    /// The body, up to a limit of 1 MiB.
    pub body: Vec<u8>,
}

impl Answer {
    async fn read(response: Response) -> reqwest::Result<Self> {
        let (status, retry_after) = (response.status().as_u16(), read_retry_after(&response));
        let body = read(response, BODY_BYTES_MAX).await?;
        Ok(Self {
            status,
            retry_after,
            body,
        })
    }

    /// The status code and its name, for example `503 Service Unavailable`.
    pub fn status_text(&self) -> String {
        match StatusCode::from_u16(self.status) {
            Ok(status) => status.to_string(),
            Err(_) => self.status.to_string(),
        }
    }
}

/// Compresses a body for `Content-Encoding: gzip`.
pub fn gzip(body: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let written = encoder.write_all(body).and_then(|()| encoder.finish());
    written.map_err(|source| Error::caused(ErrorKind::Failed, "compress a request", source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_added_to_the_address_and_neither_is_shown() {
        let base = Endpoint::new("https://example.com/ingest/?token=sesame", Duration::from_secs(1)).unwrap();
        let endpoint = base.at("/batch/");
        assert_eq!(endpoint.url.as_str(), "https://example.com/ingest/batch/?token=sesame");
        assert_eq!(format!("{endpoint:?}"), "Endpoint(…)");
    }
}
