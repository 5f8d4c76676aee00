//! A module in the store of a bench: its tables are made before the bench and dropped after it.

use anyhow::{Context as _, Result, ensure};
use postroom::{Migration, migration};
use postroom_host::Module;
use sea_orm::DatabaseConnection;

/// A module whose tables the bench has made.
#[derive(Debug)]
pub(super) struct Guest {
    name: &'static str,
    migrations: Vec<Migration>,
}

impl Guest {
    /// Makes the tables of a module. Refuses a store that has them already: the bench would drop the data of others.
    pub(super) async fn receive(db: &DatabaseConnection, module: &Module) -> Result<Self> {
        let name = module.name;
        let migrations = module.migrations(db.get_database_backend());
        let missing = migration::pending(db, name, &migrations).await?;
        ensure!(
            missing.len() == migrations.len(),
            "the store has tables of the module {name:?}, which this bench makes and drops; name a store without them"
        );
        let made = migration::up(db, name, &migrations).await;
        made.with_context(|| format!("make the tables of the module {name:?}"))?;
        Ok(Self { name, migrations })
    }

    /// Drops the tables.
    pub(super) async fn leave(&self, db: &DatabaseConnection) -> Result<()> {
        let name = self.name;
        let doing = || format!("drop the tables of the module {name:?}");
        while migration::down(db, name, &self.migrations)
            .await
            .with_context(doing)?
            .is_some()
        {}
        Ok(())
    }

    /// The beginning of its event types.
    pub(super) fn types(&self) -> String {
        format!("{}.", self.name)
    }

    /// The beginning of its routes.
    pub(super) fn routes(&self) -> String {
        format!("{}-", self.name)
    }
}
