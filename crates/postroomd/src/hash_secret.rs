//! The secret of the hashes of activity collection, where the configuration has none: on the store that this program makes by
//! itself, one is made at the first start and kept in a file beside the store. On any other store the operator gives one.

use std::path::{Path, PathBuf};

use anyhow::Result;
use toml::{Table, Value};

use crate::config::Config;
use crate::secret_file;

const FILE: &str = "activity-hash-secret";

/// Gives the configuration the secret that is kept in this folder. Makes one if there is none yet.
pub(crate) fn keep(config: &mut Config, folder: &Path) -> Result<()> {
    if !is_given(config) {
        give(config, secret_file::keep(&folder.join(FILE))?);
    }
    Ok(())
}

/// The same, if one is kept there.
pub(crate) fn look(config: &mut Config, folder: &Path) -> Result<()> {
    if !is_given(config)
        && let Some(secret) = secret_file::read(&folder.join(FILE))?
    {
        give(config, secret);
    }
    Ok(())
}

/// Gives the configuration a secret that ends with this process, if it has none.
pub(crate) fn invent(config: &mut Config) {
    if !is_given(config) {
        give(config, secret_file::random());
    }
}

/// The folder of the store, if it is the one that this program makes when no other is named.
pub(crate) fn folder(config: &Config) -> Option<PathBuf> {
    let url = &config.store.url;
    url.folder().filter(|_| url.is_built_in())
}

fn is_given(config: &Config) -> bool {
    let own = config.modules.own(postroom_activity::NAME);
    let pii = own.get("pii").and_then(Value::as_table);
    let secret = pii.and_then(|pii| pii.get("hash_secret"));
    secret.is_some_and(|secret| secret.as_str() != Some(""))
}

fn give(config: &mut Config, secret: String) {
    let Some(settings) = config.modules.0.get_mut(postroom_activity::NAME) else {
        return;
    };
    let pii = settings.own.entry("pii").or_insert_with(|| Table::new().into());
    if let Value::Table(pii) = pii {
        pii.insert("hash_secret".to_owned(), secret.into());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::secret_file::SECRET_BYTES;

    fn secret(config: &Config) -> String {
        let own = config.modules.own(postroom_activity::NAME);
        own["pii"]["hash_secret"].as_str().unwrap().to_owned()
    }

    #[test]
    fn a_secret_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let (mut first, mut second, mut third) = (Config::default(), Config::default(), Config::default());
        look(&mut first, folder.path()).unwrap();
        assert!(!is_given(&first));
        keep(&mut first, folder.path()).unwrap();
        keep(&mut second, folder.path()).unwrap();
        look(&mut third, folder.path()).unwrap();
        assert_eq!((secret(&first), secret(&first)), (secret(&second), secret(&third)));
        assert!(!format!("{first:?}").contains(&secret(&first)));
    }

    #[test]
    fn a_secret_of_the_configuration_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let toml = "[modules.activity.pii]\nhash_secret = \"an invented secret that only tests use\"";
        let mut config = Config::read(toml, []).unwrap();
        keep(&mut config, folder.path()).unwrap();
        invent(&mut config);
        assert_eq!(secret(&config), "an invented secret that only tests use");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let mut other = Config::default();
        invent(&mut other);
        assert_eq!(secret(&other).len(), 2 * SECRET_BYTES);
    }
}
