//! Where the services keep their files, and who they run as.

use std::env;
use std::fs::{self, File, Permissions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::root::{Root, User, is_superuser};
use super::{About, MACHINE, port};
use crate::workspace::Workspace;

/// A socket's path has room for 107 bytes, and a service adds a file name or two to the folder.
const PATH_MAX: usize = 70;

/// The folder of all services of one clone.
pub(super) struct Place {
    pub(super) root: PathBuf,
    seed: u64,
}

impl Place {
    /// Below the target folder, unless other users cannot get there: then in the system's temporary folder.
    pub(super) fn of(workspace: &Workspace) -> Result<Self> {
        let mut hasher = DefaultHasher::new();
        workspace.target.hash(&mut hasher);
        let seed = hasher.finish();
        let near = workspace.target.join("services");
        let is_reachable = !is_superuser()? || is_open_to_all(&workspace.target);
        let root = if is_reachable && near.as_os_str().len() <= PATH_MAX {
            near
        } else {
            env::temp_dir().join(format!("postroom-services-{seed:016x}"))
        };
        Ok(Self { root, seed })
    }

    /// Waits its turn: one start or stop at a time in this place.
    pub(super) fn lock(&self) -> Result<File> {
        fs::create_dir_all(&self.root).with_context(|| format!("make {}", self.root.display()))?;
        let owner = fs::metadata(&self.root).context("look at the services' folder")?.uid();
        if owner != fs::metadata("/proc/self").context("find out who we are")?.uid() {
            bail!("{} belongs to another user", self.root.display());
        }
        open_to_all(&self.root, 0o755)?;
        let file = File::create(self.root.join("lock")).context("make the lock file")?;
        file.lock().context("take the lock")?;
        Ok(file)
    }

    /// The installation whose programs a service runs.
    pub(super) fn programs(&self, about: &About) -> Root {
        about.release.map_or(Root::Machine, |name| Root::Release {
            name,
            folder: self.root.join(name),
        })
    }

    /// Where a service's search for free ports begins: clones keep out of each other's way.
    pub(super) fn first_port(&self, service: &str) -> u16 {
        let mut hasher = DefaultHasher::new();
        (self.seed, service).hash(&mut hasher);
        let size = u64::from(port::RANGE.end - port::RANGE.start);
        port::RANGE.start + u16::try_from(hasher.finish() % size).unwrap_or_default()
    }

    /// A folder in which tests make data folders for databases of their own.
    pub(super) fn scratch(&self) -> PathBuf {
        self.root.join("scratch")
    }

    /// Makes the scratch folder: everyone may write there. The folder per service in it belongs to the
    /// user who runs that service, which is how a test learns whom to run one of its own as.
    pub(super) fn make_scratch(&self) -> Result<()> {
        make_open(&self.scratch(), None)?;
        for service in MACHINE {
            let about = service.about();
            make_open(&self.scratch().join(about.name), Root::Machine.user(about.user)?)?;
        }
        Ok(())
    }

    /// Drops what tests left behind.
    pub(super) fn drop_scratch(&self) -> Result<()> {
        let scratch = self.scratch();
        if scratch.exists() {
            fs::remove_dir_all(&scratch).with_context(|| format!("drop {}", scratch.display()))?;
        }
        Ok(())
    }
}

fn make_open(folder: &Path, owner: Option<User>) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    if let Some(user) = owner {
        chown(folder, Some(user.uid), Some(user.gid)).with_context(|| format!("give away {}", folder.display()))?;
    }
    open_to_all(folder, 0o1777)
}

fn open_to_all(folder: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(mode)).with_context(|| format!("open {}", folder.display()))
}

/// Whether every user can walk down to this folder; one that is not there yet says nothing.
fn is_open_to_all(folder: &Path) -> bool {
    let is_open = |folder: &Path| folder.metadata().map_or(true, |metadata| metadata.mode() & 0o001 != 0);
    folder.ancestors().all(is_open)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::is_open_to_all;

    #[test]
    fn the_top_folder_is_open_to_all() {
        assert!(is_open_to_all(Path::new("/")));
    }
}
