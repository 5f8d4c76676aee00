//! The reasons why events wait, each with its next step.

use anyhow::Result;
use postroom::operate::{Reason, ReasonKind};
use serde::Serialize;

use crate::output::{Paint, Tone, clean, print};
use crate::text;

/// A reason in words.
#[derive(Debug, Serialize)]
pub struct Told {
    /// The kind of the reason.
    pub what: ReasonKind,
    /// Its place: a route, a relay, a session.
    pub who: String,
    /// The reason as a sentence about its place.
    pub says: String,
    /// The next steps.
    pub next: String,
}

impl From<&Reason> for Told {
    fn from(reason: &Reason) -> Self {
        Self {
            what: reason.kind(),
            who: text::place(reason).to_owned(),
            says: text::reason(reason),
            next: text::next(&reason.next_steps()),
        }
    }
}

/// Prints them, the first cause first.
pub fn show(reasons: &[Told]) -> Result<()> {
    let paint = Paint::detect();
    if reasons.is_empty() {
        return print("nothing holds anything up");
    }
    for reason in reasons {
        let title = format!("{} {}", text::kind(reason.what), clean(&reason.who));
        print(format!(
            "{}: {}",
            paint.paint(Tone::Strong, &title),
            clean(&reason.says)
        ))?;
        print(format!(
            "  {} {}",
            paint.paint(Tone::Faint, "next:"),
            clean(&reason.next)
        ))?;
    }
    Ok(())
}
