//! Dead letters: a list of them, and one in full.

use anyhow::Result;
use postroom::dead::{self, DeadLetter};
use postroom::operate::counted;

use crate::age::with_date;
use crate::listing::Listing;
use crate::output::{Paint, Tone, clean, print};
use crate::text;

/// Prints these, which are at most `limit`, and how to see more of them.
pub fn list(letters: &[DeadLetter], limit: u64) -> Result<()> {
    if letters.is_empty() {
        return print("no dead letters");
    }
    let mut listing = Listing::new(&[
        "#id",
        "state",
        "died",
        "route",
        "type",
        "key",
        "#attempts",
        "last error",
    ]);
    for letter in letters {
        let event = &letter.entry.event;
        listing.row([
            letter.dead_id.into(),
            letter.state.into(),
            with_date(letter.dead_at).into(),
            letter.route.as_str().into(),
            event.event_type.as_str().into(),
            event.key().into(),
            letter.attempts.into(),
            letter.error.as_str().into(),
        ]);
    }
    print(listing.text())?;
    match letters.last().filter(|_| has_more(letters, limit)) {
        Some(oldest) => print(format!("there may be more: --before {}", oldest.dead_id)),
        None => Ok(()),
    }
}

/// Whether there may be more: as many as were asked for, or fewer because they are large.
fn has_more(letters: &[DeadLetter], limit: u64) -> bool {
    let bytes: usize = letters
        .iter()
        .map(|letter| letter.entry.event.payload.get().len())
        .sum();
    letters.len() as u64 == limit || bytes >= dead::LIST_BYTES / 2
}

/// Prints one with its payload, its headers and the next step.
pub fn show(letter: &DeadLetter) -> Result<()> {
    let paint = Paint::detect();
    let event = &letter.entry.event;
    let title = format!(
        "dead letter {} of {}: {}",
        letter.dead_id,
        clean(&letter.route),
        letter.state
    );
    print(paint.paint(Tone::Strong, &title))?;
    print(format!("event     {}  {}", clean(&event.event_type), event.id))?;
    print(format!("key       {}", clean(&event.key().to_string())))?;
    print(format!("recorded  {}", with_date(letter.entry.created_at)))?;
    if let Some(failed_at) = letter.failed_at {
        print(format!("failed    {} for the first time", with_date(failed_at)))?;
    }
    print(format!(
        "given up  {} after {}",
        with_date(letter.dead_at),
        counted(letter.attempts.into(), "attempt", "attempts")
    ))?;
    print(format!("error     {}", paint.paint(Tone::Bad, &clean(&letter.error))))?;
    if let Some((at, who)) = letter.decided_at.zip(letter.decided_by.as_ref()) {
        print(format!(
            "decided   {} {} by {}",
            with_date(at),
            letter.state,
            clean(who)
        ))?;
    }
    if let Some(reason) = &letter.reason {
        print(format!("reason    {}", clean(reason)))?;
    }
    for (name, value) in &event.headers {
        print(format!("header    {}={}", clean(name), clean(value)))?;
    }
    print(format!("payload   {}", clean(event.payload.get())))?;
    match letter.next_steps().as_slice() {
        [] => Ok(()),
        steps => print(format!("\nnext: {}", text::next(steps))),
    }
}
