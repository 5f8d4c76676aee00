//! Debian packages, installed only when a program is missing and without starting any daemon.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::root;
use crate::process;

/// Installs in one go. A policy that forbids daemons keeps Debian's own clusters from starting meanwhile.
pub(super) const INSTALL: &str = r#"
set -eu
export DEBIAN_FRONTEND=noninteractive
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod 755 "$policy"
fi
apt-get update -q
apt-get install -q -y --no-install-recommends -o DPkg::Lock::Timeout=120 "$@"
"#;

/// Installs the packages, or says what to install where we may not.
pub(super) fn install(packages: BTreeSet<&'static str>) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.iter().copied().collect::<Vec<_>>().join(" ");
    if process::find("apt-get").is_none() {
        bail!("these Debian packages, or what they hold, must be installed first: {list}");
    }
    let mut command = if root::is_superuser()? {
        Command::new("sh")
    } else if process::succeeds(Command::new("sudo").args(["-n", "true"])) {
        let mut sudo = Command::new("sudo");
        sudo.args(["-n", "sh"]);
        sudo
    } else {
        bail!("packages are missing and this user may not install them: sudo apt-get install {list}");
    };
    eprintln!("installing {list}");
    process::run(command.args(["-c", INSTALL, "install"]).args(&packages)).context("install packages")
}
