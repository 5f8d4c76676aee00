//! A JSON Web Key Set (RFC 7517): the usable keys in it, and the one that fits a token.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use postroom::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::Value;

use crate::Refused;
use crate::key::{Algorithm, Key};
use crate::token::Token;

/// The usable keys of a set, and the reasons why the others are not.
#[derive(Debug)]
pub(crate) struct KeySet {
    keys: Vec<(Option<String>, Arc<Key>)>,
    skipped: Vec<&'static str>,
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    /// Fails if the document is not a set, or has no usable key.
    pub(crate) fn parse(document: &[u8]) -> Result<Self> {
        let document: Document = serde_json::from_slice(document)
            .map_err(|source| Error::caused(ErrorKind::Invalid, "read a key set (JWKS)", source))?;
        let mut set = Self {
            keys: Vec::new(),
            skipped: Vec::new(),
        };
        for value in document.keys {
            match read_key(value) {
                Ok((name, key)) => set.keys.push((name, Arc::new(key))),
                Err(reason) => set.skipped.push(reason),
            }
        }
        if set.keys.is_empty() {
            let skipped = set.skipped.join("; ");
            return Err(Error::invalid(format!(
                "a key set (JWKS) has no usable key; skipped: {skipped}"
            )));
        }
        Ok(set)
    }

    /// The reasons to report, unless the last set was the same in this: a set is fetched again and again.
    pub(crate) fn newly_skipped(&self, last: Option<&Self>) -> Option<String> {
        let is_known = last.is_some_and(|last| last.skipped == self.skipped);
        (!self.skipped.is_empty() && !is_known).then(|| self.skipped.join("; "))
    }

    /// The one key that fits a token by name and algorithm. A token without a name fits keys with any name.
    pub(crate) fn key_of(&self, token: &Token<'_>) -> Result<Arc<Key>, Refused> {
        let is_named = |name: &Option<String>| token.key_id.is_none() || token.key_id == *name;
        let named: Vec<_> = self.keys.iter().filter(|(name, _)| is_named(name)).collect();
        let mut fitting = named.iter().filter(|(_, key)| key.algorithm() == token.algorithm);
        match (fitting.next(), fitting.next()) {
            (Some((_, key)), None) => Ok(Arc::clone(key)),
            (None, _) if !named.is_empty() => Err(Refused::WrongAlgorithm),
            _ => Err(Refused::UnknownKey),
        }
    }
}

/// The name and the key, or the reason why it cannot check signatures.
fn read_key(value: Value) -> Result<(Option<String>, Key), &'static str> {
    let jwk: Jwk = serde_json::from_value(value).or(Err("not a key"))?;
    if jwk.purpose.as_deref().is_some_and(|purpose| purpose != "sig") {
        return Err("a key that is not for signatures (use)");
    }
    if jwk
        .key_ops
        .as_ref()
        .is_some_and(|operations| !operations.iter().any(|one| one == "verify"))
    {
        return Err("a key that is not for signatures (key_ops)");
    }
    let key = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        ("RSA", _) => Key::rsa(&decode(jwk.n.as_deref())?, &decode(jwk.e.as_deref())?),
        ("EC", Some("P-256")) => Key::p256(&point(&decode(jwk.x.as_deref())?, &decode(jwk.y.as_deref())?)?),
        ("OKP", Some("Ed25519")) => Key::ed25519(&decode(jwk.x.as_deref())?),
        // A set is public, so a key in it is no secret.
        ("oct", _) => Err("a secret key (oct)"),
        _ => Err("a key of another kind than RSA, P-256 and Ed25519"),
    }?;
    let is_other_algorithm = |name: &str| Algorithm::named(name) != Some(key.algorithm());
    if jwk.alg.as_deref().is_some_and(is_other_algorithm) {
        return Err("a key for another algorithm than RS256, ES256 and EdDSA");
    }
    Ok((jwk.kid, key))
}

fn decode(text: Option<&str>) -> Result<Vec<u8>, &'static str> {
    let text = text.ok_or("a key with a missing number")?;
    URL_SAFE_NO_PAD
        .decode(text)
        .or(Err("a key with a number that is not base64url"))
}

/// The uncompressed form of a point.
fn point(x: &[u8], y: &[u8]) -> Result<Vec<u8>, &'static str> {
    if x.len() != 32 || y.len() != 32 {
        return Err("an EC key whose coordinates have not 32 bytes");
    }
    Ok([&[4], x, y].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_keys_are_reported_once() {
        let set = |others: &str| {
            let good = format!(r#"{{ "kty": "OKP", "crv": "Ed25519", "x": "{}" }}"#, "A".repeat(43));
            KeySet::parse(format!(r#"{{ "keys": [{good}{others}] }}"#).as_bytes()).unwrap()
        };
        let (none, one, two) = (set(""), set(", {}"), set(r#", {}, { "kty": "oct" }"#));
        assert_eq!(none.newly_skipped(None), None);
        assert_eq!(one.newly_skipped(None).unwrap(), "not a key");
        assert_eq!(one.newly_skipped(Some(&one)), None);
        assert_eq!(two.newly_skipped(Some(&one)).unwrap(), "not a key; a secret key (oct)");
        assert_eq!(none.newly_skipped(Some(&two)), None);
    }
}
