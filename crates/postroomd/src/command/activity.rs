//! `postroom activity`: look at what users did, export it, send it to a sink again, map it again, forget a member.

mod pii_check;
mod reprocess_range;

use std::io::Write as _;

use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use postroom_activity::query::{self, EventFilter, PAGE_MAX};
use postroom_activity::redispatch::{self, PER_SECOND_MAX};
use postroom_activity::{Source, export, forget, reprocess};
use postroom_terminal::output::{print, print_json};
use postroom_terminal::page;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use self::reprocess_range::{Reprocess, Reprocesses};
use super::actor;
use crate::config::Config;

/// Look at collected user activity, export it, send it to a sink again, map it again, forget a member
#[derive(Debug, Subcommand)]
pub(crate) enum Activity {
    /// List stored events, newest first
    List(List),
    /// Write stored events to standard output
    Export(Export),
    /// Send stored events to a sink again
    Redispatch(Redispatch),
    /// Show the newest redispatches and their progress
    Redispatches(Redispatches),
    /// Map the domain events of a range again, as far as the outbox or the archive holds them
    Reprocess(Reprocess),
    /// Show the newest reprocesses and their progress
    Reprocesses(Reprocesses),
    /// End a redispatch or a reprocess that is running
    Cancel(Cancel),
    /// Delete the stored activity of a member; copies in the outbox leave it with retention.outbox
    Forget(Forget),
    PiiCheck(pii_check::PiiCheck),
}

/// Which events.
#[derive(Debug, Args)]
struct Which {
    /// Of this member
    #[arg(long, value_name = "ID")]
    member: Option<i64>,
    /// With this name, such as review.created
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Reported by this side
    #[arg(long)]
    source: Option<Side>,
    /// Occurred at or after this time, such as 2026-02-18T10:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    from: Option<OffsetDateTime>,
    /// Occurred before this time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    until: Option<OffsetDateTime>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Side {
    Server,
    Client,
}

fn parse_time(text: &str) -> Result<OffsetDateTime, String> {
    OffsetDateTime::parse(text, &Rfc3339).map_err(|_error| "give a time such as 2026-02-18T10:00:00Z".to_owned())
}

impl Which {
    fn filter(self) -> EventFilter {
        EventFilter {
            member_id: self.member,
            event_name: self.name,
            source: self.source.map(|side| match side {
                Side::Server => Source::Server,
                Side::Client => Source::Client,
            }),
            from: self.from,
            until: self.until,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    which: Which,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=PAGE_MAX))]
    limit: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    which: Which,
    /// The format
    #[arg(long, default_value = "jsonl")]
    format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// One JSON document per line
    Jsonl,
    /// Comma-separated values with a line of titles
    Csv,
}

impl From<Format> for export::Format {
    fn from(format: Format) -> Self {
        match format {
            Format::Jsonl => Self::Jsonl,
            Format::Csv => Self::Csv,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Redispatch {
    /// The sink, such as posthog
    sink: String,
    #[command(flatten)]
    which: Which,
    /// Events per second, at most
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(PER_SECOND_MAX)))]
    per_second: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Redispatches {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// Its id, as `activity redispatches` or `activity reprocesses` shows it
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Forget {
    /// The member
    #[arg(long, value_name = "ID")]
    member: i64,
    /// Confirms it
    #[arg(long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Activity {
    pub(crate) async fn run(self, config: &Config) -> Result<()> {
        match self {
            Self::List(command) => command.run(config).await,
            Self::Export(command) => command.run(config).await,
            Self::Redispatch(command) => command.run(config).await,
            Self::Redispatches(command) => command.run(config).await,
            Self::Reprocess(command) => command.run(config).await,
            Self::Reprocesses(command) => command.run(config).await,
            Self::Cancel(command) => command.run(config).await,
            Self::Forget(command) => command.run(config).await,
            Self::PiiCheck(command) => command.run(config),
        }
    }
}

impl List {
    async fn run(self, config: &Config) -> Result<()> {
        let store = config.store.url.open_ready().await?;
        let found = query::find(store.db(), &self.which.filter(), None, self.limit).await?;
        if self.json {
            return print_json(&found.events);
        }
        page::activity::events(&found.events)
    }
}

impl Export {
    async fn run(self, config: &Config) -> Result<()> {
        let store = config.store.url.open_ready().await?;
        let mut export = export::Export::new(self.which.filter(), self.format.into());
        let mut out = std::io::stdout().lock();
        while let Some(lines) = export.next(store.db()).await? {
            out.write_all(lines.as_bytes())?;
        }
        out.flush()?;
        Ok(())
    }
}

impl Redispatch {
    async fn run(self, config: &Config) -> Result<()> {
        let store = config.store.url.open_ready().await?;
        let filter = self.which.filter();
        let id = redispatch::begin(store.db(), (&self.sink, &filter), self.per_second, &actor()).await?;
        match self.json {
            true => print_json(&serde_json::json!({ "redispatchId": id })),
            false => print(format!(
                "{id} has begun; `postroom activity redispatches` shows its progress"
            )),
        }
    }
}

impl Redispatches {
    async fn run(self, config: &Config) -> Result<()> {
        let store = config.store.url.open_ready().await?;
        let all = redispatch::list(store.db()).await?;
        if self.json {
            return print_json(&all);
        }
        page::activity::redispatches(&all)
    }
}

impl Cancel {
    async fn run(self, config: &Config) -> Result<()> {
        let store = config.store.url.open_ready().await?;
        let (redispatches, reprocesses) = (redispatch::list(store.db()).await?, reprocess::list(store.db()).await?);
        if reprocesses.iter().any(|one| one.reprocess_id == self.id) {
            reprocess::cancel(store.db(), &self.id, &actor()).await?;
        } else if redispatches.iter().any(|one| one.redispatch_id == self.id) {
            redispatch::cancel(store.db(), &self.id, &actor()).await?;
        } else {
            bail!("there is no redispatch and no reprocess {:?}", self.id);
        }
        match self.json {
            true => print_json(&serde_json::json!({ "canceled": self.id })),
            false => print(format!("{} is canceled", self.id)),
        }
    }
}

impl Forget {
    async fn run(self, config: &Config) -> Result<()> {
        if !self.yes {
            bail!(
                "this deletes all stored activity of the member {}; add --yes if that is meant",
                self.member
            );
        }
        let store = config.store.url.open_ready().await?;
        let forgotten = forget::member(store.db(), self.member, &actor()).await?;
        match self.json {
            true => print_json(&forgotten),
            false => page::activity::forgotten(&forgotten),
        }
    }
}
