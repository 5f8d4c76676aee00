//! The rules of the community: texts, votes, notifications. No database, no HTTP.

mod limits;
mod notification;
mod refusal;
mod vote;

pub use limits::Limits;
pub(crate) use limits::check_text;
pub(crate) use notification::Telling;
pub(crate) use refusal::Refusal;
pub(crate) use vote::{Ballot, NewVote};
