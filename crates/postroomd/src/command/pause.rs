//! `postroom pause` and `postroom resume`: stop and go on with a route.

use anyhow::Result;
use clap::Args;
use postroom::operate;
use postroom_terminal::output::{print, print_json};
use serde_json::json;

use super::actor;
use crate::config::Config;

/// Pause a route, whichever process works it; what is emitted meanwhile is kept
#[derive(Debug, Args)]
pub(crate) struct Pause {
    #[command(flatten)]
    which: Which,
}

/// Resume a paused route where it stood; a route that waits for an unavailable destination asks it at once
#[derive(Debug, Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, Args)]
struct Which {
    /// The route
    route: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Pause {
    pub(crate) async fn run(self, config: &Config) -> Result<()> {
        let route = &self.which.route;
        let says = format!("{route} is paused; `postroom resume {route}` lets it go on");
        self.which.set_paused(config, true, &says).await
    }
}

impl Resume {
    pub(crate) async fn run(self, config: &Config) -> Result<()> {
        let says = format!("{} goes on", self.which.route);
        self.which.set_paused(config, false, &says).await
    }
}

impl Which {
    async fn set_paused(&self, config: &Config, is_paused: bool, says: &str) -> Result<()> {
        let store = config.store.url.open_ready().await?;
        operate::set_paused(store.as_ref(), &self.route, is_paused, &actor()).await?;
        match self.json {
            true => print_json(&json!({ "route": self.route, "is_paused": is_paused })),
            false => print(says),
        }
    }
}
