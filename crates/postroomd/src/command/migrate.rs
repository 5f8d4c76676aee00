//! `postroom migrate`: the tables.

use anyhow::{Result, bail};
use clap::Args;
use postroom::{Inspect, Migration, migration};

use crate::config::Config;
use crate::module;
use crate::output::print;
use crate::store::PLATFORM;

/// Bring the store's tables up to date
///
/// Safe to run from many processes at once. Covers the platform's tables and those of the modules that are on.
#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// Print the SQL of everything instead, for a migration tool of your own
    #[arg(long, conflicts_with = "down")]
    print: bool,
    /// Take back the newest step, with the tables and rows it brought; needs --yes
    #[arg(long)]
    down: bool,
    /// Whose newest step to take back: postroom, or a module
    #[arg(long, value_name = "NAME", default_value = PLATFORM, requires = "down")]
    of: String,
    /// Confirms --down
    #[arg(long, requires = "down")]
    yes: bool,
}

impl Migrate {
    pub(crate) async fn run(self, config: &Config) -> Result<()> {
        let store = config.store.url.open().await?;
        let owners = owners(config, store.as_ref());
        if self.print {
            let all: Vec<(&str, &[Migration])> = owners.iter().map(|(owner, all)| (*owner, all.as_slice())).collect();
            return print(migration::script(store.db().get_database_backend(), &all).trim_end());
        }
        if self.down {
            return self.take_back(config, store.as_ref(), &owners).await;
        }
        let mut applied = 0;
        for (owner, migrations) in &owners {
            for migration in migration::up(store.db(), owner, migrations).await? {
                applied += 1;
                print(format!("applied  {owner} {}", name(&migration)))?;
            }
        }
        match applied {
            0 => print(format!("{} is up to date", config.store.url)),
            _ => print(format!("{} is now up to date", config.store.url)),
        }
    }

    async fn take_back(&self, config: &Config, store: &dyn Inspect, owners: &[(&str, Vec<Migration>)]) -> Result<()> {
        let Some((owner, migrations)) = owners.iter().find(|(owner, _)| *owner == self.of) else {
            let names: Vec<&str> = owners.iter().map(|(owner, _)| *owner).collect();
            bail!("nothing here is named {:?}; there is {}", self.of, names.join(" and "));
        };
        if !self.yes {
            bail!(
                "this removes the newest tables of {owner} in {} with everything in them; add --yes if that is meant",
                config.store.url
            );
        }
        match migration::down(store.db(), owner, migrations).await? {
            Some(migration) => print(format!("took back  {owner} {}", name(&migration))),
            None => print(format!("{owner} has no tables in {}", config.store.url)),
        }
    }
}

/// Who has tables, and which.
fn owners(config: &Config, store: &dyn Inspect) -> Vec<(&'static str, Vec<Migration>)> {
    let modules = module::enabled(config)
        .into_iter()
        .map(|module| (module.name, module.tables));
    std::iter::once((PLATFORM, store.migrations().to_vec()))
        .chain(modules)
        .collect()
}

fn name(migration: &Migration) -> String {
    format!("{:04}_{}", migration.number, migration.name)
}
