//! `postroom activity reprocess` and `reprocesses`.

use anyhow::Result;
use clap::Args;
use postroom_activity::reprocess::{self, Range};
use time::OffsetDateTime;

use super::super::actor;
use super::parse_time;
use crate::config::Config;
use crate::listing::Listing;
use crate::output::{print, print_json};

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
        if all.is_empty() {
            return print("there is no reprocess");
        }
        let titles = [
            "id",
            "state",
            "#inserted",
            "#updated",
            "#unchanged",
            "#failed",
            "#progress",
            "by",
        ];
        let mut listing = Listing::new(&titles);
        for one in all {
            let state = serde_json::to_value(one.state)?;
            listing.row([
                one.reprocess_id.into(),
                state.as_str().unwrap_or_default().into(),
                one.inserted.into(),
                one.updated.into(),
                one.unchanged.into(),
                one.failed.into(),
                format!("{:.0} %", one.progress * 100.0).into(),
                one.created_by.into(),
            ]);
        }
        print(listing.text())
    }
}
