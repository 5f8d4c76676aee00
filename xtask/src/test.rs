//! The tests of the whole workspace against real services.

use std::env;
use std::num::NonZero;
use std::process::{Command, ExitCode, ExitStatus};
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
    let mut status = ExitStatus::default();
    for pass in passes(args) {
        let mut cargo = cargo(workspace);
        status = process::run_until_stopped(cargo.args(pass).envs(lease.variables()))?;
        if !status.success() {
            break;
        }
    }
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

/// The arguments of each `cargo test`. Without arguments, every test runs. Tests in a module `alone` limit a time, so they run
/// last, one at a time. With arguments, one pass runs what they name.
fn passes(args: &[String]) -> Vec<Vec<String>> {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    if args.is_empty() {
        return vec![
            words("--workspace -- --skip alone::"),
            words("--workspace --test it -- alone:: --test-threads 1 --nocapture"),
        ];
    }
    let mut pass = Vec::new();
    if !names_packages(args) {
        pass.push("--workspace".to_owned());
    }
    pass.extend_from_slice(args);
    vec![pass]
}

/// `cargo test` in the workspace.
pub(crate) fn cargo(workspace: &Workspace) -> Command {
    let mut cargo = process::cargo();
    cargo.arg("test").current_dir(&workspace.root);
    if env::var_os("RUST_TEST_THREADS").is_none() {
        // Tests mostly wait for their databases: more of them than cores.
        let cores = thread::available_parallelism().map_or(2, NonZero::get);
        cargo.env("RUST_TEST_THREADS", (cores * 3).to_string());
    }
    cargo
}

/// Whether the person chose packages; without a choice, all are tested.
fn names_packages(args: &[String]) -> bool {
    let own = args.iter().take_while(|arg| *arg != "--");
    own.into_iter()
        .any(|arg| arg.starts_with("-p") || arg == "--package" || arg.starts_with("--package="))
}

#[cfg(test)]
mod tests {
    use super::{names_packages, passes};

    #[test]
    fn tests_that_limit_a_time_run_last_and_alone() {
        let lines: Vec<_> = passes(&[]).iter().map(|pass| pass.join(" ")).collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].ends_with("--skip alone::"), "{lines:?}");
        assert!(lines[1].contains(" alone:: --test-threads 1"), "{lines:?}");
    }

    #[test]
    fn named_tests_run_in_one_pass() {
        assert_eq!(passes(&["retention".to_owned()]), [["--workspace", "retention"]]);
        assert_eq!(passes(&["-p".to_owned(), "hello".to_owned()]), [["-p", "hello"]]);
    }

    #[test]
    fn a_chosen_package_replaces_the_workspace() {
        let check = |line: &str| names_packages(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert!(check("-p postroom"));
        assert!(check("--test it --package=postroom"));
        assert!(!check("--test it -- -p"));
    }
}
