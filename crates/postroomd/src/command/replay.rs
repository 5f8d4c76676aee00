//! `postroom replay`: deliver old events once more.

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use postroom::Inspect;
use postroom::operate::counted;
use postroom::replay::{self, Range};
use postroom_terminal::age::parse_time;
use postroom_terminal::output::{print, print_json};
use postroom_terminal::page;
use time::OffsetDateTime;

use super::actor;
use crate::config::Config;

/// Deliver old events once more to one route, without touching any other
#[derive(Debug, Args)]
#[command(subcommand_negates_reqs = true, args_conflicts_with_subcommands = true)]
pub(crate) struct Replay {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    order: Option<Order>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List replays, newest first
    List(List),
    /// Stop a replay, and take back what it has handed over and nobody has tried yet
    Cancel(Cancel),
}

#[derive(Debug, Args)]
struct List {
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1000))]
    limit: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Cancel {
    /// Its number, as `replay list` shows it
    replay_id: i64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The events to deliver again, and the options of the replay.
#[derive(Debug, Args)]
struct Order {
    /// The route that gets them
    #[arg(long)]
    route: String,
    /// The whole history: without a range this must be said
    #[arg(long, conflicts_with_all = [
        "from_id", "to_id", "from_time", "to_time", "types", "aggregate_type", "aggregate_id",
    ])]
    all: bool,
    /// Only count them, and begin nothing
    #[arg(long)]
    dry_run: bool,
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
        let url = &config.store.url;
        match (self.action, self.order) {
            (Some(Action::List(list)), _) => list.run(url.open_ready_to_read().await?.as_ref()).await,
            (Some(Action::Cancel(cancel)), _) => cancel.run(url.open_ready().await?.as_ref()).await,
            (None, Some(order)) => order.run(config).await,
            (None, None) => bail!("name the --route that gets the events; `postroom replay --help` has the rest"),
        }
    }
}

impl Order {
    async fn run(self, config: &Config) -> Result<()> {
        let (all, dry_run, json) = (self.all, self.dry_run, self.json);
        let order = self.into_replay();
        if order.range.is_whole() && !all {
            bail!(
                "without a range this delivers the whole history again; name one (--from-id, --to-id, --from-time, --to-time, \
                 --type, --aggregate-type, --aggregate-id), or say --all. --dry-run counts the events first"
            );
        }
        if dry_run {
            let store = config.store.url.open_ready_to_read().await?;
            let preview = replay::preview(&*store, &order).await?;
            return match json {
                true => print_json(&preview),
                false => page::replay::preview(&preview, &order),
            };
        }
        let store = config.store.url.open_ready().await?;
        let replay_id = replay::start(&*store, &order, &actor()).await?;
        if json {
            return print_json(&serde_json::json!({ "replay_id": replay_id }));
        }
        print(format!(
            "replay {replay_id} to {route} has begun, at most {rate} a second; a running relay carries it out, \
             `postroom replay list` shows it, `postroom replay cancel {replay_id}` stops it",
            route = order.route,
            rate = order.per_second
        ))
    }

    fn into_replay(self) -> replay::Replay {
        replay::Replay {
            route: self.route,
            range: Range {
                from_id: self.from_id,
                to_id: self.to_id,
                from_time: self.from_time,
                to_time: self.to_time,
                types: self.types,
                aggregate_type: self.aggregate_type,
                aggregate_id: self.aggregate_id,
            },
            per_second: self.rate,
            again: self.again,
        }
    }
}

impl List {
    async fn run(self, store: &dyn Inspect) -> Result<()> {
        let replays = replay::list(store.db(), self.limit).await?;
        if self.json {
            return print_json(&replays);
        }
        page::replay::list(&replays)
    }
}

impl Cancel {
    async fn run(self, store: &dyn Inspect) -> Result<()> {
        let replay_id = self.replay_id;
        let removed = replay::cancel(store.db(), replay_id, &actor()).await?;
        if self.json {
            return print_json(&serde_json::json!({ "replay_id": replay_id, "removed": removed }));
        }
        let taken = counted(
            removed,
            "event that was not tried yet was",
            "events that were not tried yet were",
        );
        print(format!("replay {replay_id} is canceled; {taken} taken back"))
    }
}
