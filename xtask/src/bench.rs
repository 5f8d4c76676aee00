//! `postroom bench`, built for release, against the services.

use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::process;
use crate::services::Lease;
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace, args: &[String]) -> Result<ExitCode> {
    let mut build = process::cargo();
    process::run(
        build
            .args(["build", "--release", "--package", "postroomd"])
            .current_dir(&workspace.root),
    )?;
    let lease = Lease::take(workspace)?;
    let mut bench = Command::new(workspace.target.join("release/postroom"));
    let status = process::run_until_stopped(bench.arg("bench").args(args).envs(lease.variables()))?;
    Ok(process::exit_code(status))
}
