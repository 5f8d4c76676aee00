//! `postroom catalog`: what can happen, who listens, and whether a change breaks somebody.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Args, Subcommand};
use postroom::operate::counted;
use postroom_host::{Catalogue, Lock, Module};
use postroom_terminal::{output, page};
use serde_json::json;

use crate::config::Config;
use crate::module;

/// Every event type of the modules: its schema, who emits it and who listens
#[derive(Debug, Subcommand)]
pub(crate) enum Catalog {
    /// List every event type
    List(List),
    /// Check names, and that nothing changed that somebody's reader breaks on
    Check(Check),
    /// Draw who emits what and who listens, as SVG
    Graph(To),
    /// Write the contract as AsyncAPI 3
    Asyncapi(To),
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// For programs, with the JSON Schema of each
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The committed lock file
    #[arg(long, default_value = "catalog.lock.json", value_name = "FILE")]
    lock: PathBuf,
    /// Write the lock file, if no change breaks a consumer
    #[arg(long)]
    write: bool,
    /// For programs
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct To {
    /// Where to; unless given, standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Catalog {
    pub(crate) fn run(self) -> Result<()> {
        let modules: Vec<Module> = module::all(&Config::default());
        let catalogue = Catalogue::of(&modules);
        match self {
            Self::List(list) => list.run(&catalogue),
            Self::Check(check) => check.run(&catalogue),
            Self::Graph(to) => to.write(catalogue.graph().trim_end()),
            Self::Asyncapi(to) => to.write(&serde_json::to_string_pretty(&catalogue.asyncapi())?),
        }
    }
}

impl List {
    fn run(&self, catalogue: &Catalogue) -> Result<()> {
        if self.json {
            return output::print_json(catalogue);
        }
        page::catalog::list(catalogue)
    }
}

impl Check {
    fn run(&self, catalogue: &Catalogue) -> Result<()> {
        let (locked, now) = (read(&self.lock)?, catalogue.lock());
        let is_missing = locked.is_none() && !self.write;
        let verdict = locked.unwrap_or_default().against(&now);
        let news = if is_missing { &[][..] } else { &verdict.news };
        let mistakes: Vec<&String> = catalogue.mistakes.iter().chain(&verdict.breaches).collect();
        let is_written = self.write && mistakes.is_empty();
        if is_written {
            write(&self.lock, &format!("{}\n", serde_json::to_string_pretty(&now)?))?;
        }
        if self.json {
            output::print_json(&json!({ "mistakes": mistakes, "news": news, "is_written": is_written }))?;
        } else {
            for line in mistakes.iter().copied().chain(news) {
                output::print(output::clean(line))?;
            }
        }
        let lock = self.lock.display();
        if !mistakes.is_empty() {
            bail!(
                "the catalogue breaks {}",
                counted(mistakes.len() as u64, "promise", "promises")
            );
        }
        ensure!(
            !is_missing,
            "there is no {lock} to check against: `postroom catalog check --write` makes it; commit it"
        );
        ensure!(
            is_written || news.is_empty(),
            "{lock} is behind: run `postroom catalog check --write` and commit it"
        );
        let events = counted(catalogue.events.len() as u64, "event type", "event types");
        match self.json {
            true => Ok(()),
            false => output::print(format!("{events}, as {lock} says")),
        }
    }
}

impl To {
    fn write(&self, text: &str) -> Result<()> {
        match &self.output {
            Some(path) => write(path, &format!("{text}\n")),
            None => output::print(text),
        }
    }
}

/// The lock file, if there is one.
fn read(path: &Path) -> Result<Option<Lock>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read.with_context(|| format!("read {}", path.display()))?,
    };
    let lock = serde_json::from_str(&text).with_context(|| format!("{} is no lock file", path.display()))?;
    Ok(Some(lock))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}
