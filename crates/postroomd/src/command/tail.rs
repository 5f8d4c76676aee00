//! `postroom tail`: read the outbox like a log file.

use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use postroom::{Entry, Filter, Inspect, Position};

use crate::age::with_date;
use crate::config::Config;
use crate::output::{Paint, Tone, clean, print, print_json_line};

/// The longest wait between two looks for news.
const LOOK_MAX: Duration = Duration::from_millis(500);
const LOOK_MIN: Duration = Duration::from_millis(20);
const PAGE: usize = 500;

/// Show the events of the outbox, without delivering them to anybody
#[derive(Debug, Args)]
pub(crate) struct Tail {
    /// Only types that match: * is one segment, ** the rest; can be repeated
    #[arg(long = "type", value_name = "PATTERN")]
    types: Vec<String>,
    /// Go on with what comes
    #[arg(long, short)]
    follow: bool,
    /// Where to begin [default: beginning, with --follow head]
    #[arg(long, value_enum, value_name = "WHERE")]
    from: Option<Place>,
    /// Print JSON, one document per line
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Place {
    /// The oldest event that is kept
    Beginning,
    /// What comes from now on
    Head,
}

impl Tail {
    pub(crate) async fn run(self, config: &Config) -> Result<()> {
        let store = config.store.url.open_ready().await?;
        let default = if self.follow { Place::Head } else { Place::Beginning };
        let mut position = Position::START;
        if self.from.unwrap_or(default) == Place::Head {
            store.pulse().await?;
            position = store.head().await?;
        }
        let mut wait = LOOK_MIN;
        loop {
            let begun_at = position;
            let pulse = store.pulse().await?;
            position = self.show_from(store.as_ref(), position).await?;
            if pulse.more {
                continue;
            }
            if !self.follow {
                return Ok(());
            }
            wait = if position == begun_at {
                (wait * 2).min(LOOK_MAX)
            } else {
                LOOK_MIN
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// Shows everything up to the head; answers where that is.
    async fn show_from(&self, store: &dyn Inspect, mut position: Position) -> Result<Position> {
        let filter = if self.types.is_empty() {
            Filter::all()
        } else {
            Filter::any_of(self.types.clone())
        };
        let paint = Paint::detect();
        loop {
            let page = store.read(position, PAGE).await?;
            for entry in page
                .entries
                .iter()
                .filter(|entry| filter.matches(&entry.event.event_type))
            {
                match self.json {
                    true => print_json_line(entry)?,
                    false => print(line(entry, paint))?,
                }
            }
            if page.next == position {
                return Ok(position);
            }
            position = page.next;
        }
    }
}

fn line(entry: &Entry, paint: Paint) -> String {
    let event = &entry.event;
    let key = format!("{}/{}", clean(&event.aggregate_type), clean(&event.aggregate_id));
    format!(
        "{}  {}  {}  {}  {}",
        paint.paint(Tone::Faint, &with_date(entry.created_at)),
        event.id,
        paint.paint(Tone::Strong, &clean(&event.event_type)),
        key,
        clean(event.payload.get())
    )
}
