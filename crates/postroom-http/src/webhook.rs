//! A destination that posts each event to one address.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use postroom::envelope::{CLOUDEVENTS_JSON, JSON};
use postroom::{Batch, Destination, Entry, Envelope, Mode, Receipt, Result, Written};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url};

use crate::client::{address, client, error_text, read_body, send};
use crate::response::{read_retry_after, receipt};
use crate::signature::{Secret, signed_headers};

const DOING: &str = "post the event";
/// Maximum number of requests in flight, each of another lane.
const REQUESTS_MAX: usize = 32;

/// Posts events as CloudEvents, in order within each lane. With secrets, each request has a Standard Webhooks signature. The header
/// `webhook-id` is the event's id, equal in all attempts, so that receivers can drop duplicates.
///
/// The address may contain a secret: `Debug` output and receipts do not contain it.
#[derive(Clone)]
pub struct Webhook {
    client: Client,
    url: Url,
    mode: Mode,
    secrets: Vec<Secret>,
}

impl Webhook {
    /// Posts to this address. `timeout` limits each request.
    pub fn new(url: &str, mode: Mode, secrets: Vec<Secret>, timeout: Duration) -> Result<Self> {
        Ok(Self {
            client: client(timeout)?,
            url: address(url)?,
            mode,
            secrets,
        })
    }

    async fn post(&self, entry: &Entry) -> Receipt {
        let (mut headers, body) = match &self.mode {
            Mode::Structured => (content_type(CLOUDEVENTS_JSON), Envelope::of(entry).to_structured()),
            Mode::Binary => {
                let envelope = Envelope::of(entry);
                (attributes(&envelope), envelope.data.get().as_bytes().to_vec())
            }
            Mode::Own(writer) => match writer.write(entry) {
                Ok(written) => own(written),
                Err(error) => return Receipt::Rejected(error.report()),
            },
        };
        for (name, value) in signed_headers(&self.secrets, &entry.event.id.to_string(), &body) {
            insert_header(&mut headers, name, &value);
        }
        let request = self.client.post(self.url.clone()).headers(headers).body(body);
        match send(request).await {
            Ok(response) => {
                let (status, after) = (response.status(), read_retry_after(&response));
                let secrets = [self.url.query().unwrap_or_default(), self.url.path()];
                receipt(status, after, &read_body(response, &secrets).await)
            }
            Err(error) if error.is_connect() => Receipt::unavailable(error_text(DOING, error)),
            Err(error) => Receipt::Refused(error_text(DOING, error)),
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
        batch.in_lanes(REQUESTS_MAX, post).await
    }
}

fn content_type(kind: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    insert_header(&mut headers, CONTENT_TYPE.as_str(), kind);
    headers
}

/// Headers of binary mode: each attribute is a header `ce-{name}` with a percent-encoded value.
fn attributes(envelope: &Envelope) -> HeaderMap {
    let mut headers = content_type(JSON);
    for (name, value) in &envelope.attributes {
        if name != "datacontenttype" {
            insert_header(&mut headers, &format!("ce-{name}"), &percent_encode(value));
        }
    }
    headers
}

/// Headers and body of a message in a form of its own. Header values are percent-encoded.
fn own(written: Written) -> (HeaderMap, Vec<u8>) {
    let mut headers = content_type(&written.content_type);
    for (name, value) in &written.headers {
        insert_header(&mut headers, name, &percent_encode(value));
    }
    (headers, written.body)
}

fn insert_header(headers: &mut HeaderMap, name: &str, value: &str) {
    if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
        headers.insert(name, value);
    }
}

/// Encodes all bytes except printable ASCII, and also space, quote and percent, as the HTTP binding of CloudEvents requires.
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
