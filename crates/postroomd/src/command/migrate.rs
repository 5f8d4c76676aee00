//! `postroom migrate`: the tables.

use anyhow::{Result, bail};
use clap::Args;
use postroom::{Migration, migration};
use postroom_address::PLATFORM;
use postroom_terminal::output::{print, print_json};
use serde_json::json;

use crate::config::Config;
use crate::module::{self, Owner};

/// Bring the store's tables up to date
///
/// Safe to run from many processes at once. Covers the platform's tables and those of the modules that are on.
#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// Print the SQL of everything instead, for a migration tool of your own; no store is opened
    #[arg(long, conflicts_with = "down")]
    print: bool,
    /// Take back the newest step, with the tables and rows it brought; needs --yes
    #[arg(long)]
    down: bool,
    /// The owner of the step to take back: postroom, or a module
    #[arg(long, value_name = "NAME", default_value = PLATFORM, requires = "down")]
    of: String,
    /// Confirms --down
    #[arg(long, requires = "down")]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Migrate {
    pub(crate) async fn run(self, config: &Config) -> Result<()> {
        let owners = module::owners(config);
        if self.print {
            return self.show_sql(config, &owners);
        }
        match self.down {
            true => self.take_back(config, &owners).await,
            false => self.bring_up(config, &owners).await,
        }
    }

    fn show_sql(&self, config: &Config, owners: &[Owner]) -> Result<()> {
        let all: Vec<(&str, &[Migration])> = owners.iter().map(|(owner, all)| (*owner, all.as_slice())).collect();
        let sql = migration::script(config.store.url.kind().backend(), &all);
        match self.json {
            true => print_json(&json!({ "sql": sql.trim_end() })),
            false => print(sql.trim_end()),
        }
    }

    async fn bring_up(&self, config: &Config, owners: &[Owner]) -> Result<()> {
        let store = config.store.url.open().await?;
        let mut applied = Vec::new();
        for (owner, migrations) in owners {
            for migration in migration::up(store.db(), owner, migrations).await? {
                let name = name(owner, &migration);
                if !self.json {
                    print(format!("applied  {name}"))?;
                }
                applied.push(name);
            }
        }
        let now = if applied.is_empty() { "" } else { "now " };
        match self.json {
            true => print_json(&json!({ "store": config.store.url.to_string(), "applied": applied })),
            false => print(format!("{} is {now}up to date", config.store.url)),
        }
    }

    async fn take_back(&self, config: &Config, owners: &[Owner]) -> Result<()> {
        let url = &config.store.url;
        let Some((owner, migrations)) = owners.iter().find(|(owner, _)| *owner == self.of) else {
            let names: Vec<&str> = owners.iter().map(|(owner, _)| *owner).collect();
            bail!("nothing here is named {:?}; there is {}", self.of, names.join(" and "));
        };
        if !self.yes {
            bail!(
                "this removes the newest tables of {owner} in {url} with everything in them; add --yes if that is meant"
            );
        }
        let store = url.open().await?;
        let taken = migration::down(store.db(), owner, migrations).await?;
        match taken.map(|migration| name(owner, &migration)) {
            taken if self.json => print_json(&json!({ "store": url.to_string(), "took_back": taken })),
            Some(taken) => print(format!("took back  {taken}")),
            None => print(format!("{owner} has no tables in {url}")),
        }
    }
}

fn name(owner: &str, migration: &Migration) -> String {
    format!("{owner} {:04}_{}", migration.number, migration.name)
}
