//! `postroom replay`: deliver old events once more.

use anyhow::Result;
use clap::Args;
use postroom::replay::{self, Range};
use time::OffsetDateTime;

use super::actor;
use crate::age::parse_time;
use crate::config::Config;
use crate::output::{print, print_json};

/// Deliver old events once more to one route, without touching any other
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// The route that gets them
    #[arg(long)]
    route: String,
    /// From this entry on
    #[arg(long, value_name = "ENTRY")]
    from_id: Option<i64>,
    /// Up to this entry
    #[arg(long, value_name = "ENTRY")]
    to_id: Option<i64>,
    /// Recorded at or after this time
    #[arg(long, value_name = "RFC3339", value_parser = parse_time)]
    from_time: Option<OffsetDateTime>,
    /// Recorded before this time
    #[arg(long, value_name = "RFC3339", value_parser = parse_time)]
    to_time: Option<OffsetDateTime>,
    /// Only types that match: * is one segment, ** the rest; can be repeated
    #[arg(long = "type", value_name = "PATTERN")]
    types: Vec<String>,
    /// Only of this aggregate type
    #[arg(long, value_name = "NAME")]
    aggregate_type: Option<String>,
    /// Only of this aggregate
    #[arg(long, value_name = "ID")]
    aggregate_id: Option<String>,
    /// At most this many a second
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    /// Let a subscriber handle again what it has handled; otherwise only what it has not handled has an effect
    #[arg(long)]
    again: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Replay {
    pub(crate) async fn run(self, config: &Config) -> Result<()> {
        let store = config.store.url.open_ready().await?;
        let range = Range {
            from_id: self.from_id,
            to_id: self.to_id,
            from_time: self.from_time,
            to_time: self.to_time,
            types: self.types,
            aggregate_type: self.aggregate_type,
            aggregate_id: self.aggregate_id,
        };
        let order = replay::Replay {
            route: self.route,
            range,
            per_second: self.rate,
            again: self.again,
        };
        let replay_id = replay::start(&*store, &order, &actor()).await?;
        if self.json {
            return print_json(&serde_json::json!({ "replay_id": replay_id }));
        }
        print(format!(
            "replay {replay_id} to {route} has begun, at most {rate} a second; a running relay carries it out, \
             `postroom status --route {route} --watch` shows it",
            route = order.route,
            rate = order.per_second
        ))
    }
}
