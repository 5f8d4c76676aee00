//! `cargo xtask`: the daily loop, and the same verbs in CI.
//!
//! `check` is the static gate, `test` runs everything against real services, `services` starts and
//! stops those services, `bench` measures. The list of verbs does not grow.
#![expect(clippy::print_stderr, reason = "a command-line tool tells a person what it does")]

mod arrows;
mod bench;
mod check;
mod folders;
mod hazards;
mod language;
mod newer;
mod process;
mod requirements;
mod services;
mod test;
mod tidy;
mod word;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

/// The daily loop of the Postroom workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// The static gate: format, lints, docs, tidy rules, requirements, dependencies.
    Check,
    /// Start the services, run `cargo test --workspace`, stop what was started.
    Test {
        /// Run the suites of stores, relay, brokers and ledger on newer servers instead: all, or postgres18, postgres17,
        /// mysql9, mariadb11, valkey9, redis8, rabbitmq4 (needs root).
        #[arg(long, num_args = 0.., value_name = "SERVER")]
        newer: Option<Vec<String>>,
        /// Arguments for `cargo test`, after `--`.
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Databases and brokers on 127.0.0.1 for tests; their data is thrown away when they stop.
    Services {
        #[command(subcommand)]
        verb: services::Verb,
    },
    /// Build for release and run `postroom bench …` against the services.
    Bench {
        /// Arguments for `postroom bench`: relay, emit, backlog or idle, and its flags.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        args: Vec<String>,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    process::watch_signals()?;
    let workspace = Workspace::find()?;
    match cli.verb {
        Verb::Check => check::run(&workspace),
        Verb::Test { newer: None, args } => test::run(&workspace, &args),
        Verb::Test {
            newer: Some(names),
            args,
        } => newer::run(&workspace, &names, &args),
        Verb::Services { verb } => services::run(&workspace, verb),
        Verb::Bench { args } => bench::run(&workspace, &args),
    }
}
