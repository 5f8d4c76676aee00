//! The address of a store, and how it is opened.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use postroom::{Inspect, Migration, migration};
use postroom_mysql::Mysql;
use postroom_postgres::Postgres;
use postroom_sqlite::Sqlite;
use sea_orm::DbBackend;

const FOLDER: &str = "postroom-data";
const FILE: &str = "postroom.db";
/// The owner of the platform's migrations.
pub const PLATFORM: &str = "postroom";

/// Where a store is. Shown without its password.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl {
    kind: StoreKind,
    address: String,
}

/// Which database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// SQLite.
    Sqlite,
    /// PostgreSQL.
    Postgres,
    /// MySQL or MariaDB.
    Mysql,
}

impl Default for StoreUrl {
    fn default() -> Self {
        Self::in_folder(Path::new(FOLDER))
    }
}

impl StoreUrl {
    /// The file that Postroom keeps in a folder of its own.
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            kind: StoreKind::Sqlite,
            address: format!("sqlite://{}", folder.join(FILE).display()),
        }
    }

    /// Whether it is the file that Postroom makes by itself when no other store is named.
    pub fn is_built_in(&self) -> bool {
        *self == Self::default()
    }

    /// Which database.
    pub fn kind(&self) -> StoreKind {
        self.kind
    }

    /// The address as it was given, with whatever secret it holds: for opening, never for showing.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The platform's migrations there, oldest first.
    pub fn migrations(&self) -> &'static [Migration] {
        match self.kind {
            StoreKind::Sqlite => postroom_sqlite::MIGRATIONS,
            StoreKind::Postgres => postroom_postgres::MIGRATIONS,
            StoreKind::Mysql => postroom_mysql::MIGRATIONS,
        }
    }

    /// Opens the store; an SQLite file is made when it is missing.
    pub async fn open(&self) -> Result<Arc<dyn Inspect>> {
        let opened: postroom::Result<Arc<dyn Inspect>> = match self.kind {
            StoreKind::Sqlite => Sqlite::open(&self.address).await.map(|store| Arc::new(store) as _),
            StoreKind::Postgres => Postgres::connect(&self.address).await.map(|store| Arc::new(store) as _),
            StoreKind::Mysql => Mysql::connect(&self.address).await.map(|store| Arc::new(store) as _),
        };
        opened.with_context(|| format!("open the store {self}"))
    }

    /// Opens the store without changing anything: a user that may only read can do it.
    pub async fn open_to_read(&self) -> Result<Arc<dyn Inspect>> {
        match self.kind {
            StoreKind::Sqlite => {
                let opened = Sqlite::open_to_read(&self.address).await;
                let store = opened.with_context(|| format!("open the store {self}"))?;
                Ok(Arc::new(store))
            }
            StoreKind::Postgres | StoreKind::Mysql => self.open().await, // connecting changes nothing
        }
    }

    /// Opens a store that is there and has its tables.
    pub async fn open_ready(&self) -> Result<Arc<dyn Inspect>> {
        self.refuse_missing_file()?;
        let store = self.open().await?;
        self.refuse_old_tables(store.as_ref()).await?;
        Ok(store)
    }

    /// The same for commands that only look: see [`StoreUrl::open_to_read`].
    pub async fn open_ready_to_read(&self) -> Result<Arc<dyn Inspect>> {
        self.refuse_missing_file()?;
        let store = self.open_to_read().await?;
        self.refuse_old_tables(store.as_ref()).await?;
        Ok(store)
    }

    fn refuse_missing_file(&self) -> Result<()> {
        if let Some(file) = self.file().filter(|file| !file.exists()) {
            bail!(
                "there is no store at {} yet; `postroom up` starts one, `postroom migrate` makes its tables, \
                 `--store URL` names another",
                file.display()
            );
        }
        Ok(())
    }

    async fn refuse_old_tables(&self, store: &dyn Inspect) -> Result<()> {
        let pending = migration::pending(store.db(), PLATFORM, store.migrations()).await;
        let pending = pending.with_context(|| format!("look at the tables of {self}"))?;
        if !pending.is_empty() {
            bail!(
                "the tables of {self} are missing or older than this program; `postroom migrate` brings them up to date"
            );
        }
        Ok(())
    }

    /// The folder of an SQLite store.
    pub fn folder(&self) -> Option<PathBuf> {
        self.file()?.parent().map(Path::to_owned)
    }

    /// The file of an SQLite store.
    pub fn file(&self) -> Option<PathBuf> {
        let path = self
            .address
            .strip_prefix("sqlite:")
            .filter(|_| self.kind == StoreKind::Sqlite)?;
        let path = path.strip_prefix("//").unwrap_or(path);
        Some(path.split_once('?').map_or(path, |(path, _)| path).into())
    }
}

