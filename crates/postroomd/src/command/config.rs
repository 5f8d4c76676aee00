//! `postroom config`: check and document the configuration.

use anyhow::Result;
use clap::Subcommand;

use super::Shared;
use crate::config::REFERENCE;
use crate::output::print;

/// Check or document the configuration
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Report every mistake in the configuration
    Check,
    /// Print every key with its default and what it does
    Print,
}

impl Config {
    pub(crate) fn run(self, shared: &Shared) -> Result<()> {
        match self {
            Self::Print => print(REFERENCE.trim_end()),
            Self::Check => {
                let config = shared.load()?;
                let routes = config.routes.len();
                let told: String = config
                    .alerts
                    .channels()
                    .iter()
                    .map(|one| format!(", alerts to {one}"))
                    .collect();
                print(format!(
                    "no mistakes; store {}, {routes} configured routes{told}",
                    config.store.url
                ))
            }
        }
    }
}
