//! The keys of member tokens. Each key has one algorithm and checks signatures of this algorithm only.

use std::fmt;

use postroom::{Error, Result};
use ring::hmac;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use rustls::pki_types::alg_id;
use rustls::pki_types::pem::{PemObject as _, SectionKind};

/// As long as the output of SHA-256. A shorter secret is easier to guess than the signature.
pub(crate) const SECRET_BYTES_MIN: usize = 32;
/// Bytes of a modulus: 2048 to 8192 bits.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;
/// Keys in one PEM text. Each signature may be compared with all of them.
const PEM_KEYS_MAX: usize = 16;

const NOT_PUBLIC_KEY: &str = "a section that is not a public key (BEGIN PUBLIC KEY)";

const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;
const INTEGER: u8 = 0x02;

/// The supported algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Hs256,
    Rs256,
    Es256,
    EdDsa,
}

impl Algorithm {
    /// The algorithm with this name in a token or a JWK. `Ed25519` is the newer name of `EdDSA` on that curve.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "HS256" => Some(Self::Hs256),
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            "EdDSA" | "Ed25519" => Some(Self::EdDsa),
            _ => None,
        }
    }
}

/// A key that checks signatures. `Debug` prints the algorithm only.
pub(crate) enum Key {
    Secret(hmac::Key),
    /// Modulus and exponent without leading zeros.
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// An uncompressed point.
    P256([u8; 65]),
    Ed25519([u8; 32]),
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:?}, …)", self.algorithm())
    }
}

impl Key {
    pub(crate) fn secret(secret: &[u8]) -> Result<Self> {
        if secret.len() < SECRET_BYTES_MIN {
            return Err(Error::invalid(format!(
                "the secret of member tokens has {} bytes; it must have at least {SECRET_BYTES_MIN} random bytes",
                secret.len()
            )));
        }
        Ok(Self::Secret(hmac::Key::new(hmac::HMAC_SHA256, secret)))
    }

    /// The public keys in a PEM text.
    pub(crate) fn all_from_pem(pem: &str) -> Result<Vec<Self>> {
        let sections = <(SectionKind, Vec<u8>)>::pem_slice_iter(pem.as_bytes());
        let keys: Vec<Self> = sections
            .map(|section| match section {
                Ok((SectionKind::PublicKey, der)) => from_public_key_info(&der),
                Ok((SectionKind::RsaPrivateKey | SectionKind::PrivateKey | SectionKind::EcPrivateKey, _)) => {
                    Err("a private key; give the public key only")
                }
                Ok(_) => Err(NOT_PUBLIC_KEY),
                // The cause may contain a line of the text.
                Err(_) => Err("a section that is not well-formed"),
            })
            .collect::<Result<_, &str>>()
            .map_err(wrong_pem)?;
        // The reader passes over sections with an unknown name.
        if keys.len() != pem.matches("-----BEGIN ").count() {
            return Err(wrong_pem(NOT_PUBLIC_KEY));
        }
        match keys.len() {
            1..=PEM_KEYS_MAX => Ok(keys),
            count => Err(Error::invalid(format!(
                "the PEM of the member keys has {count} public keys (BEGIN PUBLIC KEY); it must have 1 to {PEM_KEYS_MAX}"
            ))),
        }
    }

    pub(crate) fn rsa(n: &[u8], e: &[u8]) -> Result<Self, &'static str> {
        let [n, e] = [n, e].map(without_leading_zeros);
        if !RSA_BYTES.contains(&n.len()) {
            return Err("an RSA key with fewer than 2048 or more than 8192 bits");
        }
        Ok(Self::Rsa { n, e })
    }

    pub(crate) fn p256(point: &[u8]) -> Result<Self, &'static str> {
        match <[u8; 65]>::try_from(point) {
            Ok(point @ [4, ..]) => Ok(Self::P256(point)),
            _ => Err("an EC key that is not an uncompressed point of P-256"),
        }
    }

    pub(crate) fn ed25519(key: &[u8]) -> Result<Self, &'static str> {
        let key = key.try_into().or(Err("an Ed25519 key that has not 32 bytes"))?;
        Ok(Self::Ed25519(key))
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        match self {
            Self::Secret(_) => Algorithm::Hs256,
            Self::Rsa { .. } => Algorithm::Rs256,
            Self::P256(_) => Algorithm::Es256,
            Self::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    /// Whether this key has signed the message.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let result = match self {
            Self::Secret(key) => hmac::verify(key, message, signature),
            Self::Rsa { n, e } => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            Self::P256(point) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature),
            Self::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
        };
        result.is_ok()
    }
}

fn wrong_pem(wrong: &str) -> Error {
    Error::invalid(format!("the PEM of the member keys has {wrong}"))
}

fn without_leading_zeros(number: &[u8]) -> Vec<u8> {
    number.iter().copied().skip_while(|&byte| byte == 0).collect()
}

/// The key in a `SubjectPublicKeyInfo`.
fn from_public_key_info(der: &[u8]) -> Result<Key, &'static str> {
    let (algorithm, key) = split_public_key_info(der).ok_or("a public key that is not well-formed")?;
    match algorithm {
        _ if *algorithm == *alg_id::RSA_ENCRYPTION => {
            let (n, e) = split_rsa_key(key).ok_or("an RSA key that is not well-formed")?;
            Key::rsa(n, e)
        }
        _ if *algorithm == *alg_id::ECDSA_P256 => Key::p256(key),
        _ if *algorithm == *alg_id::ED25519 => Key::ed25519(key),
        _ => Err("a key of another kind than RSA, P-256 and Ed25519"),
    }
}

/// The algorithm and the key.
fn split_public_key_info(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (algorithm, rest) = split_element(SEQUENCE, whole_element(SEQUENCE, der)?)?;
    let (unused_bits, key) = whole_element(BIT_STRING, rest)?.split_first()?;
    (*unused_bits == 0).then_some((algorithm, key))
}

/// The modulus and the exponent.
fn split_rsa_key(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (n, rest) = split_element(INTEGER, whole_element(SEQUENCE, der)?)?;
    Some((n, whole_element(INTEGER, rest)?))
}

/// The content of a DER element with nothing behind it.
fn whole_element(tag: u8, der: &[u8]) -> Option<&[u8]> {
    let (content, rest) = split_element(tag, der)?;
    rest.is_empty().then_some(content)
}

/// The content of a DER element with this tag, and the bytes behind it. The length of a key always fits into two bytes.
fn split_element(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (found, rest) = der.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(*length), rest),
        0x81 => rest.split_first().map(|(byte, rest)| (usize::from(*byte), rest))?,
        0x82 => rest
            .split_first_chunk()
            .map(|(bytes, rest)| (usize::from(u16::from_be_bytes(*bytes)), rest))?,
        _ => return None,
    };
    (*found == tag).then_some(())?;
    rest.split_at_checked(length)
}
