//! The HTTP client of webhooks and messengers.

use std::time::Duration;

use postroom::{Error, ErrorKind, Result};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response, Url};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of bytes that are read of a response body.
const BODY_BYTES_MAX: usize = 64 << 10;

/// A client with this request timeout. It does not follow redirects.
pub(crate) fn client(timeout: Duration) -> Result<Client> {
    // Keeps a crypto provider that the process has already installed. The backend is named because the features of reqwest are
    // shared: in a program whose own reqwest has native-tls, that would be the default.
    drop(rustls::crypto::ring::default_provider().install_default());
    Client::builder()
        .tls_backend_rustls()
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(timeout)
        .redirect(Policy::none())
        .user_agent(concat!("postroom/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|source| Error::caused(ErrorKind::Failed, "create an HTTP client", source))
}

/// Parses an address. It may contain a secret, so an error does not repeat it.
pub(crate) fn address(text: &str) -> Result<Url> {
    let url: Url = text
        .parse()
        .map_err(|source| Error::caused(ErrorKind::Invalid, "parse an address", source))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(Error::invalid(format!(
            "an address starts with {other}://; it must start with http:// or https://"
        ))),
    }
}

/// Sends a request. If the server has closed the connection, for example a kept-alive one, sends it once more: this does not
/// concern its content.
pub(crate) async fn send(request: RequestBuilder) -> reqwest::Result<Response> {
    let again = request.try_clone();
    match (request.send().await, again) {
        (Err(error), Some(again)) if is_disconnected(&error) => again.send().await,
        (response, _) => response,
    }
}

fn is_disconnected(error: &reqwest::Error) -> bool {
    error.is_request() && !error.is_connect() && !error.is_timeout()
}

/// The error text of a request without a response. Omits the address, which may contain a secret.
pub(crate) fn error_text(doing: &str, error: reqwest::Error) -> String {
    Error::caused(ErrorKind::Unavailable, doing, error.without_url()).report()
}

/// Reads a response body up to about this many bytes.
pub(crate) async fn read(mut response: Response, bytes_max: usize) -> reqwest::Result<Vec<u8>> {
    let mut body = Vec::new();
    while body.len() < bytes_max {
        match response.chunk().await? {
            Some(chunk) => body.extend_from_slice(&chunk),
            None => break,
        }
    }
    Ok(body)
}

/// Reads the start of a response body for the error text. Removes the `secrets`, because servers often repeat an unknown address
/// or key.
pub(crate) async fn read_body(response: Response, secrets: &[&str]) -> String {
    let body = read(response, BODY_BYTES_MAX).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&body).into_owned();
    let secrets = secrets.iter().filter(|secret| !matches!(**secret, "" | "/"));
    secrets.fold(text, |text, secret| text.replace(secret, "…"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_must_be_http_and_is_not_repeated() {
        assert!(address("https://example.com/hook").is_ok());
        for wrong in ["ftp://example.com/secret", "example.com/secret", "secret"] {
            let report = address(wrong).unwrap_err().report();
            assert!(!report.contains("secret"), "{report}");
        }
    }
}
