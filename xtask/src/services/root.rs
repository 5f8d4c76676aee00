//! The installation whose programs a service runs: this machine's, or a newer Debian release in a folder of its own.
//!
//! A release is bootstrapped once, from the mirror that this machine's apt uses, and kept between starts. Its programs see
//! its folder as `/` (chroot). A link in it makes every path below the folder mean the same inside and outside. Each
//! program gets its mounts in a namespace of its own, so nothing has to be unmounted when it ends.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::package;
use crate::process;

/// Makes a release's folder, ready to install packages. Servers of Debian's own are neither made nor started.
const BOOTSTRAP: &str = r#"
set -eu
release=$1 root=$2 mirror=$3
rm -rf "$root"
debootstrap --variant=minbase --include=ca-certificates "$release" "$root" "$mirror"
apt-config dump Acquire::http Acquire::https > "$root/etc/apt/apt.conf.d/90machine"
echo 'Acquire::Check-Valid-Until "false";' >> "$root/etc/apt/apt.conf.d/90machine"
mkdir -p "$root/etc/postgresql-common"
echo 'create_main_cluster = false' > "$root/etc/postgresql-common/createcluster.conf"
"#;

/// Runs a program of a release: in its folder as `/`, as one of its users, in a working folder.
const ENTER: &str = r#"
root=$0 user=$1 folder=$2
shift 2
mount -t proc proc "$root/proc"
exec chroot --userspec="$user" "$root" env --chdir="$folder" "$@"
"#;

/// An account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// Where programs and users are looked up.
#[derive(Debug, Clone)]
pub(super) enum Root {
    Machine,
    Release { name: &'static str, folder: PathBuf },
}

impl Root {
    /// Where this file of the root is on this machine.
    pub(super) fn path(&self, file: &str) -> PathBuf {
        match self {
            Self::Machine => PathBuf::from(file),
            Self::Release { folder, .. } => folder.join(file.trim_start_matches('/')),
        }
    }

    /// Finds a program.
    pub(super) fn find(&self, program: &str) -> Option<PathBuf> {
        match self {
            Self::Machine => process::find(program),
            // Not followed: a link means another file inside.
            Self::Release { .. } => ["/usr/bin", "/usr/sbin"]
                .map(|folder| self.path(folder).join(program))
                .into_iter()
                .find(|file| file.symlink_metadata().is_ok()),
        }
    }

    /// The user that runs a service; `None` unless xtask runs as root.
    pub(super) fn user(&self, name: Option<&str>) -> Result<Option<User>> {
        let Some(name) = name.filter(|_| self.is_there()) else {
            return Ok(None);
        };
        if !is_superuser()? {
            return Ok(None);
        }
        let accounts = fs::read_to_string(self.path("/etc/passwd")).context("read /etc/passwd")?;
        Ok(find_user(&accounts, name).or_else(|| find_user(&accounts, "nobody")))
    }

    /// Whether its programs can be installed; a release has to be bootstrapped first.
    fn is_there(&self) -> bool {
        self.path("/").exists()
    }

    /// A program to run as this user in this folder.
    pub(super) fn command(&self, program: &Path, user: Option<User>, folder: &Path) -> Command {
        let mut command = match self {
            Self::Machine => {
                let mut command = Command::new(program);
                if let Some(user) = user {
                    command.uid(user.uid).gid(user.gid);
                }
                command
            }
            Self::Release { folder: root, .. } => {
                let user = user.map_or_else(|| "0:0".to_owned(), |user| format!("{}:{}", user.uid, user.gid));
                let mut command = Command::new("unshare");
                command.args(["--mount", "sh", "-e", "-c", ENTER]).arg(root);
                command.arg(user).arg(folder).arg(program);
                command
            }
        };
        command.current_dir(folder);
        command
    }

