//! The HTTP client that everything here posts with.

use std::time::Duration;

use postroom::{Error, ErrorKind, Result};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, Url};

const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How much of an answer is read.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// A client that waits this long for an answer, and follows no redirects.
pub(crate) fn client(timeout: Duration) -> Result<Client> {
    // Another part of the process may have chosen a provider already; either will do. The backend is named because the features
    // of reqwest are shared: in a program whose own reqwest has native-tls, that would be the default.
    drop(rustls::crypto::ring::default_provider().install_default());
    Client::builder()
        .tls_backend_rustls()
        .connect_timeout(CONNECT_MAX)
        .timeout(timeout)
        .redirect(Policy::none())
        .user_agent(concat!("postroom/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|source| Error::caused(ErrorKind::Failed, "make an HTTP client", source))
}

/// An address to post to. It may hold a secret, so it is not repeated when it is wrong.
pub(crate) fn address(text: &str) -> Result<Url> {
    let url: Url = text
        .parse()
        .map_err(|source| Error::caused(ErrorKind::Invalid, "read an address", source))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(Error::invalid(format!(
            "an address begins with {other}://; it must begin with http:// or https://"
        ))),
    }
}

/// What is said when there is no answer: not the address, which may hold a secret.
pub(crate) fn report(doing: &str, error: reqwest::Error) -> String {
    Error::caused(ErrorKind::Unavailable, doing, error.without_url()).report()
}

/// The beginning of an answer's body, for whoever asks why something was refused. Servers like to say which address or key they
/// do not know: the `secrets` are cut out.
pub(crate) async fn read(mut answer: Response, secrets: &[&str]) -> String {
    let mut body = Vec::new();
    while (body.len() as u64) < ANSWER_BYTES_MAX {
        match answer.chunk().await {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) | Err(_) => break,
        }
    }
    let said = String::from_utf8_lossy(&body).into_owned();
    let secrets = secrets.iter().filter(|secret| !matches!(**secret, "" | "/"));
    secrets.fold(said, |said, secret| said.replace(secret, "…"))
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
