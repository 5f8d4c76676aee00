//! Permissions of the database file: events hold whatever the application puts into them, so other users of the machine may not
//! read them.

use std::io;
use std::path::Path;

/// Creates a folder for its owner alone, with those above it. A folder that exists keeps its permissions.
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

/// Keeps the database file from other users: a missing file is created for its owner alone, and SQLite gives the files beside it the
/// same permissions. A file of an older version loses the permissions of users that are not in its group. Nothing here fails: opening the file does, if it must.
#[cfg(unix)]
pub(crate) fn keep_private(file: &Path) {
    use std::os::unix::fs::OpenOptionsExt;

    let mut options = std::fs::OpenOptions::new();
    let created = options.write(true).create_new(true).mode(0o600).open(file);
    if created.is_err() {
        tighten(file);
    }
}

#[cfg(not(unix))]
pub(crate) fn keep_private(_file: &Path) {}

/// Tightens a file that exists, and those beside it.
#[cfg(unix)]
fn tighten(file: &Path) {
    let beside = |suffix: &str| {
        let mut name = file.as_os_str().to_owned();
        name.push(suffix);
        name
    };
    let names = ["", "-wal", "-shm", "-journal"].map(beside);
    let tightened: Vec<io::Result<bool>> = names.iter().map(|name| tighten_one(Path::new(name))).collect();
    let error = tightened.iter().find_map(|outcome| outcome.as_ref().err());
    let file = file.display();
    if let Some(error) = error {
        tracing::warn!(%file, %error, "other users of this machine can read the database, and its permissions could not be changed");
    } else if tightened.iter().flatten().any(|is_changed| *is_changed) {
        tracing::info!(%file, "other users of this machine could read the database; now they cannot");
    }
}

/// Whether the permissions of a file had to change. A file that is not there needs none.
#[cfg(unix)]
fn tighten_one(file: &Path) -> io::Result<bool> {
    use std::os::unix::fs::PermissionsExt;

    let Ok(metadata) = std::fs::metadata(file) else {
        return Ok(false);
    };
    let mode = metadata.permissions().mode() & 0o777;
    let private = private_mode(mode);
    if private == mode || !metadata.is_file() {
        return Ok(false);
    }
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(private)).map(|()| true)
}

/// The permissions without those of all other users. The group keeps its own: an administrator may have let it in, for example for
/// monitoring.
#[cfg(unix)]
fn private_mode(mode: u32) -> u32 {
    mode & 0o770
}

#[cfg(all(test, unix))]
mod tests {
    use super::private_mode;

    #[test]
    fn others_lose_their_permissions_and_the_group_keeps_its_own() {
        let check = |mode: u32, expected: u32| assert_eq!(private_mode(mode), expected, "{mode:o}");
        check(0o600, 0o600);
        check(0o644, 0o640);
        check(0o640, 0o640);
        check(0o666, 0o660);
        check(0o660, 0o660);
        check(0o400, 0o400);
    }
}
