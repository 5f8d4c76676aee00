//! `postroom pause` and `postroom resume`: stop and go on with a route.

use anyhow::Result;
use clap::Args;
use postroom::inspect;

use super::actor;
use crate::config::Config;
use crate::output::print;

/// Pause a route, whichever process works it; what is emitted meanwhile is kept
#[derive(Debug, Args)]
pub(crate) struct Pause {
    /// The route
    route: String,
}

/// Resume a paused route where it stood
#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// The route
    route: String,
}

impl Pause {
    pub(crate) async fn run(self, config: &Config) -> Result<()> {
        let store = config.store.url.open_ready().await?;
        inspect::set_paused(store.as_ref(), &self.route, true, &actor()).await?;
        print(format!(
            "{0} is paused; `postroom resume {0}` lets it go on",
            self.route
        ))
    }
}

impl Resume {
    pub(crate) async fn run(self, config: &Config) -> Result<()> {
        let store = config.store.url.open_ready().await?;
        inspect::set_paused(store.as_ref(), &self.route, false, &actor()).await?;
        print(format!("{} goes on", self.route))
    }
}
