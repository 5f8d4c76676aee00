//! `postroom config`: check and document the configuration.

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use postroom::operate::counted;
use postroom_terminal::output::{print, print_json};
use serde_json::json;

use super::Shared;
use crate::config::{Config as Settings, REFERENCE, Unusable};

/// Check or document the configuration
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Report every mistake in the configuration
    Check(Told),
    /// Print every key with its default and what it does
    Print(Told),
}

/// How it is told.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Told {
    /// Print JSON; of `print` the defaults alone
    #[arg(long)]
    json: bool,
}

impl Config {
    pub(crate) fn run(self, shared: &Shared) -> Result<()> {
        match self {
            Self::Print(Told { json: false }) => print(REFERENCE.trim_end()),
            Self::Print(Told { json: true }) => {
                let defaults: toml::Table = REFERENCE.parse().context("read the reference")?;
                print_json(&defaults)
            }
            Self::Check(told) => check(shared.load(), told.json),
        }
    }
}

fn check(loaded: Result<Settings>, as_json: bool) -> Result<()> {
    let config = match loaded {
        Ok(config) => config,
        Err(error) => {
            if let Some(Unusable(mistakes)) = error.downcast_ref().filter(|_| as_json) {
                print_json(&json!({ "mistakes": mistakes }))?;
            }
            return Err(error);
        }
    };
    let (store, routes) = (config.store.url.to_string(), config.routes.len());
    let alerts: Vec<String> = config.alerts.channels().iter().map(ToString::to_string).collect();
    if as_json {
        return print_json(&json!({ "mistakes": [], "store": store, "routes": routes, "alerts": alerts }));
    }
    let routes = counted(routes as u64, "configured route", "configured routes");
    let told: String = alerts.iter().map(|one| format!(", alerts to {one}")).collect();
    print(format!("no mistakes; store {store}, {routes}{told}"))
}