impl FromStr for StoreUrl {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        const WANTED: &str = "sqlite://path/to/file.db, postgres://user@host/database or mysql://user@host/database";
        let kind = match url.split_once(':').map(|(scheme, _)| scheme) {
            Some("sqlite") => StoreKind::Sqlite,
            Some("postgres" | "postgresql") => StoreKind::Postgres,
            Some("mysql" | "mariadb") => StoreKind::Mysql,
            Some(other) if url.contains("://") => {
                return Err(format!("no store is named {other}://; use {WANTED}"));
            }
            _ => return Err(format!("must be the address of a store: {WANTED}")),
        };
        let address = url.to_owned();
        Ok(Self { kind, address })
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((scheme, rest)) = self
            .address
            .split_once("://")
            .filter(|_| self.kind != StoreKind::Sqlite)
        else {
            return f.write_str(&self.address);
        };
        // A password may stand before the last @, and in ?password=.
        let (login, place) = match rest.rsplit_once('@') {
            Some((login, place)) => (login.split_once(':').map_or(login, |(user, _)| user), place),
            None => ("", rest),
        };
        let place = place.split_once('?').map_or(place, |(place, _)| place);
        let at = if login.is_empty() { "" } else { "@" };
        write!(f, "{scheme}://{login}{at}{place}")
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

impl StoreKind {
    /// Which SQL it takes.
    pub fn backend(self) -> DbBackend {
        match self {
            Self::Sqlite => DbBackend::Sqlite,
            Self::Postgres => DbBackend::Postgres,
            Self::Mysql => DbBackend::MySql,
        }
    }
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
            Self::Mysql => "MySQL",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_shown_without_its_password() {
        let check = |url: &str, shown: &str| assert_eq!(url.parse::<StoreUrl>().unwrap().to_string(), shown);
        check("postgres://app:s3cret@db/app", "postgres://app@db/app");
        check(
            "postgres://app:s3@cret@db:5432/app?password=x",
            "postgres://app@db:5432/app",
        );
        check("mysql://db/app", "mysql://db/app");
        check("sqlite://a/b.db", "sqlite://a/b.db");
    }

    #[test]
    fn other_schemes_are_refused_without_repeating_them() {
        let error = "oracle://scott:tiger@db/orcl".parse::<StoreUrl>().unwrap_err();
        assert!(
            error.starts_with("no store is named oracle://; use sqlite://"),
            "{error}"
        );
        assert!(!error.contains("tiger"));
        assert!("postroom.db".parse::<StoreUrl>().is_err());
    }

    #[test]
    fn an_sqlite_store_is_a_file() {
        let check = |url: &str, file: Option<&str>| {
            assert_eq!(
                url.parse::<StoreUrl>().unwrap().file(),
                file.map(PathBuf::from),
                "{url}"
            );
        };
        check("sqlite://a/b.db", Some("a/b.db"));
        check("sqlite:///a/b.db?synchronous=normal", Some("/a/b.db"));
        check("sqlite:b.db", Some("b.db"));
        check("postgres://db/app", None);
    }
}
