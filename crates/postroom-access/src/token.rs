//! The compact form of a signed JWT: header, claims and signature in base64, separated by dots.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::Refused;
use crate::key::{Algorithm, Key};

/// Longer tokens are refused before any work is done for them.
const BYTES_MAX: usize = 8 << 10;

/// A token whose signature is not checked yet.
pub(crate) struct Token<'t> {
    pub(crate) algorithm: Algorithm,
    /// The name of the key.
    pub(crate) key_id: Option<String>,
    /// The signed part.
    message: &'t str,
    payload: &'t str,
    signature: Vec<u8>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    /// Extensions that a reader must understand. This one understands none.
    crit: Option<Value>,
}

impl<'t> Token<'t> {
    pub(crate) fn parse(text: &'t str) -> Result<Self, Refused> {
        if text.len() > BYTES_MAX {
            return Err(Refused::Malformed);
        }
        let (message, signature) = text.rsplit_once('.').ok_or(Refused::Malformed)?;
        let (header, payload) = message.split_once('.').ok_or(Refused::Malformed)?;
        let header: Header = serde_json::from_slice(&decode(header)?).or(Err(Refused::Malformed))?;
        if header.crit.is_some() {
            return Err(Refused::Malformed);
        }
        Ok(Self {
            algorithm: Algorithm::named(&header.alg).ok_or(Refused::WrongAlgorithm)?,
            key_id: header.kid,
            message,
            payload,
            signature: decode(signature)?,
        })
    }

    /// Whether this key has signed the token. A key only accepts its own algorithm.
    pub(crate) fn is_signed_by(&self, key: &Key) -> bool {
        key.algorithm() == self.algorithm && key.verifies(self.message.as_bytes(), &self.signature)
    }

    /// The claims. Call it after the check of the signature.
    pub(crate) fn claims(&self) -> Result<Map<String, Value>, Refused> {
        serde_json::from_slice(&decode(self.payload)?).or(Err(Refused::Malformed))
    }
}

/// A token with these claims, signed with a shared secret.
pub(crate) fn sign(claims: &Value, secret: &ring::hmac::Key) -> String {
    let header = json!({ "alg": "HS256", "typ": "JWT" });
    let message = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
    let signature = ring::hmac::sign(secret, message.as_bytes());
    format!("{message}.{}", encode(signature))
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn decode(text: &str) -> Result<Vec<u8>, Refused> {
    URL_SAFE_NO_PAD.decode(text).or(Err(Refused::Malformed))
}
