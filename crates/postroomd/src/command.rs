//! The command line: one file per subcommand.

mod activity;
mod bench;
mod catalog;
mod config;
mod dead;
mod doctor;
mod emit;
mod event_id;
mod forget;
mod migrate;
mod pause;
mod replay;
mod retry;
mod serve;
mod status;
mod tail;
mod token;
mod topics;
mod trial;
mod up;
mod verify;
mod why;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use postroom_address::StoreUrl;
use postroom_telemetry::log;

use crate::config::Config;

/// Delivers the events that your transaction commits: nothing lost, in order per aggregate, with one effect — and you can see it.
#[derive(Debug, Parser)]
#[command(
    name = "postroom",
    version,
    after_help = "Without a command: up. `postroom config print` documents the configuration."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    shared: Shared,
    #[command(subcommand)]
    command: Option<Command>,
}

/// The options of every command.
#[derive(Debug, Args)]
pub(crate) struct Shared {
    #[arg(
        long,
        global = true,
        value_name = "URL",
        help_heading = "Everywhere",
        help = "The store: sqlite://path, postgres://user@host/database or mysql://user@host/database"
    )]
    store: Option<StoreUrl>,
    /// The configuration to read instead of ./postroom.toml
    #[arg(long, global = true, value_name = "FILE", help_heading = "Everywhere")]
    config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Up(up::Up),
    Serve(serve::Serve),
    Migrate(migrate::Migrate),
    Emit(emit::Emit),
    Tail(tail::Tail),
    Status(status::Status),
    Why(why::Why),
    #[command(subcommand)]
    Dead(dead::Dead),
    Retry(retry::Retry),
    Replay(replay::Replay),
    Pause(pause::Pause),
    Resume(pause::Resume),
    Forget(forget::Forget),
    #[command(subcommand)]
    Config(config::Config),
    #[command(subcommand)]
    Topics(topics::Topics),
    #[command(subcommand)]
    Catalog(catalog::Catalog),
    #[command(subcommand)]
    Token(token::Token),
    #[command(subcommand)]
    Activity(activity::Activity),
    Doctor(doctor::Doctor),
    Verify(verify::Verify),
    Bench(bench::Bench),
}

impl Cli {
    /// Does what was asked.
    pub(crate) async fn run(self) -> Result<()> {
        let command = self.command.unwrap_or(Command::Up(up::Up::default()));
        match &command {
            // These set up their logs by the configuration.
            Command::Up(_) | Command::Serve(_) => {}
            _ => log::warnings_to_stderr(),
        }
        if let Command::Config(command) = command {
            return command.run(&self.shared);
        }
        if let Command::Catalog(command) = command {
            return command.run();
        }
        let config = self.shared.load()?;
        match command {
            Command::Up(command) => Box::pin(command.run(config)).await,
            Command::Serve(command) => Box::pin(command.run(config)).await,
            Command::Migrate(command) => command.run(&config).await,
            Command::Emit(command) => command.run(&config).await,
            Command::Tail(command) => command.run(&config).await,
            Command::Status(command) => command.run(&config).await,
            Command::Why(command) => command.run(&config).await,
            Command::Dead(command) => command.run(&config).await,
            Command::Retry(command) => command.run(&config).await,
            Command::Replay(command) => command.run(&config).await,
            Command::Pause(command) => command.run(&config).await,
            Command::Resume(command) => command.run(&config).await,
            Command::Forget(command) => command.run(&config).await,
            Command::Topics(command) => command.run(&config).await,
            Command::Token(command) => command.run(&config).await,
            Command::Activity(command) => command.run(&config).await,
            Command::Doctor(command) => command.run(&config).await,
            Command::Verify(command) => command.run(&config, self.shared.store.as_ref()).await,
            Command::Bench(command) => command.run(self.shared.store.as_ref()).await,
            Command::Config(_) | Command::Catalog(_) => Ok(()),
        }
    }
}

impl Shared {
    /// The configuration with the flags over it.
    fn load(&self) -> Result<Config> {
        let environment =
            std::env::vars_os().filter_map(|(name, value)| name.into_string().ok().zip(value.into_string().ok()));
        let mut config = Config::load(self.config.as_deref(), environment)?;
        if let Some(store) = &self.store {
            config.store.url = store.clone();
        }
        Ok(config)
    }
}

/// The name of the actor in the operators' log.
fn actor() -> String {
    let user = std::env::var("USER").unwrap_or_else(|_unset| "unknown".to_owned());
    format!("cli:{user}")
}
