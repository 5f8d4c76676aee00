//! `postroom dead`: look at dead letters, retry and discard them.

use anyhow::{Result, bail, ensure};
use clap::{Args, Subcommand};
use postroom::Inspect;
use postroom::dead::{self, LetterState, Selection};
use postroom::operate::{self, Letters, NextStep, counted};
use postroom_terminal::output::{print, print_json};
use postroom_terminal::{page, text};

use super::actor;
use crate::config::Config;

/// Look at dead letters and decide on them
#[derive(Debug, Subcommand)]
pub(crate) enum Dead {
    /// List those that wait for a decision, newest first
    List(List),
    /// Show one in full, with its payload and headers
    Show(Show),
    /// Put them back in front of their keys
    Retry(Retry),
    /// Let their keys go on without them; they are kept, with the reason
    Discard(Discard),
}

/// Which dead letters.
#[derive(Debug, Args)]
struct Which {
    /// Of this route
    #[arg(long)]
    route: Option<String>,
    /// Of this event type
    #[arg(long, value_name = "TYPE")]
    r#type: Option<String>,
    /// Of this aggregate
    #[arg(long, value_name = "ID")]
    aggregate_id: Option<String>,
    /// With this text in the last error
    #[arg(long, value_name = "TEXT")]
    error_contains: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    which: Which,
    /// Also those that were retried or discarded
    #[arg(long)]
    all: bool,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1000))]
    limit: u64,
    /// Only older ones than this
    #[arg(long, value_name = "DEAD_ID")]
    before: Option<i64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Its number, as `dead list` shows it
    dead_id: i64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Dead letters to decide on: numbers, filters, or all.
#[derive(Debug, Args)]
struct Chosen {
    /// Their numbers, as `dead list` shows them
    dead_ids: Vec<i64>,
    #[command(flatten)]
    which: Which,
    /// Every one that waits for a decision
    #[arg(long, conflicts_with_all = ["dead_ids", "route", "type", "aggregate_id", "error_contains"])]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Retry {
    #[command(flatten)]
    chosen: Chosen,
}

#[derive(Debug, Args)]
pub(crate) struct Discard {
    #[command(flatten)]
    chosen: Chosen,
    /// Why; kept with the dead letter
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

impl Dead {
    pub(crate) async fn run(self, config: &Config) -> Result<()> {
        let url = &config.store.url;
        let store = match &self {
            Self::List(_) | Self::Show(_) => url.open_ready_to_read().await?,
            Self::Retry(_) | Self::Discard(_) => url.open_ready().await?,
        };
        let db = store.db();
        match self {
            Self::List(list) => {
                list.which.check(store.as_ref()).await?;
                let letters = dead::list(db, &list.selection(), list.before, list.limit).await?;
                if list.json {
                    print_json(&letters)
                } else {
                    page::dead_letter::list(&letters, list.limit)
                }
            }
            Self::Show(show) => {
                let which = Selection {
                    dead_ids: vec![show.dead_id],
                    ..Selection::default()
                };
                let Some(letter) = dead::list(db, &which, None, 1).await?.pop() else {
                    let all = text::next(&[NextStep::ShowLetters { letters: Letters::All }]);
                    bail!("there is no dead letter {}; {all}", show.dead_id);
                };
                if show.json {
                    print_json(&letter)
                } else {
                    page::dead_letter::show(&letter)
                }
            }
            Self::Retry(Retry { chosen }) => {
                chosen.which.check(store.as_ref()).await?;
                let retried = dead::retry(db, &chosen.selection()?, &actor()).await?;
                chosen.report("retried", retried)
            }
            Self::Discard(Discard { chosen, reason }) => {
                chosen.which.check(store.as_ref()).await?;
                let discarded = dead::discard(db, &chosen.selection()?, &actor(), &reason).await?;
                chosen.report("discarded", discarded)
            }
        }
    }
}

impl Which {
    /// Refuses a route that nobody knows. One that was forgotten is known by its letters.
    async fn check(&self, store: &dyn Inspect) -> Result<()> {
        let Some(route) = &self.route else {
            return Ok(());
        };
        let its = Selection {
            routes: vec![route.clone()],
            ..Selection::default()
        };
        if dead::list(store.db(), &its, None, 1).await?.is_empty() {
            let status = operate::status(store).await?;
            let is_known = status.routes.iter().any(|known| known.route == *route);
            let all = text::next(&[NextStep::ShowRoutes { route: None }]);
            ensure!(is_known, "there is no route {route:?}; {all}");
        }
        Ok(())
    }

    fn selection(&self) -> Selection {
        Selection {
            dead_ids: Vec::new(),
            routes: self.route.iter().cloned().collect(),
            event_types: self.r#type.iter().cloned().collect(),
            aggregate_id: self.aggregate_id.clone(),
            error: self.error_contains.clone(),
            state: Some(LetterState::Dead),
        }
    }

    fn is_empty(&self) -> bool {
        let Self {
            route,
            r#type,
            aggregate_id,
            error_contains,
        } = self;
        [route, r#type, aggregate_id, error_contains]
            .into_iter()
            .all(Option::is_none)
    }
}

impl Chosen {
    fn selection(&self) -> Result<Selection> {
        if self.dead_ids.is_empty() && self.which.is_empty() && !self.all {
            bail!("say which: numbers as `postroom dead list` shows them, a filter such as --route, or --all");
        }
        Ok(Selection {
            dead_ids: self.dead_ids.clone(),
            ..self.which.selection()
        })
    }

    fn report(&self, done: &str, letters: u64) -> Result<()> {
        match (self.json, letters) {
            (true, _) => print_json(&serde_json::json!({ done: letters })),
            (false, 0) => print("no dead letter matches"),
            (false, _) => print(format!("{} {done}", counted(letters, "dead letter", "dead letters"))),
        }
    }
}

impl List {
    fn selection(&self) -> Selection {
        let which = self.which.selection();
        Selection {
            state: which.state.filter(|_| !self.all),
            ..which
        }
    }
}
