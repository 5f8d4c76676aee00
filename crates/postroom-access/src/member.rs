//! Member tokens: made and checked with a secret, checked with public keys or with the keys of a key server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use postroom::{Error, ErrorKind, Result, clock};
use serde_json::json;
use time::OffsetDateTime;

use crate::claims::{MEMBER_BYTES_MAX, Rules, is_member_id};
use crate::jwks::Jwks;
use crate::key::Key;
use crate::token::{Token, sign};
use crate::{Member, Refused};

const LEEWAY: Duration = Duration::from_secs(30);
const LEEWAY_MAX: Duration = Duration::from_mins(5);

/// The keys that member tokens are checked with, and the rules for their claims.
///
/// A token is accepted only if its algorithm is the one of the key: HS256 for a secret, RS256 for RSA, ES256 for P-256, `EdDSA`
/// for Ed25519. It must have a time of expiry (`exp`) and a subject (`sub`) of 1 to 200 bytes; `nbf` is respected. Clones share
/// their keys.
#[derive(Clone)]
pub struct MemberKeys {
    source: Source,
    rules: Rules,
}

#[derive(Clone)]
enum Source {
    /// The secret or the public keys that were given. They have no names.
    Given(Arc<[Key]>),
    Server(Arc<Jwks>),
}

impl MemberKeys {
    /// A secret that the issuer of the tokens shares: at least 32 bytes. With it, [`MemberKeys::mint`] makes tokens, too.
    pub fn from_secret(secret: &[u8]) -> Result<Self> {
        Ok(Self::new(Source::Given([Key::secret(secret)?].into())))
    }

    /// 1 to 16 public keys in PEM (`BEGIN PUBLIC KEY`): RSA with 2048 to 8192 bits, P-256 or Ed25519. The name of a key (`kid`)
    /// in a token is ignored.
    pub fn from_pem(pem: &str) -> Result<Self> {
        Ok(Self::new(Source::Given(Key::all_from_pem(pem)?.into())))
    }

    /// The address of a JSON Web Key Set: `https://`, or `http://` on this machine (loopback). The keys are fetched when the
    /// first token is checked.
    pub fn from_jwks(url: &str) -> Result<Self> {
        Ok(Self::with_jwks(Jwks::new(url)?))
    }

    pub(crate) fn with_jwks(jwks: Jwks) -> Self {
        Self::new(Source::Server(Arc::new(jwks)))
    }

    fn new(source: Source) -> Self {
        let rules = Rules {
            issuer: None,
            audience: None,
            leeway: LEEWAY,
        };
        Self { source, rules }
    }

    /// Tokens must have this issuer (`iss`). Default: any issuer, or none.
    #[must_use]
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.rules.issuer = Some(issuer.into());
        self
    }

    /// Tokens must be for this audience (`aud`), maybe among others. Default: tokens must have no audience, because a token for
    /// another system of the same issuer is not a token for this one.
    #[must_use]
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        self.rules.audience = Some(audience.into());
        self
    }

    /// The accepted difference between the issuer's clock and ours, at most 5 minutes. Default: 30 seconds.
    pub fn leeway(mut self, leeway: Duration) -> Result<Self> {
        if leeway > LEEWAY_MAX {
            return Err(Error::invalid(format!(
                "the leeway of member tokens is {leeway:?}; it must be at most {LEEWAY_MAX:?}"
            )));
        }
        self.rules.leeway = leeway;
        Ok(self)
    }

    /// The member whose token this is. Waits at most one second, and only for a key server, if the key of the token is not
    /// known yet.
    pub async fn verify(&self, token: &str) -> Result<Member, Refused> {
        let token = Token::parse(token)?;
        match &self.source {
            Source::Given(keys) => check_signature(&token, keys),
            Source::Server(jwks) => check_signature(&token, std::slice::from_ref(&*jwks.key_of(&token).await?)),
        }?;
        self.rules.judge(token.claims()?, clock::now())
    }

    /// A token for a member, with `iat`, `exp`, and the configured issuer and audience. Fails if there is no secret: only the
    /// issuer has the private keys.
    pub fn mint(&self, member: &str, lifetime: Duration) -> Result<String> {
        let Source::Given(keys) = &self.source else {
            return Err(no_secret("the address of a key server"));
        };
        let [Key::Secret(secret)] = &**keys else {
            return Err(no_secret("public keys"));
        };
        if !is_member_id(member) {
            return Err(Error::invalid(format!(
                "the id of a member has {} bytes; it must have 1 to {MEMBER_BYTES_MAX}",
                member.len()
            )));
        }
        let now = clock::now();
        let expires_at = expiry(now, lifetime)?;
        let mut claims = json!({ "sub": member, "iat": now.unix_timestamp(), "exp": expires_at.unix_timestamp() });
        if let Some(claims) = claims.as_object_mut() {
            let configured = [("iss", &self.rules.issuer), ("aud", &self.rules.audience)];
            let configured = configured
                .into_iter()
                .filter_map(|(name, value)| Some((name, value.as_ref()?)));
            claims.extend(configured.map(|(name, value)| (name.to_owned(), json!(value))));
        }
        Ok(sign(&claims, secret))
    }
}

impl fmt::Debug for MemberKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match &self.source {
            Source::Given(keys) => format!("{keys:?}"),
            Source::Server(_) => "Jwks(…)".to_owned(),
        };
        write!(f, "MemberKeys({source}, {:?})", self.rules)
    }
}

/// Whether one of the keys has signed the token.
fn check_signature(token: &Token<'_>, keys: &[Key]) -> Result<(), Refused> {
    if keys.iter().all(|key| key.algorithm() != token.algorithm) {
        return Err(Refused::WrongAlgorithm);
    }
    let is_signed = keys.iter().any(|key| token.is_signed_by(key));
    is_signed.then_some(()).ok_or(Refused::BadSignature)
}

fn no_secret(given: &str) -> Error {
    let doing =
        format!("only a secret can sign member tokens, and {given} is configured: the issuer must make the tokens");
    Error::new(ErrorKind::Unsupported, doing)
}

fn expiry(now: OffsetDateTime, lifetime: Duration) -> Result<OffsetDateTime> {
    let seconds = i64::try_from(lifetime.as_secs()).ok().filter(|seconds| *seconds > 0);
    seconds
        .and_then(|seconds| now.checked_add(time::Duration::seconds(seconds)))
        .ok_or_else(|| {
            Error::invalid(format!(
                "the lifetime of a member token is {lifetime:?}; it must be at least 1 s and end before the year 10000"
            ))
        })
}
