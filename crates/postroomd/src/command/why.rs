//! `postroom why`: what holds things up, or where one event has got to.

use anyhow::Result;
use clap::Args;
use postroom::inspect::{self, Reason, Timeline};
use uuid::Uuid;

use crate::age::with_date;
use crate::config::Config;
use crate::listing::{Cell, Listing};
use crate::output::{self, Paint, Tone, clean, print, print_json};

/// Tell what holds things up and the next safe step, or the way of one event
#[derive(Debug, Args)]
pub(crate) struct Why {
    /// The event whose way to show
    event_id: Option<Uuid>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Why {
    pub(crate) async fn run(self, config: &Config) -> Result<()> {
        let store = config.store.url.open_ready().await?;
        store.pulse().await?;
        match self.event_id {
            Some(event_id) => {
                let timeline = inspect::timeline(store.as_ref(), event_id).await?;
                if self.json {
                    print_json(&timeline)
                } else {
                    show_timeline(&timeline)
                }
            }
            None => {
                let reasons = inspect::why(store.as_ref()).await?;
                if self.json {
                    print_json(&reasons)
                } else {
                    show_reasons(&reasons)
                }
            }
        }
    }
}

fn show_reasons(reasons: &[Reason]) -> Result<()> {
    let paint = Paint::detect();
    if reasons.is_empty() {
        return print("nothing holds anything up");
    }
    for reason in reasons {
        let title = format!("{} {}", reason.what, clean(&reason.who));
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

fn show_timeline(timeline: &Timeline) -> Result<()> {
    let paint = Paint::detect();
    let event = &timeline.entry.event;
    let place = if timeline.is_archived {
        "archived"
    } else {
        "in the outbox"
    };
    print(format!(
        "{}  {}",
        paint.paint(Tone::Strong, &clean(&event.event_type)),
        event.id
    ))?;
    print(format!(
        "key       {}/{}",
        clean(&event.aggregate_type),
        clean(&event.aggregate_id)
    ))?;
    print(format!("occurred  {}", with_date(event.occurred_at)))?;
    print(format!(
        "recorded  {}  entry {}, {place}",
        with_date(timeline.entry.created_at),
        timeline.entry.id
    ))?;
    if let Some(cause) = event.headers.get(postroom::CAUSATION_ID) {
        print(format!("caused by {}", clean(cause)))?;
    }
    if timeline.steps.is_empty() {
        return print("\nno route knows it: a relay registers routes when it starts");
    }
    let mut listing = Listing::new(&["route", "state", "#attempts", "handled at", "last error"]);
    for step in &timeline.steps {
        listing.row([
            step.route.as_str().into(),
            state(&step.state),
            step.attempts
                .map(|attempts| attempts.to_string())
                .unwrap_or_default()
                .into(),
            step.handled_at.map(with_date).unwrap_or_default().into(),
            step.error.as_deref().unwrap_or_default().into(),
        ]);
    }
    print(format!(
        "\n{}",
        listing.text(output::size().map(|(columns, _)| columns), paint)
    ))
}

fn state(name: &str) -> Cell {
    let tone = match name {
        "passed" | "retried" => Tone::Good,
        "dead" | "held" => Tone::Bad,
        "parked" | "waiting" => Tone::Warn,
        _ => Tone::Plain,
    };
    Cell::new(tone, name)
}
