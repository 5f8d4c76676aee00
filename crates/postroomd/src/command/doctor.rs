//! `postroom doctor`: is everything set up so that nothing can get lost?

mod broker;

use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;
use postroom::Inspect;
use postroom_terminal::output::{chain, print_json};
use postroom_terminal::page::checkup;
use postroom_terminal::page::finding::{self, Finding, State};

use crate::config::Config;
use crate::module;

/// Check the store, its tables and settings, the clocks and who works the routes
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub(crate) async fn run(self, config: &Config) -> Result<()> {
        let findings = examine(config).await;
        match self.json {
            true => print_json(&findings)?,
            false => finding::show(&findings)?,
        }
        match findings.iter().filter(|finding| finding.state == State::Fail).count() {
            0 => Ok(()),
            failed => bail!("{failed} of {} checks failed", findings.len()),
        }
    }
}

async fn examine(config: &Config) -> Vec<Finding> {
    let mut findings = vec![Finding::ok(
        "program",
        format!("postroom {}", env!("CARGO_PKG_VERSION")),
    )];
    findings.extend(broker::examine(config).await);
    let url = &config.store.url;
    if url.file().is_some_and(|file| !file.exists()) {
        findings.push(Finding::fail(
            "store",
            format!("{url} does not exist"),
            "start `postroom up`, or name another with --store",
        ));
        return findings;
    }
    let begun = Instant::now();
    let store = match url.open_to_read().await {
        Ok(store) => store,
        Err(error) => {
            let next = "check the address, the server, the user and its password";
            findings.push(Finding::fail("store", chain(&error), next));
            return findings;
        }
    };
    findings.push(Finding::ok(
        "store",
        format!("{url} answers, connected in {} ms", begun.elapsed().as_millis()),
    ));
    findings.push(checkup::version(store.as_ref()).await);
    let tables = tables(config, store.as_ref()).await;
    let has_tables = tables.iter().all(|finding| finding.state == State::Ok);
    findings.extend(tables);
    findings.extend(checkup::server(store.as_ref()).await);
    if has_tables {
        findings.extend(checkup::work(store.as_ref()).await);
    }
    findings
}

async fn tables(config: &Config, store: &dyn Inspect) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (owner, migrations) in module::owners(config) {
        findings.push(checkup::tables(store, owner, &migrations).await);
    }
    findings
}
