//! `postroom serve`: chosen roles of the daemon, for production.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use postroom_monitor::progress;
use postroom_telemetry::{Traces, log};

use crate::config::Config;
use crate::daemon;
use crate::hash_secret;
use crate::module;
use crate::signal::Signals;

/// Run chosen roles of the daemon, with logs and without example traffic
///
/// Run as many as you like on one store: at any time one of them delivers a route. Tables are not touched; `postroom
/// migrate` brings them up to date.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The roles of this process
    #[arg(long, value_delimiter = ',', required = true)]
    roles: Vec<Role>,
    /// Serve HTTP here [default: 127.0.0.1:8080]; port 0 picks a free port
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
}

/// A part of the daemon. Consumers, gateway and console are not built yet.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Role {
    /// Deliver: configured routes, subscribers of modules, jobs
    Relay,
}

impl Serve {
    pub(crate) async fn run(self, mut config: Config) -> Result<()> {
        let mut signals = Signals::listen()?;
        let traces = Traces::to(config.telemetry.otlp.as_deref())?;
        log::to_stderr(config.log.format, &config.log.level, &traces);
        config.server.listen = self.listen.unwrap_or(config.server.listen);
        let listener = daemon::bind(config.server.listen).await?;
        let address = listener.local_addr().context("read the bound address")?;
        let Some(store) = signals.unless(config.store.url.open_ready()).await.transpose()? else {
            return Ok(());
        };
        if let Some(folder) = hash_secret::folder(&config) {
            hash_secret::keep(&mut config, &folder)?;
        }
        let process = daemon::platform(&config, &store, module::enabled(&config))?
            .serve_with(listener, config.server.serving())
            .doors(config.access.doors(config.server.is_reachable(address))?)
            .part("progress", |host, stop| progress::log(host.store, stop))
            .build()?;
        daemon::check_doors(&config, store.as_ref(), &process, address).await?;
        daemon::log_if_unlocked(&config, address);
        tracing::info!(roles = ?self.roles, store = %config.store.url, listen = %config.server.url(address), "serving");
        let outcome = daemon::run(process, signals).await;
        daemon::close(store.as_ref()).await?;
        traces.finish().await;
        outcome
    }
}
