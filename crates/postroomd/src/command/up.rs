//! `postroom up`: everything in one process, for a laptop and a first look.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use clap::Args;
use postroom::{Inspect, operate};
use postroom_address::StoreUrl;
use postroom_host::Module;
use postroom_monitor::progress;
use postroom_telemetry::{Traces, log};
use postroom_terminal::output;
use postroom_terminal::view::{Notes, View};

use crate::config::Config;
use crate::daemon;
use crate::demo::Offered;
use crate::hash_secret;
use crate::module;
use crate::signal::Signals;

/// Run everything in one process: store, relay, modules, HTTP
///
/// The first start makes an SQLite file in ./postroom-data and runs the example module `hello` on it, whose customers
/// order something every second. With a store of your own the example stays off, unless you ask for it with --demo.
#[derive(Debug, Default, Args)]
pub(crate) struct Up {
    /// Run the example modules and their traffic on any store
    #[arg(long)]
    demo: bool,
    /// Keep the SQLite file in this folder instead of ./postroom-data
    #[arg(long, value_name = "DIR", conflicts_with = "store")]
    data: Option<PathBuf>,
    /// Serve HTTP here [default: 127.0.0.1:8080]; port 0 picks a free port
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
}

impl Up {
    pub(crate) async fn run(self, mut config: Config) -> Result<()> {
        let mut signals = Signals::listen()?;
        let traces = Traces::to(config.telemetry.otlp.as_deref())?;
        let notes = output::is_terminal().then(Notes::default);
        match notes.clone() {
            Some(notes) => log::warnings_to(move || notes.clone(), &traces),
            None => log::to_stderr(config.log.format, &config.log.level, &traces),
        }
        self.apply(&mut config);
        let listener = daemon::bind(config.server.listen).await?;
        let address = listener.local_addr().context("read the bound address")?;
        let url = config.server.url(address);
        let Some(store) = signals.unless(config.store.url.open()).await.transpose()? else {
            return Ok(());
        };
        if let Some(folder) = self.own_folder(&config) {
            hash_secret::keep(&mut config, &folder)?;
        }
        let demo = self.demonstration(&config, address)?;
        let modules = modules(&config, self.demo).into_iter();
        let modules = modules.map(|module| match &demo {
            Some(demo) => demo.join(module),
            None => module,
        });
        let doors = config.access.doors(config.server.is_reachable(address))?;
        let platform =
            daemon::platform(&config, &store, modules.collect())?.serve_with(listener, config.server.serving());
        let platform = match demo {
            Some(demo) => demo.open(platform, doors),
            None => platform.doors(doors),
        };
        let platform = match &notes {
            Some(notes) => {
                let view = View::new(
                    Arc::clone(&store),
                    config.store.url.to_string(),
                    url.clone(),
                    notes.clone(),
                );
                platform.part("view", |_host, stop| view.run(stop))
            }
            None => platform.part("progress", |host, stop| progress::log(host.store, stop)),
        };
        let process = platform.build()?;
        let Some(applied) = signals.unless(process.migrate()).await.transpose()? else {
            return Ok(());
        };
        if applied > 0 {
            tracing::info!(applied, "tables are up to date");
        }
        daemon::check_doors(&config, store.as_ref(), &process, address).await?;
        daemon::log_if_unlocked(&config, address);
        signals.unless(tell_if_standby(store.as_ref())).await;
        if notes.is_none() {
            output::print(format!("store {}\nlistening on {url}", config.store.url))?;
        }
        let outcome = daemon::run(process, signals).await;
        daemon::close(store.as_ref()).await?;
        traces.finish().await;
        outcome
    }

    /// Puts the flags over the configuration.
    fn apply(&self, config: &mut Config) {
        if let Some(folder) = &self.data {
            config.store.url = StoreUrl::in_folder(folder);
            config.modules.switch_on(false);
        }
        if self.demo {
            if config.modules.enabled(postroom_activity::NAME).is_none() && self.own_folder(config).is_none() {
                hash_secret::invent(config); // of a demonstration nothing needs to be found again
            }
            config.modules.switch_on(true);
        }
        config.server.listen = self.listen.unwrap_or(config.server.listen);
    }

    /// The demonstration of the community, on a store that this program has made or on one that was given for demonstrations.
    fn demonstration(&self, config: &Config, address: SocketAddr) -> Result<Option<Offered>> {
        match self.own_folder(config) {
            None if !self.demo => Ok(None),
            folder => Offered::at(config, address, folder.as_deref()),
        }
    }

    /// The folder of the store, unless it is a store of the operator's own.
    fn own_folder(&self, config: &Config) -> Option<PathBuf> {
        let url = &config.store.url;
        let is_ours = self.data.is_some() || url.is_built_in();
        url.folder().filter(|_| is_ours)
    }
}

/// The modules, with traffic in those that bring some; in the reference systems only for a demonstration.
fn modules(config: &Config, is_demo: bool) -> Vec<Module> {
    let add_traffic = |module: Module| match module.name {
        "hello" => module.job(hello::traffic()),
        "ledger" if is_demo => module.job(ledger::traffic()),
        "commerce" if is_demo => module.job(commerce::traffic()),
        "umbra" if is_demo => umbra::demo(),
        _ => module,
    };
    module::enabled(config).into_iter().map(add_traffic).collect()
}

/// Tells the user of a second process why nothing moves in it.
async fn tell_if_standby(store: &dyn Inspect) {
    let Ok(status) = operate::status(store).await else {
        return; // who works what is only a hint
    };
    let worked = || status.routes.iter().filter(|route| route.is_leased);
    if let Some(owner) = worked().find_map(|route| route.owner.as_deref()) {
        let process: Vec<&str> = owner.split(':').take(2).collect();
        tracing::warn!(
            process = process.join(":"),
            routes = worked().count(),
            "another process holds the routes of this store: this one stands by, and takes over when that one stops or its \
             leases run out"
        );
    }
}
