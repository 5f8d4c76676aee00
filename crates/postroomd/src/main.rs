//! The binary `postroom`: reads the configuration, wires store, relay, server and modules together, and lets operators
//! look and act. Only this program and `postroom-terminal`, which prints for it, read the environment.

mod broker;
mod command;
mod config;
mod daemon;
mod demo;
mod hash_secret;
mod module;
mod secret_file;
mod signal;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser as _;
use postroom_terminal::{listing, output};

use crate::command::Cli;

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if output::is_reader_gone(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // If this write fails, no channel is left to report the failure.
            writeln!(std::io::stderr(), "error: {}", output::chain(&error)).unwrap_or_default();
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    let outcome = runtime.block_on(cli.run());
    // A task that is still blocked after the drain timeout must not keep the process alive.
    runtime.shutdown_timeout(Duration::from_millis(100));
    outcome
}
