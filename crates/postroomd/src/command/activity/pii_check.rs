//! `postroom activity pii-check`: try the rules of the PII firewall on a file.

use std::io::Read as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use postroom::operate::counted;
use postroom_activity::{NAME, Privacy, Settings, pii_check};
use serde::Deserialize as _;

use crate::config::Config;
use crate::hash_secret;
use crate::listing::Listing;
use crate::output::{print, print_json};
use postroom_address::StoreUrl;

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
        let total = checked.total();
        if self.json {
            let document = serde_json::json!({ "lines": checked.lines, "total": total, "found": checked.found });
            return print_json(&document);
        }
        let lines = counted(checked.lines as u64, "line", "lines");
        if checked.found.is_empty() {
            return print(format!("{lines}: nothing would be removed"));
        }
        let mut listing = Listing::new(&["#line", "kind", "#count", "place"]);
        for found in checked.found {
            listing.row([
                found.line.into(),
                found.kind.into(),
                found.count.into(),
                found.place.into(),
            ]);
        }
        let values = counted(total, "value", "values");
        print(format!(
            "{}\n{lines}: {values} would be removed or hashed",
            listing.text()
        ))
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
    if config.store.url == StoreUrl::default()
        && let Some(folder) = hash_secret::folder(&config)
    {
        hash_secret::look(&mut config, &folder)?;
    }
    hash_secret::invent(&mut config);
    let settings = Settings::deserialize(config.modules.own(NAME))?;
    Ok(Privacy::new(&settings.pii, None)?)
}
