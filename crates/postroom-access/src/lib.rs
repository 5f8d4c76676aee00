#![doc = include_str!("../README.md")]

mod claims;
mod failed_tries;
mod jwks;
mod key;
mod key_set;
mod member;
mod refused;
#[cfg(test)]
mod tests;
mod token;

pub use claims::Member;
pub use failed_tries::{FailedTries, RetryAfter};
pub use member::MemberKeys;
pub use refused::Refused;
