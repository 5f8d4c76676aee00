//! The suites of stores, relay, brokers and ledger on newer servers, one server after the other.

use std::fmt::{self, Display};
use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::process;
use crate::services::Lease;
use crate::test;
use crate::workspace::Workspace;

/// A server and what is tried on it.
struct Trial {
    server: &'static str,
    /// The pooler in front of the server; another variable holds its address.
    pooler: Option<&'static str>,
    suite: &'static Suite,
}

/// Crates whose tests run on a server.
struct Suite {
    packages: &'static [&'static str],
    /// Parts of the names of tests for other databases, which would only run on the ordinary services once more.
    skipped: &'static [&'static str],
}

const POSTGRES: &Suite = &Suite {
    packages: &["postroom-postgres", "postroom-testkit", "ledger"],
    skipped: &["mysql", "mariadb", "sqlite"],
};
const MYSQL: &Suite = &Suite {
    packages: &["postroom-mysql", "postroom-testkit", "ledger"],
    skipped: &["postgres", "pgbouncer", "sqlite"],
};
const REDIS: &Suite = &Suite {
    packages: &["postroom-redis"],
    skipped: &[],
};
const RABBITMQ: &Suite = &Suite {
    packages: &["postroom-rabbitmq"],
    skipped: &[],
};

const TRIALS: &[Trial] = &[
    Trial::of("postgres18", Some("pgbouncer18"), POSTGRES),
    Trial::of("postgres17", Some("pgbouncer17"), POSTGRES),
    Trial::of("mysql9", None, MYSQL),
    Trial::of("mariadb11", None, MYSQL),
    Trial::of("valkey9", None, REDIS),
    Trial::of("redis8", None, REDIS),
    Trial::of("rabbitmq4", None, RABBITMQ),
];

impl Trial {
    const fn of(server: &'static str, pooler: Option<&'static str>, suite: &'static Suite) -> Self {
        Self { server, pooler, suite }
    }

    /// Starts the server, runs its suite with what `lease` has besides, and stops it if it did not run before.
    fn run(&self, workspace: &Workspace, lease: &Lease, args: &[String]) -> Result<Counts> {
        let names: Vec<_> = [self.server].into_iter().chain(self.pooler).collect();
        let newer = Lease::newer(workspace, &names)?;
        eprintln!("\n{}:", self.server);
        let mut cargo = test::cargo(workspace);
        cargo.arg("--no-fail-fast");
        cargo.args(self.suite.packages.iter().flat_map(|package| ["--package", package]));
        cargo.args(args);
        if !args.iter().any(|arg| arg == "--") {
            cargo.arg("--");
        }
        cargo.args(self.suite.skipped.iter().flat_map(|part| ["--skip", part]));
        cargo.envs(lease.variables()).envs(newer.variables());
        let (status, lines) = process::read_until_stopped(&mut cargo)?;
        let mut counts = lines
            .iter()
            .filter_map(|line| Counts::read(line))
            .fold(Counts::default(), Counts::plus);
        if !status.success() && counts.failed == 0 {
            counts.failed = 1; // what does not compile, or dies, counts nothing
        }
        Ok(counts)
    }
}

/// Runs the trials of the named servers, or all; one line for each at the end.
pub(crate) fn run(workspace: &Workspace, names: &[String], args: &[String]) -> Result<ExitCode> {
    let trials = select(names)?;
    let lease = Lease::take(workspace)?;
    let mut lines = Vec::new();
    let mut is_good = true;
    for trial in trials {
        let counts = trial.run(workspace, &lease, args)?;
        is_good &= counts.failed == 0 && counts.passed > 0;
        lines.push(format!("{:<11} {counts}", trial.server));
        if process::is_interrupted() {
            lines.push("interrupted".to_owned());
            is_good = false;
            break;
        }
    }
    drop(lease);
    eprintln!("\n{}", lines.join("\n"));
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn select(names: &[String]) -> Result<Vec<&'static Trial>> {
    if let Some(unknown) = names
        .iter()
        .find(|name| !TRIALS.iter().any(|trial| trial.server == **name))
    {
        let known: Vec<_> = TRIALS.iter().map(|trial| trial.server).collect();
        bail!("there are no tests for {unknown}; there are for {}", known.join(", "));
    }
    let is_named = |trial: &&Trial| names.is_empty() || names.iter().any(|name| name == trial.server);
    Ok(TRIALS.iter().filter(is_named).collect())
}

/// How many tests ended how.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Counts {
    passed: usize,
    failed: usize,
    ignored: usize,
}

impl Counts {
    /// From the last line of a test program, `test result: ok. 5 passed; 0 failed; 1 ignored; …`.
    fn read(line: &str) -> Option<Self> {
        let (_, counted) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let count = |what: &str| {
            let part = counted.split("; ").find(|part| part.ends_with(what))?;
            part.split(' ').next()?.parse().ok()
        };
        Some(Self {
            passed: count(" passed")?,
            failed: count(" failed")?,
            ignored: count(" ignored")?,
        })
    }

    fn plus(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            ignored: self.ignored + other.ignored,
        }
    }
}

impl Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.failed == 0 && self.passed > 0 {
            "ok"
        } else {
            "FAILED"
        };
        let Self {
            passed,
            failed,
            ignored,
        } = self;
        write!(
            f,
            "{verdict:<6} {passed:>4} passed {failed:>3} failed {ignored:>3} ignored"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, TRIALS, select};

    #[test]
    fn the_counts_of_a_test_program_are_read_from_its_last_line() {
        let line = "test result: FAILED. 55 passed; 2 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.21s";
        let expected = Counts {
            passed: 55,
            failed: 2,
            ignored: 1,
        };
        assert_eq!(Counts::read(line), Some(expected));
        assert_eq!(Counts::read("test it::works ... ok"), None);
    }

    #[test]
    fn a_run_without_a_single_test_is_not_ok() {
        assert!(Counts::default().to_string().starts_with("FAILED"));
    }

    #[test]
    fn servers_are_chosen_by_name_and_all_without() {
        assert_eq!(select(&[]).unwrap().len(), TRIALS.len());
        assert_eq!(select(&["mysql9".to_owned()]).unwrap().len(), 1);
        assert!(select(&["oracle".to_owned()]).is_err());
    }
}
