//! `postroom tail`: read the outbox like a log file.

use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use postroom::operate::Tail as Reader;
use postroom::{Entry, Filter};
use postroom_terminal::age::with_date;
use postroom_terminal::output::{Paint, Tone, clean, print, print_json_line};

use crate::config::Config;

/// The longest wait between two looks for news.
const LOOK_MAX: Duration = Duration::from_millis(500);
const LOOK_MIN: Duration = Duration::from_millis(20);

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

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Place {
    /// The oldest event that is kept
    Beginning,
    /// Events committed from now on
    Head,
}

impl Tail {
    pub(crate) async fn run(self, config: &Config) -> Result<()> {
        let store = config.store.url.open_ready_to_read().await?;
        let default = if self.follow { Place::Head } else { Place::Beginning };
        let mut reader = match self.from.unwrap_or(default) {
            Place::Beginning => Reader::from_beginning(store.as_ref()),
            Place::Head => Reader::from_head(store.as_ref()).await?,
        };
        let mut wait = LOOK_MIN;
        loop {
            let is_new = self.show_all(&mut reader).await?;
            if !self.follow {
                return Ok(());
            }
            wait = if is_new { LOOK_MIN } else { (wait * 2).min(LOOK_MAX) };
            tokio::time::sleep(wait).await;
        }
    }

    /// Shows everything that is committed and not shown yet; answers whether there was anything.
    async fn show_all(&self, reader: &mut Reader<'_>) -> Result<bool> {
        let filter = if self.types.is_empty() {
            Filter::all()
        } else {
            Filter::any_of(self.types.clone())
        };
        let (paint, mut is_new) = (Paint::detect(), false);
        while let Some(entries) = reader.next().await? {
            is_new |= !entries.is_empty();
            for entry in entries.iter().filter(|entry| filter.matches(&entry.event.event_type)) {
                match self.json {
                    true => print_json_line(entry)?,
                    false => print(line(entry, paint))?,
                }
            }
        }
        Ok(is_new)
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
