//! An issuer of tokens. Its keys are made for each test; only the RSA key is fixed, because `ring` makes none.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use rustls::pki_types::alg_id;
use serde_json::{Value, json};

/// The private key was thrown away after it had signed [`RSA_TOKEN`].
pub(crate) const RSA_PEM: &str = "-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA3nkxk4+LLjAXzDn+ErUQ
prNRaMaBmfTs1ueVAZ2ft5F28eGSDlHoMba0xrFVeZtQbnxayXOr6EBaKye2YdCo
bfF4WKEVuIstVECw7mr6rW/9mCVSVq5Sdb/hoDOGARgqmH/NE+LVoFw8xxZAZ4oK
2v4v4WkX/BVuzm6+glsCNM7JWMVNk2vUydUka4XPyszFu2O0E7fQiyORsRDon8cE
V39TVWcxBsBdT2Pu4d+nFa4YAlFDGKsT9+hjsQZiFRlpgHQ3UYOEDEELvA2oxXkF
VWxxrVgnem7ppKDoGdGxabHzluHJiwLdoTkl6lqOjXjUJqBb2oEDN4EpqTEIo2d/
XQIDAQAB
-----END PUBLIC KEY-----
";

/// The modulus of the same key.
pub(crate) const RSA_N: &str = "3nkxk4-LLjAXzDn-ErUQprNRaMaBmfTs1ueVAZ2ft5F28eGSDlHoMba0xrFVeZtQbnxayXOr6EBaKye2YdCobfF4\
    WKEVuIstVECw7mr6rW_9mCVSVq5Sdb_hoDOGARgqmH_NE-LVoFw8xxZAZ4oK2v4v4WkX_BVuzm6-glsCNM7JWMVNk2vUydUka4XPyszFu2O0E7fQiyORsRDon8\
    cEV39TVWcxBsBdT2Pu4d-nFa4YAlFDGKsT9-hjsQZiFRlpgHQ3UYOEDEELvA2oxXkFVWxxrVgnem7ppKDoGdGxabHzluHJiwLdoTkl6lqOjXjUJqBb2oEDN4Ep\
    qTEIo2d_XQ";

/// `{"alg":"RS256","kid":"rsa"}`, `{"sub":"member-7","exp":4102444800}`: it expires in the year 2100.
pub(crate) const RSA_TOKEN: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6InJzYSJ9.eyJzdWIiOiJtZW1iZXItNyIsImV4cCI6NDEwMjQ0NDgwMH0.\
    D8RZi72Sb-WlCaSXJr_BDHWZLK3dQIxBxU4sZJfr-rwx9IpwSrrN7D6fXKr-bpQuO_HpbAg7tx8tjA-ZGQk6NVmbS1taQjIOfMUMB3BoGVLbyANx790baQwiru\
    NU9K0cpvUyXxrfgM4FbfRKZ2EQUwW0dP462dj1Ikvuz2Q3_LnJe9h5CJbVPfnG5qqNFxR2rJmj5IGsyEe624YL2k_50NwcCV0-1IvzqBD9oFt5l18mSv-tadAM\
    5POYRProaVkY4exDTgIknKTvIEKLdM-DQV83vH5zNVGHHqJloIYQ7sTKUeZJs0UcSk2m-iTX1TJd191lKnLjxApeqocyWguOjQ";

/// A key pair of the issuer.
pub(crate) enum Signer {
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Signer {
    pub(crate) fn p256() -> Self {
        let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self::P256(EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap())
    }

    pub(crate) fn ed25519() -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed25519(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap())
    }

    /// The public key in PEM.
    pub(crate) fn pem(&self) -> String {
        let (algorithm, key) = match self {
            Self::P256(pair) => (alg_id::ECDSA_P256, pair.public_key().as_ref()),
            Self::Ed25519(pair) => (alg_id::ED25519, pair.public_key().as_ref()),
        };
        let der = element(
            0x30,
            &[element(0x30, &algorithm), element(3, &[&[0], key].concat())].concat(),
        );
        format!(
            "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
            STANDARD.encode(der)
        )
    }

    /// The public key as a JWK with this name.
    pub(crate) fn jwk(&self, name: &str) -> Value {
        match self {
            Self::P256(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({ "kty": "EC", "crv": "P-256", "kid": name, "x": encode(x), "y": encode(y) })
            }
            Self::Ed25519(pair) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "kid": name, "x": encode(pair.public_key()) })
            }
        }
    }

    /// A valid token of `member-7`. The name of the key may be absent.
    pub(crate) fn token(&self, name: Option<&str>) -> String {
        let mut header = json!({ "alg": self.algorithm() });
        if let Some(name) = name {
            header["kid"] = name.into();
        }
        self.sign(&format!(
            "{}.{}",
            encode(header.to_string()),
            encode(claims().to_string())
        ))
    }

    /// The message with its signature.
    pub(crate) fn sign(&self, message: &str) -> String {
        let signature = match self {
            Self::P256(pair) => encode(pair.sign(&SystemRandom::new(), message.as_bytes()).unwrap()),
            Self::Ed25519(pair) => encode(pair.sign(message.as_bytes())),
        };
        format!("{message}.{signature}")
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::P256(_) => "ES256",
            Self::Ed25519(_) => "EdDSA",
        }
    }
}

/// The claims of a valid token.
pub(crate) fn claims() -> Value {
    json!({ "sub": "member-7", "exp": 4_102_444_800_u64 })
}

/// A token with this header and these claims.
pub(crate) fn token(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let message = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
    format!("{message}.{}", encode(sign(message.as_bytes())))
}

/// An HMAC-SHA256 of the message.
pub(crate) fn hmac(secret: &[u8], message: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message)
        .as_ref()
        .to_vec()
}

pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A DER element of fewer than 128 bytes.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    [&[tag, u8::try_from(content.len()).unwrap()], content].concat()
}
