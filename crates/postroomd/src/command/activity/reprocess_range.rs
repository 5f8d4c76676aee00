//! `postroom activity reprocess` and `reprocesses`.

use anyhow::Result;
use clap::Args;
use postroom_activity::reprocess::{self, Range};
use postroom_terminal::output::{print, print_json};
use postroom_terminal::page;
use time::OffsetDateTime;

use super::super::actor;
use super::parse_time;
use crate::config::Config;

#[derive(Debug, Args)]
pub(crate) struct Reprocess {
    /// Domain events recorded at or after this time, such as 2026-02-18T10:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    from: OffsetDateTime,
    /// Domain events recorded before this time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    until: OffsetDateTime,
    /// Those that are mapped to activity events of this name, such as review.created
    #[arg(long = "name", value_name = "NAME")]
    event_name: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Reprocesses {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Reprocess {
    pub(super) async fn run(self, config: &Config) -> Result<()> {
        let store = config.store.url.open_ready().await?;
        let range = Range {
            from: self.from,
            until: self.until,
            event_name: self.event_name,
        };
        let id = reprocess::begin(store.as_ref(), &range, &actor()).await?;
        match self.json {
            true => print_json(&serde_json::json!({ "reprocessId": id })),
            false => print(format!(
                "{id} has begun; `postroom activity reprocesses` shows its progress"
            )),
        }
    }
}

impl Reprocesses {
    pub(super) async fn run(self, config: &Config) -> Result<()> {
        let store = config.store.url.open_ready().await?;
        let all = reprocess::list(store.db()).await?;
        if self.json {
            return print_json(&all);
        }
        page::activity::reprocesses(&all)
    }
}
