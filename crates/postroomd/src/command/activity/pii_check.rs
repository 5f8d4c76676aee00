//! `postroom activity pii-check`: try the rules of the PII firewall on a file.

use std::io::Read as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use postroom_activity::{NAME, Privacy, Settings, pii_check};
use postroom_terminal::output::print_json;
use postroom_terminal::page;
use serde::Deserialize as _;

use crate::config::Config;
use crate::hash_secret;

/// Show what the PII firewall would remove from a file, without the removed values
///
/// The file is a JSON document, or has lines that are JSON documents or texts. The rules are those of [modules.activity.pii].
#[derive(Debug, Args)]
pub(crate) struct PiiCheck {
    /// The file; - reads standard input
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl PiiCheck {
    pub(crate) fn run(self, config: &Config) -> Result<()> {
        let content = self.content()?;
        let privacy = privacy(config)?;
        let checked = pii_check::check(privacy.firewall()?, &String::from_utf8_lossy(&content));
        if self.json {
            let document =
                serde_json::json!({ "lines": checked.lines, "total": checked.total(), "found": checked.found });
            return print_json(&document);
        }
        page::activity::pii(&checked)
    }

    fn content(&self) -> Result<Vec<u8>> {
        if self.file.as_os_str() == "-" {
            let mut content = Vec::new();
            std::io::stdin()
                .lock()
                .read_to_end(&mut content)
                .context("read standard input")?;
            return Ok(content);
        }
        std::fs::read(&self.file).with_context(|| format!("read {}", self.file.display()))
    }
}

/// The rules of the configuration. Hashes of its secret are recognised; without one, any secret will do.
fn privacy(config: &Config) -> Result<Privacy> {
    let mut config = config.clone();
    if let Some(folder) = hash_secret::folder(&config) {
        hash_secret::look(&mut config, &folder)?;
    }
    hash_secret::invent(&mut config);
    let settings = Settings::deserialize(config.modules.own(NAME))?;
    Ok(Privacy::new(&settings.pii, None)?)
}
