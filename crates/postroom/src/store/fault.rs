//! Why a store fails, as far as the codes of its errors tell, and what to do about it.

use serde::Serialize;

use crate::error::{Condition, Error, NextStep};

/// A fault of a store, the plainest cause first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// There is no room for another row.
    DiskFull,
    /// The platform's tables are not there.
    TablesMissing,
    /// Every connection of this process is in use.
    PoolDry,
    /// Another session holds a lock that is needed.
    Locked,
    /// Something else: the error says more.
    Other,
}

impl Fault {
    /// The fault that an error of a store shows.
    pub fn of(error: &Error) -> Self {
        match error.condition() {
            Condition::DiskFull => Self::DiskFull,
            Condition::TablesMissing => Self::TablesMissing,
            Condition::PoolTimedOut => Self::PoolDry,
            Condition::Locked => Self::Locked,
            _ => Self::Other,
        }
    }

    /// Says in English what is wrong and how it is repaired, for logs and health checks. See [`Fault::next_steps`] for code.
    pub fn advice(self) -> &'static str {
        match self {
            Self::DiskFull => "the database's disk is full; make room, and it goes on by itself",
            Self::TablesMissing => {
                "the tables of Postroom are missing in this database; apply the migrations, and it goes on by itself"
            }
            Self::PoolDry => {
                "every connection of this process is in use; look for handlers that wait, and for transactions that block \
                 them: `why` names those"
            }
            Self::Locked => {
                "the database does not answer in time, or holds a lock; `why` names the session that blocks"
            }
            Self::Other => "the store fails",
        }
    }

    /// The steps that an operator can take.
    pub fn next_steps(self) -> Vec<NextStep> {
        match self {
            Self::DiskFull => vec![NextStep::FreeDisk],
            Self::TablesMissing => vec![NextStep::Migrate],
            Self::PoolDry => vec![NextStep::CheckHandlers, NextStep::AskWhy],
            Self::Locked => vec![NextStep::AskWhy],
            Self::Other => vec![NextStep::CheckDatabase],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn each_condition_has_its_fault() {
        let check = |condition: Condition, expected: Fault| {
            let error = Error::new(ErrorKind::Failed, "settle").meaning(condition);
            let outer = Error::caused(ErrorKind::Failed, "work", error);
            assert_eq!(Fault::of(&outer), expected, "{condition:?}");
        };
        check(Condition::DiskFull, Fault::DiskFull);
        check(Condition::TablesMissing, Fault::TablesMissing);
        check(Condition::PoolTimedOut, Fault::PoolDry);
        check(Condition::Locked, Fault::Locked);
        check(Condition::Unavailable, Fault::Other);
        check(Condition::Cancelled, Fault::Other);
        check(Condition::Other, Fault::Other);
    }

    #[test]
    fn words_alone_have_no_fault() {
        let full = Error::invalid("take: database or disk is full");
        assert_eq!(Fault::of(&full), Fault::Other);
    }
}
