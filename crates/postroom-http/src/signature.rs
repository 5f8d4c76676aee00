//! Standard Webhooks signatures: `v1,` and the HMAC-SHA256 of `{id}.{timestamp}.{body}`, one per secret.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use postroom::{Error, Result, clock};
use sha2::Sha256;

/// Prefix of every secret.
const PREFIX: &str = "whsec_";
/// Number of random bytes in a secret.
const BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A secret shared with the receiver. `Debug` does not print it.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl FromStr for Secret {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let encoded = text.strip_prefix(PREFIX).unwrap_or(text);
        let bytes = STANDARD
            .decode(encoded)
            .ok()
            .filter(|bytes| BYTES.contains(&bytes.len()));
        bytes.map(Self).ok_or_else(|| {
            Error::invalid(format!(
                "a webhook secret is {PREFIX} and the base64 of {} to {} random bytes",
                BYTES.start(),
                BYTES.end()
            ))
        })
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The headers of a request that is signed now. `id` is equal in all attempts, so that receivers can drop duplicates. Without
/// secrets there are no headers.
pub fn signed_headers(secrets: &[Secret], id: &str, body: &[u8]) -> Vec<(&'static str, String)> {
    if secrets.is_empty() {
        return Vec::new();
    }
    let timestamp = clock::now().unix_timestamp();
    vec![
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", timestamp.to_string()),
        ("webhook-signature", sign(secrets, id, timestamp, body)),
    ]
}

/// The value of the header `webhook-signature`: one signature per secret, so that secrets can be rotated.
fn sign(secrets: &[Secret], id: &str, timestamp: i64, body: &[u8]) -> String {
    let signatures: Vec<String> = secrets
        .iter()
        .map(|secret| sign_one(secret, id, timestamp, body))
        .collect();
    signatures.join(" ")
}

fn sign_one(secret: &Secret, id: &str, timestamp: i64, body: &[u8]) -> String {
    // HMAC accepts keys of any length: this cannot fail.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&secret.0) else {
        return String::new();
    };
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(body);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification.
    #[test]
    fn the_example_of_the_specification_has_the_same_signature() {
        let secret: Secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap();
        let body = br#"{"test": 2432232314}"#;
        assert_eq!(
            sign(&[secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
    }

    #[test]
    fn two_secrets_make_two_signatures() {
        let secrets: Vec<Secret> = [[1_u8; 24], [2; 24]]
            .iter()
            .map(|bytes| format!("whsec_{}", STANDARD.encode(bytes)).parse().unwrap())
            .collect();
        let both = sign(&secrets, "a", 1, b"x");
        assert_eq!(
            both,
            format!(
                "{} {}",
                sign(&secrets[..1], "a", 1, b"x"),
                sign(&secrets[1..], "a", 1, b"x")
            )
        );
    }

    #[test]
    fn a_weak_secret_is_refused_and_none_is_shown() {
        for weak in [
            "",
            "whsec_",
            "whsec_abc",
            "password",
            &format!("whsec_{}", STANDARD.encode([0; 23])),
        ] {
            assert!(weak.parse::<Secret>().is_err(), "{weak:?}");
        }
        let secret: Secret = format!("whsec_{}", STANDARD.encode([7; 32])).parse().unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(…)");
    }
}
