//! The errors for requests that break a rule, with stable codes for clients, and the limits of request values.

use axum::http::StatusCode;
use postroom_host::Problem;

/// Maximum number of entries in a list of a request.
const LIST_MAX: usize = 100;

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The kind of the error.
    pub(crate) kind: Kind,
    /// The stable code for programs.
    pub(crate) code: &'static str,
    /// The message for people.
    pub(crate) says: String,
}

/// The kinds of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The named thing does not exist.
    Absent,
    /// The current state does not allow the request.
    Conflict,
    /// The request is invalid in every state.
    Invalid,
    /// The card was not charged.
    Unpaid,
}

impl Refusal {
    /// An error for something that does not exist.
    pub(crate) fn absent(code: &'static str, says: impl Into<String>) -> Self {
        Self::new(Kind::Absent, code, says)
    }

    /// An error for a request that the current state does not allow.
    pub(crate) fn conflict(code: &'static str, says: impl Into<String>) -> Self {
        Self::new(Kind::Conflict, code, says)
    }

    /// An error for an invalid request.
    pub(crate) fn invalid(code: &'static str, says: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, code, says)
    }

    pub(crate) fn new(kind: Kind, code: &'static str, says: impl Into<String>) -> Self {
        let says = says.into();
        Self { kind, code, says }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let status = match refusal.kind {
            Kind::Absent => StatusCode::NOT_FOUND,
            Kind::Conflict => StatusCode::CONFLICT,
            Kind::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
            Kind::Unpaid => StatusCode::PAYMENT_REQUIRED,
        };
        Self::new(status, refusal.code, refusal.says)
    }
}

/// Checks an id of a request: the characters of Discord's numbers and of our own ids. Capital letters are not allowed,
/// because MySQL compares them as equal to lower case.
pub(crate) fn check_id(field: &str, id: &str) -> Result<(), Refusal> {
    let is_legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    if id.is_empty() || id.len() > 36 || !id.chars().all(is_legal) {
        let says = format!("{field} must have 1 to 36 of a-z, 0-9, '-' and '_'");
        return Err(Refusal::invalid("invalid", says));
    }
    Ok(())
}

/// Checks a text of a request.
pub(crate) fn check_text(field: &str, text: &str, chars_max: usize) -> Result<(), Refusal> {
    if text.trim().is_empty() || text.chars().count() > chars_max || text.chars().any(char::is_control) {
        let says = format!("{field} must have 1 to {chars_max} characters, none of them a control character");
        return Err(Refusal::invalid("invalid", says));
    }
    Ok(())
}

/// Checks a list of short texts of a request.
pub(crate) fn check_list(field: &str, texts: &[String]) -> Result<(), Refusal> {
    if texts.is_empty() || texts.len() > LIST_MAX {
        let says = format!("{field} must have 1 to {LIST_MAX} entries");
        return Err(Refusal::invalid("invalid", says));
    }
    texts.iter().try_for_each(|text| check_text(field, text, 100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_send_has_limits() {
        for (id, is_good) in [
            ("80351110224678912", true),
            ("a-b_c", true),
            ("", false),
            ("Ada", false),
            ("a b", false),
        ] {
            assert_eq!(check_id("id", id).is_ok(), is_good, "{id:?}");
        }
        assert!(check_text("text", "\u{7}", 10).is_err() && check_text("text", "elf chars..", 10).is_err());
        assert!(check_list("list", &[]).is_err() && check_list("list", &vec!["a".to_owned(); 101]).is_err());
        assert!(check_list("list", &["a".to_owned()]).is_ok());
    }
}
