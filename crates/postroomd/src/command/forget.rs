//! `postroom forget`: let go of a route that is not in use any more.

use anyhow::{Result, bail};
use clap::Args;
use postroom::operate;
use postroom_terminal::output::{print, print_json};

use super::actor;
use crate::config::Config;

/// Forget a route that was renamed or removed; until then it holds back retention
///
/// Its progress and what it has parked go; its dead letters stay. A route that a relay works is refused, and one that
/// comes back later begins anew.
#[derive(Debug, Args)]
pub(crate) struct Forget {
    /// The route
    route: String,
    /// Confirms it
    #[arg(long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Forget {
    pub(crate) async fn run(self, config: &Config) -> Result<()> {
        let store = config.store.url.open_ready().await?;
        if !self.yes {
            bail!(
                "this drops the progress and the parked entries of {:?}; add --yes if that is meant",
                self.route
            );
        }
        operate::forget(store.as_ref(), &self.route, &actor()).await?;
        match self.json {
            true => print_json(&serde_json::json!({ "forgotten": self.route })),
            false => print(format!("{} is forgotten", self.route)),
        }
    }
}
