//! The results of checks.

use anyhow::Result;
use serde::Serialize;

use crate::listing::{Cell, Listing};
use crate::output::{Paint, Tone, print};

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// Whether it is well.
    pub state: State,
    /// The object of the check.
    pub what: String,
    /// The result in words.
    pub says: String,
    /// The next step for the operator, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is well.
    Ok,
    /// It can cost events or time under some conditions.
    Warn,
    /// It does not work.
    Fail,
}

impl Finding {
    /// A check that found nothing wrong.
    pub fn ok(what: impl Into<String>, says: impl Into<String>) -> Self {
        Self {
            state: State::Ok,
            what: what.into(),
            says: says.into(),
            next: None,
        }
    }

    /// A check that found a risk, and the next step.
    pub fn warn(what: impl Into<String>, says: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            state: State::Warn,
            what: what.into(),
            says: says.into(),
            next: Some(next.into()),
        }
    }

    /// A check that failed, and the next step.
    pub fn fail(what: impl Into<String>, says: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            state: State::Fail,
            what: what.into(),
            says: says.into(),
            next: Some(next.into()),
        }
    }
}

/// Prints one line for each, and its next step below it.
pub fn show(findings: &[Finding]) -> Result<()> {
    let mut listing = Listing::new(&["", "what", "says"]);
    for finding in findings {
        let state = match finding.state {
            State::Ok => Cell::new(Tone::Good, "ok"),
            State::Warn => Cell::new(Tone::Warn, "warn"),
            State::Fail => Cell::new(Tone::Bad, "fail"),
        };
        listing.row([state, finding.what.as_str().into(), finding.says.as_str().into()]);
        if let Some(next) = &finding.next {
            listing.row(["".into(), "".into(), format!("→ {next}").into()]);
        }
    }
    let lines = listing.lines(None, Paint::detect());
    print(lines.into_iter().skip(1).collect::<Vec<_>>().join("\n"))
}
