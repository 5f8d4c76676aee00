//! A destination that posts each event to one address.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use postroom::envelope::{CLOUDEVENTS_JSON, JSON};
use postroom::{Batch, Destination, Entry, Envelope, Mode, Receipt, Result, clock};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url};

use crate::answer::judge;
use crate::client::{address, client, read, report};
use crate::signature::{Secret, sign};

const DOING: &str = "post the event";
/// Requests under way at once, each of another lane.
const AT_ONCE: usize = 32;

/// Posts events as CloudEvents, in order by lane. With secrets, each request is signed as Standard Webhooks say: `webhook-id` is
/// the event's id and the same on every attempt, so that receivers can drop what they have had.
///
/// The address may hold a secret: it is neither shown nor in a receipt.
#[derive(Clone)]
pub struct Webhook {
    client: Client,
    url: Url,
    mode: Mode,
    secrets: Vec<Secret>,
}

impl Webhook {
    /// Posts to this address; an answer that takes longer than `timeout` counts as none.
    pub fn new(url: &str, mode: Mode, secrets: Vec<Secret>, timeout: Duration) -> Result<Self> {
        Ok(Self {
            client: client(timeout)?,
            url: address(url)?,
            mode,
            secrets,
        })
    }

    async fn post(&self, entry: &Entry) -> Receipt {
        let envelope = Envelope::of(entry);
        let (mut headers, body) = match self.mode {
            Mode::Structured => (content_type(CLOUDEVENTS_JSON), envelope.to_structured()),
            Mode::Binary => (attributes(&envelope), envelope.data.get().as_bytes().to_vec()),
        };
        if !self.secrets.is_empty() {
            self.sign(&mut headers, &entry.event.id.to_string(), &body);
        }
        let request = self.client.post(self.url.clone()).headers(headers).body(body);
        let once_more = request.try_clone();
        let answer = match (request.send().await, once_more) {
            // On a connection that was kept and is closed meanwhile: that says nothing about the event, and is no attempt.
            (Err(error), Some(request)) if is_cut(&error) => request.send().await,
            (answer, _) => answer,
        };
        match answer {
            Ok(answer) => {
                let status = answer.status();
                let secrets = [self.url.query().unwrap_or_default(), self.url.path()];
                judge(status, &read(answer, &secrets).await)
            }
            Err(error) if error.is_connect() => Receipt::Unavailable(report(DOING, error)),
            Err(error) => Receipt::Refused(report(DOING, error)),
        }
    }

    fn sign(&self, headers: &mut HeaderMap, id: &str, body: &[u8]) {
        let timestamp = clock::now().unix_timestamp();
        let signature = sign(&self.secrets, id, timestamp, body);
        let ours = [
            ("webhook-id", id.to_owned()),
            ("webhook-timestamp", timestamp.to_string()),
            ("webhook-signature", signature),
        ];
        for (name, value) in ours {
            put(headers, name, &value);
        }
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Webhook(…)")
    }
}

#[async_trait]
impl Destination for Webhook {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        let post = async |at: usize| match batch.entries.get(at) {
            Some(entry) => self.post(entry).await,
            None => Receipt::Held,
        };
        batch.in_lanes(AT_ONCE, post).await
    }
}

fn is_cut(error: &reqwest::Error) -> bool {
    error.is_request() && !error.is_connect() && !error.is_timeout()
}

fn content_type(kind: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    put(&mut headers, CONTENT_TYPE.as_str(), kind);
    headers
}

/// Binary mode: an attribute is the header `ce-` and its name, its value percent-encoded.
fn attributes(envelope: &Envelope) -> HeaderMap {
    let mut headers = content_type(JSON);
    for (name, value) in &envelope.attributes {
        if name != "datacontenttype" {
            put(&mut headers, &format!("ce-{name}"), &percent_encode(value));
        }
    }
    headers
}

fn put(headers: &mut HeaderMap, name: &str, value: &str) {
    if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
        headers.insert(name, value);
    }
}

/// Printable ASCII stays, but for space, quote and percent, as the HTTP binding of CloudEvents says.
fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if (0x21..=0x7e).contains(&byte) && !matches!(byte, b'"' | b'%') {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_fits_into_a_header() {
        assert_eq!(percent_encode("a-b 100% \"é\""), "a-b%20100%25%20%22%C3%A9%22");
    }
}
