//! `postroom retry`: try a parked event now.

use anyhow::Result;
use clap::Args;
use postroom::operate::{self, NextStep};
use postroom_terminal::output::print_json;
use postroom_terminal::page;
use uuid::Uuid;

use super::{actor, event_id};
use crate::config::Config;

/// Try an event now that waits for its retry, and what waits behind it; `postroom dead retry` is for what was given up
#[derive(Debug, Args)]
pub(crate) struct Retry {
    /// The event: its id, as `why` and `tail` print it
    #[arg(value_parser = event_id::parse)]
    event_id: Uuid,
    /// Only on this route, instead of on all that have parked it
    #[arg(long)]
    route: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Retry {
    pub(crate) async fn run(self, config: &Config) -> Result<()> {
        let store = config.store.url.open_ready().await?;
        let retried = operate::retry_now(store.as_ref(), self.event_id, self.route.as_deref(), &actor()).await?;
        match self.json {
            true => print_json(&retried),
            false => page::retry::show(
                &retried,
                NextStep::ShowEvent {
                    event_id: self.event_id,
                },
            ),
        }
    }
}
