//! A relay at work.

use std::time::Duration;

use anyhow::{Context as _, Result};
use postroom::{Relay, Route, operate};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::receiver::ROUTE;
use crate::site::Site;

/// How long a relay may take to register its route.
const REGISTER_MAX: Duration = Duration::from_secs(30);
/// How often we look whether it has.
const LOOK: Duration = Duration::from_millis(10);

/// A relay that runs until it is stopped.
#[derive(Debug)]
pub(super) struct Running {
    tasks: JoinSet<postroom::Result<()>>,
    stop: CancellationToken,
}

impl Running {
    /// A relay with this route alone.
    pub(super) fn start(site: &Site, route: Route) -> Self {
        Self::of(Relay::new(site.native.store()).route(route))
    }

    pub(super) fn of(relay: Relay) -> Self {
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(relay.run(stop.clone()));
        Self { tasks, stop }
    }

    pub(super) async fn stop(mut self) -> Result<()> {
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.context("run the relay")??;
        }
        Ok(())
    }
}

/// Makes the route known, so that it begins in front of the backlog and not at the beginning of the log.
pub(super) async fn register(site: &Site, route: Route) -> Result<()> {
    let relay = Running::start(site, route);
    let known = async {
        while !operate::status(&*site.store)
            .await?
            .routes
            .iter()
            .any(|route| route.route == ROUTE && route.is_leased)
        {
            sleep(LOOK).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(REGISTER_MAX, known)
        .await
        .context("the relay does not register its route")??;
    relay.stop().await
}
