//! Votes: what one may ask, and until when one may answer.

use super::limits::{Limits, check_text};
use super::refusal::Refusal;

/// Options of one vote.
const OPTIONS_MIN: usize = 2;
const OPTIONS_MAX: usize = 20;
/// A vote closes within a year.
const OPEN_MS_MAX: i64 = 366 * 86_400_000;

/// A vote that a member makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewVote {
    pub(crate) question: String,
    /// Numbered from 1 in this order.
    pub(crate) options: Vec<String>,
    /// In milliseconds since 1970.
    pub(crate) closes_ms: i64,
}

impl NewVote {
    pub(crate) fn check(&self, limits: &Limits, now_ms: i64) -> Result<(), Refusal> {
        check_text("question", &self.question, limits.question)?;
        let count = self.options.len();
        if !(OPTIONS_MIN..=OPTIONS_MAX).contains(&count) {
            let rule = format!("options has {count} items; give {OPTIONS_MIN} to {OPTIONS_MAX}");
            return Err(Refusal::Invalid(rule));
        }
        for option in &self.options {
            check_text("an option", option, limits.option)?;
        }
        let mut distinct: Vec<&str> = self.options.iter().map(|option| option.trim()).collect();
        distinct.sort_unstable();
        distinct.dedup();
        if distinct.len() < count {
            return Err(Refusal::Invalid("two options are the same".to_owned()));
        }
        if self.closes_ms <= now_ms || self.closes_ms - now_ms > OPEN_MS_MAX {
            let rule = "closesAt must lie in the future, and at most a year ahead";
            return Err(Refusal::Invalid(rule.to_owned()));
        }
        Ok(())
    }
}

/// A vote, as far as it decides on a ballot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ballot {
    pub(crate) closes_ms: i64,
    pub(crate) is_closed: bool,
    pub(crate) options: i32,
}

impl Ballot {
    /// A ballot is taken until the vote's time has come, and never after its result was counted.
    pub(crate) fn check(self, option: i32, now_ms: i64) -> Result<(), Refusal> {
        if self.is_closed || now_ms >= self.closes_ms {
            Err(Refusal::VoteClosed)
        } else if !(1..=self.options).contains(&option) {
            let rule = format!("option is {option}; it must be 1 to {}", self.options);
            Err(Refusal::Invalid(rule))
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vote_has_a_question_distinct_options_and_a_time_ahead() {
        let fine = NewVote {
            question: "Lunch?".to_owned(),
            options: vec!["김밥".to_owned(), "라면".to_owned()],
            closes_ms: 2_000,
        };
        let check = |change: &dyn Fn(&mut NewVote), expected: Option<&str>| {
            let mut vote = fine.clone();
            change(&mut vote);
            let refused = vote.check(&Limits::default(), 1_000).err();
            let says = refused.map(|refusal| refusal.to_string()).unwrap_or_default();
            assert!(
                expected.map_or(says.is_empty(), |part| says.contains(part)),
                "{vote:?}: {says}"
            );
        };
        check(&|_| (), None);
        check(&|vote| vote.question.clear(), Some("question is empty"));
        check(
            &|vote| vote.options.truncate(1),
            Some("options has 1 items; give 2 to 20"),
        );
        check(
            &|vote| vote.options = (0..21).map(|n| n.to_string()).collect(),
            Some("options has 21 items"),
        );
        check(
            &|vote| vote.options = vec!["a".into(), " a ".into()],
            Some("two options are the same"),
        );
        check(
            &|vote| vote.options = vec!["a".into(), String::new()],
            Some("an option is empty"),
        );
        check(&|vote| vote.closes_ms = 1_000, Some("closesAt must lie in the future"));
        check(
            &|vote| vote.closes_ms = i64::MIN,
            Some("closesAt must lie in the future"),
        );
        check(&|vote| vote.closes_ms = 1_000 + OPEN_MS_MAX, None);
        check(&|vote| vote.closes_ms = i64::MAX, Some("at most a year"));
    }

    #[test]
    fn a_ballot_is_taken_until_the_time_of_the_vote() {
        let open = Ballot {
            closes_ms: 2_000,
            is_closed: false,
            options: 3,
        };
        assert_eq!(open.check(3, 1_999), Ok(()));
        assert_eq!(open.check(1, 2_000), Err(Refusal::VoteClosed));
        let closed = Ballot {
            is_closed: true,
            ..open
        };
        assert_eq!(closed.check(1, 1_000), Err(Refusal::VoteClosed));
        for wrong in [0, 4, -1, i32::MIN] {
            assert!(matches!(open.check(wrong, 1_000), Err(Refusal::Invalid(_))), "{wrong}");
        }
    }
}