    /// Installs these packages, after making the release's folder if it is not there yet.
    pub(super) fn install(&self, packages: BTreeSet<&'static str>) -> Result<()> {
        let Self::Release { name, folder } = self else {
            return package::install(packages);
        };
        bootstrap(name, folder)?;
        if packages.is_empty() {
            return Ok(());
        }
        eprintln!(
            "{name}: installing {}",
            packages.iter().copied().collect::<Vec<_>>().join(" ")
        );
        let mut install = self.command(Path::new("/bin/sh"), None, Path::new("/"));
        process::run(install.args(["-c", package::INSTALL, "install"]).args(packages))
            .with_context(|| format!("install packages of Debian {name}"))
    }
}

/// Whether we are root.
pub(super) fn is_superuser() -> Result<bool> {
    Ok(fs::metadata("/proc/self").context("find out who we are")?.uid() == 0)
}

fn bootstrap(release: &str, folder: &Path) -> Result<()> {
    if !is_superuser()? {
        bail!("newer servers run in a Debian of their own, which only root can make (chroot): run this as root");
    }
    if !folder.exists() {
        let tools = [("debootstrap", "debootstrap"), ("unshare", "util-linux")];
        let missing = tools
            .into_iter()
            .filter(|(program, _)| process::find(program).is_none());
        package::install(missing.map(|(_, package)| package).collect())?;
        eprintln!("{release}: making a Debian in {}", folder.display());
        let unfinished = folder.with_extension("unfinished");
        let mut make = Command::new("unshare");
        make.args(["--mount", "sh", "-c", BOOTSTRAP, "bootstrap", release]);
        process::run(make.arg(&unfinished).arg(mirror()?)).with_context(|| format!("make a Debian {release}"))?;
        fs::rename(&unfinished, folder).context("move the new Debian into place")?;
    }
    link_to_itself(folder)
}

/// Makes paths below the folder mean the same for programs that see the folder as `/`.
fn link_to_itself(folder: &Path) -> Result<()> {
    let inside = folder.join(folder.strip_prefix("/").unwrap_or(folder));
    if inside.symlink_metadata().is_ok() {
        return Ok(());
    }
    let doing = || format!("make {}", inside.display());
    fs::create_dir_all(inside.parent().unwrap_or(folder)).with_context(doing)?;
    symlink("/", &inside).with_context(doing)
}

/// The Debian mirror that this machine's apt uses.
fn mirror() -> Result<String> {
    let mut list = Command::new("apt-get");
    list.args(["indextargets", "--format", "$(REPO_URI)", "Label: Debian"]);
    let listed = process::output(&mut list)?;
    let first = listed.lines().next();
    first
        .map(str::to_owned)
        .context("apt knows no Debian mirror: newer servers are installed from one; add it, then `apt-get update`")
}

fn find_user(accounts: &str, name: &str) -> Option<User> {
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next()? != name {
            return None;
        }
        Some(User {
            uid: fields.nth(1)?.parse().ok()?,
            gid: fields.next()?.parse().ok()?,
        })
    })
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{Root, User, find_user};

    #[test]
    fn a_user_is_found_by_the_whole_name() {
        let accounts = "root:x:0:0::/:/bin/sh\nmysqlx:x:1:2::/:\nmysql:x:102:105:MySQL,,,:/nonexistent:/bin/false\n";
        assert_eq!(find_user(accounts, "mysql"), Some(User { uid: 102, gid: 105 }));
        assert_eq!(find_user(accounts, "nobody"), None);
    }

    #[test]
    fn a_program_of_a_release_runs_in_its_folder_as_its_user() {
        let root = Root::Release {
            name: "sid",
            folder: PathBuf::from("/target/sid"),
        };
        assert_eq!(root.path("/etc/passwd"), Path::new("/target/sid/etc/passwd"));
        let user = Some(User { uid: 7, gid: 8 });
        let command = root.command(Path::new("/usr/bin/server"), user, Path::new("/srv/it"));
        let words: Vec<_> = command.get_args().skip(5).collect();
        assert_eq!(words, ["/target/sid", "7:8", "/srv/it", "/usr/bin/server"]);
    }
}
