//! The limits of texts, in characters.

use std::num::NonZeroU32;

use serde::Deserialize;

use super::Refusal;

/// The largest limits that can be set: the columns hold no more characters.
const NICKNAME_MAX: u32 = 100;
const TITLE_MAX: u32 = 200;
const QUESTION_MAX: u32 = 500;
const OPTION_MAX: u32 = 200;
/// A column of MySQL's type `text` holds so many characters of four bytes.
const BODY_MAX: u32 = 16_000;

/// The longest texts that members may write, in characters.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// A nickname.
    pub nickname: NonZeroU32,
    /// The title of a post.
    pub title: NonZeroU32,
    /// The body of a post.
    pub post: NonZeroU32,
    /// A comment.
    pub comment: NonZeroU32,
    /// The question of a vote.
    pub question: NonZeroU32,
    /// An option of a vote.
    pub option: NonZeroU32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            nickname: const { NonZeroU32::new(30).unwrap() },
            title: const { NonZeroU32::new(100).unwrap() },
            post: const { NonZeroU32::new(10_000).unwrap() },
            comment: const { NonZeroU32::new(1_000).unwrap() },
            question: const { NonZeroU32::new(200).unwrap() },
            option: const { NonZeroU32::new(100).unwrap() },
        }
    }
}

impl Limits {
    /// Limits that are larger than the database can hold, each with its key.
    pub(crate) fn mistakes(&self) -> Vec<(&'static str, String)> {
        let limits = [
            ("limits.nickname", self.nickname, NICKNAME_MAX),
            ("limits.title", self.title, TITLE_MAX),
            ("limits.post", self.post, BODY_MAX),
            ("limits.comment", self.comment, BODY_MAX),
            ("limits.question", self.question, QUESTION_MAX),
            ("limits.option", self.option, OPTION_MAX),
        ];
        let too_large = limits.into_iter().filter(|(_, limit, max)| limit.get() > *max);
        too_large
            .map(|(key, _, max)| (key, format!("must be 1 to {max}")))
            .collect()
    }
}

/// Checks a text of a member: it is not blank, is within its limit, and every database can store it.
pub(crate) fn check_text(field: &str, text: &str, max: NonZeroU32) -> Result<(), Refusal> {
    let length = text.chars().count();
    let rule = if text.trim().is_empty() {
        format!("{field} is empty")
    } else if length > usize::try_from(max.get()).unwrap_or(usize::MAX) {
        format!("{field} has {length} characters, the limit is {max}")
    } else if text.contains('\0') {
        format!("{field} contains a NUL character, which cannot be stored")
    } else {
        return Ok(());
    };
    Err(Refusal::Invalid(rule))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_not_empty_and_within_its_limit() {
        let check = |text: &str, expected: Option<&str>| {
            let refused = check_text("title", text, const { NonZeroU32::new(5).unwrap() });
            assert_eq!(
                refused.err().map(|refusal| refusal.to_string()).as_deref(),
                expected,
                "{text:?}"
            );
        };
        check("가나다라마", None);
        check("🍜🍜🍜🍜🍜", None);
        check("", Some("title is empty"));
        check(" \n\t", Some("title is empty"));
        check("가나다라마바", Some("title has 6 characters, the limit is 5"));
        check("a\0b", Some("title contains a NUL character, which cannot be stored"));
    }

    #[test]
    fn a_limit_is_at_most_what_the_database_holds() {
        assert_eq!(Limits::default().mistakes(), Vec::new());
        let largest = Limits {
            post: NonZeroU32::new(BODY_MAX).unwrap(),
            ..Limits::default()
        };
        assert_eq!(largest.mistakes(), Vec::new());
        let larger = Limits {
            nickname: NonZeroU32::new(101).unwrap(),
            ..largest
        };
        assert_eq!(larger.mistakes(), [("limits.nickname", "must be 1 to 100".to_owned())]);
    }
}
