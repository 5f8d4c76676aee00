//! Secrets that this program makes by itself: each is kept in a file beside the built-in store.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result};

/// Random bytes of a secret. It is kept as twice as many hexadecimal digits.
pub(crate) const SECRET_BYTES: usize = 32;

/// The secret in this file. Makes one that only its owner may read if there is none yet.
pub(crate) fn keep(file: &Path) -> Result<String> {
    match read(file)? {
        Some(secret) => Ok(secret),
        None => make(file),
    }
}

/// The secret in this file, if there is one.
pub(crate) fn read(file: &Path) -> Result<Option<String>> {
    match fs::read_to_string(file) {
        Ok(secret) => Ok(Some(secret.trim().to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("read the secret {}", file.display())),
    }
}

/// A secret that is kept nowhere.
pub(crate) fn random() -> String {
    let bytes: [u8; SECRET_BYTES] = rand::random();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Of several processes that do this at once, one writes the secret of all.
fn make(file: &Path) -> Result<String> {
    let doing = || format!("keep the secret {}", file.display());
    let folder = file.parent().with_context(doing)?;
    let secret = random();
    // A temporary file has the mode 0600.
    let mut new = tempfile::NamedTempFile::new_in(folder).with_context(doing)?;
    writeln!(new, "{secret}")
        .and_then(|()| new.as_file().sync_all())
        .with_context(doing)?;
    match new.persist_noclobber(file) {
        Ok(_file) => {
            tracing::info!(file = %file.display(), "made a secret; keep it with the store");
            Ok(secret)
        }
        Err(error) if error.error.kind() == ErrorKind::AlreadyExists => read(file)?.with_context(doing),
        Err(error) => Err(error.error).with_context(doing),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_secret_is_made_once_and_only_its_owner_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        assert_eq!(read(&file).unwrap(), None);
        let secret = keep(&file).unwrap();
        assert_eq!(secret.len(), 2 * SECRET_BYTES);
        assert_eq!(
            (keep(&file).unwrap(), read(&file).unwrap()),
            (secret.clone(), Some(secret.clone()))
        );
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(make(&file).unwrap(), secret, "two at once");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no other file is left");
        assert_ne!(random(), secret);
    }
}
