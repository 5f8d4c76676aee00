//! The static gate. Every step runs, so that one look shows everything that is wrong.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::workspace::Workspace;
use crate::{arrows, folders, hazards, process, requirements, tidy};

type Step = fn(&Workspace) -> Result<Outcome>;

#[derive(Debug, Clone, Copy)]
enum Outcome {
    Passed,
    Skipped,
}

/// The fast ones first.
const STEPS: &[(&str, Step)] = &[
    ("tidy", check_tidy),
    ("arrows", check_arrows),
    ("requirements", check_requirements),
    ("hazards", check_hazards),
    ("format", check_format),
    ("clippy", check_clippy),
    ("doc", check_doc),
    ("deny", check_deny),
];

pub(crate) fn run(workspace: &Workspace) -> Result<ExitCode> {
    let mut lines = Vec::new();
    let mut code = ExitCode::SUCCESS;
    for (name, step) in STEPS {
        let begun = Instant::now();
        let result = step(workspace);
        if process::is_interrupted() {
            bail!("interrupted");
        }
        if let Err(error) = &result {
            eprintln!("{name}: {error:#}");
            code = ExitCode::FAILURE;
        }
        let outcome = match result {
            Ok(Outcome::Passed) => "ok",
            Ok(Outcome::Skipped) => "skipped",
            Err(_) => "FAILED",
        };
        lines.push(format!(
            "{name:<14} {outcome:<8} {:>6.1} s",
            begun.elapsed().as_secs_f64()
        ));
    }
    eprintln!("\n{}", lines.join("\n"));
    Ok(code)
}

fn check_tidy(workspace: &Workspace) -> Result<Outcome> {
    none(&tidy::problems(workspace)?)
}

fn check_arrows(workspace: &Workspace) -> Result<Outcome> {
    let mut problems = arrows::problems(&workspace.crates);
    problems.extend(folders::problems(&workspace.root)?);
    none(&problems)
}

fn check_requirements(workspace: &Workspace) -> Result<Outcome> {
    let report = requirements::read(&workspace.root)?;
    eprintln!(
        "requirements: {} with tests, {} planned",
        report.tested,
        report.planned.len()
    );
    if !report.planned.is_empty() {
        eprintln!("requirements: planned are {}", report.planned.join(" "));
    }
    none(&report.problems)
}

fn check_hazards(workspace: &Workspace) -> Result<Outcome> {
    none(&hazards::problems(&workspace.root)?)
}

fn check_format(workspace: &Workspace) -> Result<Outcome> {
    run_cargo(workspace, &["fmt", "--all", "--check"])
}

fn check_clippy(workspace: &Workspace) -> Result<Outcome> {
    let args = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    run_cargo(workspace, &args)
}

fn check_doc(workspace: &Workspace) -> Result<Outcome> {
    run_cargo(workspace, &["doc", "--workspace", "--no-deps"])
}

fn check_deny(workspace: &Workspace) -> Result<Outcome> {
    if process::find("cargo-deny").is_none() {
        eprintln!("deny: skipped, cargo-deny is not installed");
        return Ok(Outcome::Skipped);
    }
    run_cargo(workspace, &["deny", "check"])
}

fn run_cargo(workspace: &Workspace, args: &[&str]) -> Result<Outcome> {
    let mut cargo = process::cargo();
    cargo.args(args).current_dir(&workspace.root);
    process::run(cargo.env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(Outcome::Passed)
}

fn none(problems: &[String]) -> Result<Outcome> {
    if problems.is_empty() {
        return Ok(Outcome::Passed);
    }
    bail!("{} found\n  {}", problems.len(), problems.join("\n  "));
}
