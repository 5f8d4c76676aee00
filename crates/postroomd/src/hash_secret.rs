//! The secret of the hashes of activity collection, where the configuration has none: on the store that this program makes by
//! itself, one is made at the first start and kept in a file beside the store. On any other store the operator gives one.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use toml::{Table, Value};

use crate::config::Config;

const FILE: &str = "activity-hash-secret";
const SECRET_BYTES: usize = 32;

/// Gives the configuration the secret that is kept in this folder. Makes one if there is none yet.
pub(crate) fn keep(config: &mut Config, folder: &Path) -> Result<()> {
    if !is_given(config) {
        let file = folder.join(FILE);
        let secret = match read(&file)? {
            Some(secret) => secret,
            None => make(folder, &file)?,
        };
        give(config, secret);
    }
    Ok(())
}

/// The same, if one is kept there.
pub(crate) fn look(config: &mut Config, folder: &Path) -> Result<()> {
    if !is_given(config)
        && let Some(secret) = read(&folder.join(FILE))?
    {
        give(config, secret);
    }
    Ok(())
}

/// Gives the configuration a secret that ends with this process, if it has none.
pub(crate) fn invent(config: &mut Config) {
    if !is_given(config) {
        give(config, random());
    }
}

/// The folder of the store, if this program makes it by itself.
pub(crate) fn folder(config: &Config) -> Option<PathBuf> {
    let file = config.store.url.file()?;
    file.parent().map(Path::to_owned)
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

fn read(file: &Path) -> Result<Option<String>> {
    match fs::read_to_string(file) {
        Ok(secret) => Ok(Some(secret.trim().to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("read the hash secret {}", file.display())),
    }
}

/// Writes a secret that only its owner may read. Of several processes that do this at once, one writes the secret of all.
fn make(folder: &Path, file: &Path) -> Result<String> {
    let doing = || format!("keep the hash secret {}", file.display());
    let secret = random();
    // A temporary file has the mode 0600.
    let mut new = tempfile::NamedTempFile::new_in(folder).with_context(doing)?;
    writeln!(new, "{secret}")
        .and_then(|()| new.as_file().sync_all())
        .with_context(doing)?;
    match new.persist_noclobber(file) {
        Ok(_file) => {
            tracing::info!(file = %file.display(), "made the secret of the hashes of activity collection; keep it with the store");
            Ok(secret)
        }
        Err(error) if error.error.kind() == ErrorKind::AlreadyExists => read(file)?.with_context(doing),
        Err(error) => Err(error.error).with_context(doing),
    }
}

fn random() -> String {
    let bytes: [u8; SECRET_BYTES] = rand::random();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn secret(config: &Config) -> String {
        let own = config.modules.own(postroom_activity::NAME);
        own["pii"]["hash_secret"].as_str().unwrap().to_owned()
    }

    #[test]
    fn a_secret_is_made_once_and_only_its_owner_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let (mut first, mut second, mut third) = (Config::default(), Config::default(), Config::default());
        look(&mut first, folder.path()).unwrap();
        assert!(!is_given(&first));
        keep(&mut first, folder.path()).unwrap();
        keep(&mut second, folder.path()).unwrap();
        look(&mut third, folder.path()).unwrap();
        assert_eq!(secret(&first).len(), 2 * SECRET_BYTES);
        assert_eq!((secret(&first), secret(&first)), (secret(&second), secret(&third)));
        let mode = fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!format!("{first:?}").contains(&secret(&first)));
        assert_eq!(
            make(folder.path(), &folder.path().join(FILE)).unwrap(),
            secret(&first),
            "two at once"
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no other file is left");
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
