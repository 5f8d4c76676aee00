//! PostgreSQL, any major version Debian has; durable as in production, with trust for everyone local.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::daemon::Process;
use super::home::Home;
use super::root::Root;
use super::{About, Service};
use crate::process;

const SETTINGS: &[&str] = &[
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "fsync=on",
    "max_connections=300",
    "max_prepared_transactions=50",
    "shared_buffers=512MB",
    "wal_level=replica",
    "max_wal_size=4GB",
];

/// One server; of the newest version that its root has.
pub(super) struct Postgres {
    pub(super) name: &'static str,
    pub(super) release: Option<&'static str>,
}

impl Service for Postgres {
    fn about(&self) -> About {
        About {
            name: self.name,
            release: self.release,
            variable: "POSTROOM_TEST_POSTGRES_URL",
            user: Some("postgres"),
            ports: 1,
            stop: "INT",
            needs: None,
        }
    }

    fn missing(&self, root: &Root) -> Vec<&'static str> {
        if programs(root).is_some() {
            vec![]
        } else {
            vec!["postgresql"]
        }
    }

    fn start(&self, home: &Home) -> Result<Vec<Process>> {
        let programs = programs(&home.root).context("find initdb and postgres")?;
        let mut init = home.command(programs.join("initdb"));
        init.args([
            "--auth=trust",
            "--username=postgres",
            "--encoding=UTF8",
            "--no-locale",
            "--no-sync",
            "--pgdata",
        ]);
        process::output(init.arg(home.data()))?;
        let mut server = home.command(programs.join("postgres"));
        server.arg("-D").arg(home.data()).args(["-p", &home.port().to_string()]);
        for setting in SETTINGS {
            server.args(["-c", setting]);
        }
        Ok(vec![home.spawn(&mut server)?])
    }

    fn is_ready(&self, home: &Home) -> bool {
        answers(home, &self.url(home))
    }

    fn url(&self, home: &Home) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", home.port())
    }

    /// How `pg_dump` is run, which must be as new as the server: a program and its first arguments, then a folder.
    fn variable(&self, home: &Home) -> Option<(String, String)> {
        let Root::Release { folder, .. } = &home.root else {
            return None;
        };
        let clients = format!("chroot {} {}", folder.display(), programs(&home.root)?.display());
        Some(("POSTROOM_TEST_POSTGRES_CLIENTS".to_owned(), clients))
    }
}

/// Whether a server at this address, or a pooler in front of it, answers a query.
pub(super) fn answers(home: &Home, url: &str) -> bool {
    let Some(programs) = programs(&home.root) else {
        return false;
    };
    process::succeeds(
        home.command(programs.join("psql"))
            .args(["-X", "-q", "-w", "-c", "select 1", url]),
    )
}

/// The folder with `initdb`, `postgres`, `pg_ctl` and `psql`: Debian's newest, or the one on the PATH.
pub(super) fn programs(root: &Root) -> Option<PathBuf> {
    let versions = fs::read_dir(root.path("/usr/lib/postgresql"));
    let versions = versions.into_iter().flatten().flatten();
    let newest = versions
        .map(|version| version.path())
        .filter(|version| is_complete(&version.join("bin")))
        .max_by_key(|version| version.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()));
    let on_path = || Some(root.find("postgres")?.canonicalize().ok()?.parent()?.to_path_buf());
    newest
        .map(|version| version.join("bin"))
        .or_else(|| on_path().filter(|folder| is_complete(folder)))
}

fn is_complete(folder: &Path) -> bool {
    ["initdb", "postgres", "pg_ctl", "psql"]
        .iter()
        .all(|program| folder.join(program).exists())
}
