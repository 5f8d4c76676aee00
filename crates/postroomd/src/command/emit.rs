//! `postroom emit`: an event from the command line.

use std::io::Read as _;

use anyhow::{Context as _, Result};
use clap::Args;
use postroom::{Event, parse_payload, table};
use postroom_terminal::age::parse_time;
use postroom_terminal::output::{print, print_json};
use time::OffsetDateTime;

use crate::config::Config;

/// Record an event in the outbox, and print its id
#[derive(Debug, Args)]
pub(crate) struct Emit {
    /// The event type, for example shop.order.placed.v1
    #[arg(long, value_name = "TYPE")]
    r#type: String,
    /// The kind of thing it happened to, for example order
    #[arg(long, value_name = "NAME")]
    aggregate_type: String,
    /// Which one of them; events of one aggregate stay in order
    #[arg(long, value_name = "ID")]
    aggregate_id: String,
    /// The fact itself as JSON; - reads it from standard input
    #[arg(long, value_name = "JSON")]
    payload: String,
    /// A header that travels with it; can be repeated
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = parse_header)]
    headers: Vec<(String, String)>,
    /// Which service says so
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Not now, but at this time, for example 2026-01-31T18:30:00Z
    #[arg(long, value_name = "RFC3339", value_parser = parse_time)]
    at: Option<OffsetDateTime>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Emit {
    pub(crate) async fn run(self, config: &Config) -> Result<()> {
        let event = self.event()?;
        let store = config.store.url.open_ready().await?;
        let tx = table::begin(store.db()).await?;
        match self.at {
            None => postroom::append(&tx, std::slice::from_ref(&event)).await?,
            Some(due_at) => postroom::schedule(&tx, &event, due_at).await?,
        }
        tx.commit().await.context("commit the event")?;
        match self.json {
            true => print_json(&serde_json::json!({ "id": event.id })),
            false => print(event.id),
        }
    }

    fn event(&self) -> Result<Event> {
        let payload = match self.payload.as_str() {
            "-" => read_stdin()?,
            json => json.to_owned(),
        };
        let mut event = Event::new(
            &self.r#type,
            &self.aggregate_type,
            &self.aggregate_id,
            parse_payload(&payload)?,
        )?;
        event.source = self.source.clone().unwrap_or_default();
        event.headers.extend(self.headers.iter().cloned());
        Ok(event)
    }
}

fn read_stdin() -> Result<String> {
    let mut text = String::new();
    // One byte past the limit is enough to be refused.
    let limit = u64::try_from(postroom::PAYLOAD_BYTES_MAX)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    std::io::stdin()
        .take(limit)
        .read_to_string(&mut text)
        .context("read the payload from standard input")?;
    Ok(text)
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write a header as NAME=VALUE".to_owned()),
    }
}
