//! The catalogue of events.

use anyhow::Result;
use postroom_host::{Catalogue, Listed};

use crate::output::{self, Paint, Tone, print, wrap};

/// The width to write for when there is no terminal.
const USUAL: usize = 80;
const INDENT: &str = "  ";

/// Prints every event type.
pub fn list(catalogue: &Catalogue) -> Result<()> {
    let (width, paint) = (output::columns().unwrap_or(USUAL), Paint::detect());
    let events = catalogue.events.iter();
    let told: Vec<String> = events.map(|event| block(event, width, paint)).collect();
    print(told.join("\n\n"))
}

/// An event type in lines that fit: what it is, what happened, who listens.
fn block(listed: &Listed, width: usize, paint: Paint) -> String {
    let (event, topic) = (&listed.event, &listed.topic);
    let summary = listed.description.lines().next().unwrap_or_default();
    let listeners = match listed.subscribers.is_empty() {
        true => "nobody listens".to_owned(),
        false => format!("to {}", listed.listeners().join(", ")),
    };
    let about = format!("of {}, topic {topic}", event.aggregate_type);
    let mut lines = vec![paint.paint(Tone::Strong, event.name)];
    lines.extend(wrap(summary, width, INDENT));
    lines.extend(wrap(&about, width, INDENT));
    let faint = |line: String| paint.paint(Tone::Faint, &line);
    lines.extend(wrap(&listeners, width, INDENT).into_iter().map(faint));
    lines.join("\n")
}
