//! The tests of the whole workspace against real services.

use std::env;
use std::num::NonZero;
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use anyhow::Result;

use crate::process;
use crate::services::Lease;
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace, args: &[String]) -> Result<ExitCode> {
    let begun = Instant::now();
    let lease = Lease::take(workspace)?;
    let ready = Instant::now();
    let mut cargo = process::cargo();
    cargo.arg("test");
    if env::var_os("RUST_TEST_THREADS").is_none() {
        // Tests mostly wait for their databases: more of them than cores.
        let cores = thread::available_parallelism().map_or(2, NonZero::get);
        cargo.env("RUST_TEST_THREADS", (cores * 3).to_string());
    }
    if !names_packages(args) {
        cargo.arg("--workspace");
    }
    let status = process::run_until_stopped(cargo.args(args).current_dir(&workspace.root).envs(lease.variables()))?;
    let tested = Instant::now();
    drop(lease);
    eprintln!(
        "\nservices up   {:>6.1} s\ntests {} {:>6.1} s\nservices down {:>6.1} s",
        (ready - begun).as_secs_f64(),
        if status.success() { "ok     " } else { "FAILED " },
        (tested - ready).as_secs_f64(),
        tested.elapsed().as_secs_f64(),
    );
    Ok(process::exit_code(status))
}

/// Whether the person chose packages; without a choice, all are tested.
fn names_packages(args: &[String]) -> bool {
    let own = args.iter().take_while(|arg| *arg != "--");
    own.into_iter()
        .any(|arg| arg.starts_with("-p") || arg == "--package" || arg.starts_with("--package="))
}

#[cfg(test)]
mod tests {
    use super::names_packages;

    #[test]
    fn a_chosen_package_replaces_the_workspace() {
        let check = |line: &str| names_packages(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert!(check("-p postroom"));
        assert!(check("--test it --package=postroom"));
        assert!(!check("--test it -- -p"));
    }
}
