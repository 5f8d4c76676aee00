//! The reasons for a rejected request: a code for programs and a message for people.

use std::fmt;

/// A rule that a request breaks. A rejected request changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A text is empty or too long, or a number is outside its range; the text says so.
    Invalid(String),
    /// There is no such thing: a post, a comment, a vote, a member, a notification.
    Unknown(&'static str),
    /// Members cannot follow themselves.
    OwnFollow,
    /// The comment is another member's.
    NotYourComment,
    /// The vote takes no ballots any more.
    VoteClosed,
}

impl Refusal {
    /// The stable code for clients.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "invalid",
            Self::Unknown(_) => "not_found",
            Self::OwnFollow => "own_follow",
            Self::NotYourComment => "not_your_comment",
            Self::VoteClosed => "vote_closed",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(rule) => f.write_str(rule),
            Self::Unknown(thing) => write!(f, "there is no such {thing}"),
            Self::OwnFollow => f.write_str("members cannot follow themselves"),
            Self::NotYourComment => f.write_str("the comment is another member's; only its author can delete it"),
            Self::VoteClosed => f.write_str("the vote is closed"),
        }
    }
}
