//! The reasons why a member token is refused.

use std::fmt;

/// The reason why a member token is refused. Its text contains nothing of the token and of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The text is not a signed JWT, is too long, or has a claim of the wrong type.
    Malformed,
    /// The token names another algorithm than the key's. `none` is such an algorithm.
    WrongAlgorithm,
    /// No key has the name (`kid`) in the token; or the token has no name, and not exactly one key fits.
    UnknownKey,
    /// The signature is not of the key.
    BadSignature,
    /// The token has no time of expiry (`exp`).
    NoExpiry,
    /// The token has expired.
    Expired,
    /// The token is not valid yet (`nbf`).
    NotYetValid,
    /// Another issuer (`iss`) than the configured one, or none.
    WrongIssuer,
    /// The token is for another audience (`aud`) than the configured one. A token with an audience is refused also if none is
    /// configured.
    WrongAudience,
    /// The token has no subject (`sub`) of 1 to 200 bytes.
    NoSubject,
    /// The keys were never fetched: the key server does not answer, or answers without a usable key.
    KeysUnavailable,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "the token is malformed",
            Self::WrongAlgorithm => "the token names an algorithm that its key does not have",
            Self::UnknownKey => "the token is signed with an unknown key",
            Self::BadSignature => "the token has a wrong signature",
            Self::NoExpiry => "the token has no time of expiry (exp)",
            Self::Expired => "the token has expired",
            Self::NotYetValid => "the token is not valid yet (nbf)",
            Self::WrongIssuer => "the token has another issuer (iss) than this system accepts",
            Self::WrongAudience => "the token is for another audience (aud) than this system",
            Self::NoSubject => "the token has no subject (sub) of 1 to 200 bytes",
            Self::KeysUnavailable => "the keys for member tokens could not be fetched yet; try again later",
        })
    }
}

impl std::error::Error for Refused {}
