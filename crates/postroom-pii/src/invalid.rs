//! Mistakes in rules and keys.

use std::fmt;

/// A setting that the firewall refuses.
#[derive(Debug)]
#[non_exhaustive]
pub enum Invalid {
    /// A secret is too short.
    Secret {
        /// The id of the key.
        id: String,
        /// The reason.
        reason: &'static str,
    },
    /// The id of a key is empty, too long, or has other characters.
    KeyId {
        /// The id.
        id: String,
    },
    /// Two keys have one id.
    SameKeyId {
        /// The id.
        id: String,
    },
    /// The name of a key of documents has no letter.
    KeyName {
        /// The name.
        name: String,
    },
    /// A pattern is no regular expression.
    Pattern {
        /// The pattern.
        pattern: String,
        /// The reason.
        source: Box<regex::Error>,
    },
    /// A pattern matches the empty text or a mark such as `[email]`.
    PatternTooWide {
        /// The pattern.
        pattern: String,
        /// The text that it must not match.
        text: &'static str,
    },
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret { id, reason } => write!(
                f,
                "the secret of hash key {id:?} {reason}; generate one with: openssl rand -base64 48"
            ),
            Self::KeyId { id } => write!(
                f,
                "the id of hash key {id:?} must have 1 to 16 characters of a-z, 0-9, - and _"
            ),
            Self::SameKeyId { id } => write!(f, "two hash keys have the id {id:?}; give the new key its own id"),
            Self::KeyName { name } => write!(f, "the key name {name:?} in a rule has no letter"),
            Self::Pattern { pattern, .. } => write!(f, "the pattern {pattern:?} is no regular expression"),
            Self::PatternTooWide { pattern, text } => write!(
                f,
                "the pattern {pattern:?} matches {text:?}, so it would match its own result; make it narrower"
            ),
        }
    }
}

impl std::error::Error for Invalid {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Pattern { source, .. } => Some(source),
            Self::Secret { .. }
            | Self::KeyId { .. }
            | Self::SameKeyId { .. }
            | Self::KeyName { .. }
            | Self::PatternTooWide { .. } => None,
        }
    }
}
