//! `docs/requirements.md` keeps its word: each requirement names tests that exist, or says it is planned.
//!
//! A row is `| P-01 | requirement | tests |`, its tests written as `` `path/to/file.rs::test_name` ``.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::word::contains_word;

const FILE: &str = "docs/requirements.md";

/// The counted requirements of the document, and its problems.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) tested: usize,
    pub(crate) planned: Vec<String>,
    pub(crate) problems: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
struct Row<'a> {
    id: &'a str,
    /// The backticked pieces of the last cell.
    tests: Vec<&'a str>,
    is_planned: bool,
}

pub(crate) fn read(root: &Path) -> Result<Report> {
    let text = fs::read_to_string(root.join(FILE)).with_context(|| format!("read {FILE}"))?;
    Ok(report(&text, |file| fs::read_to_string(root.join(file)).ok()))
}

/// `source` gives the text of a file, if there is such a file.
fn report(document: &str, source: impl Fn(&str) -> Option<String>) -> Report {
    let mut report = Report::default();
    let mut ids = BTreeSet::new();
    for row in document.lines().filter_map(parse) {
        if !ids.insert(row.id) {
            report.problems.push(format!("{FILE}: {} stands there twice", row.id));
        }
        match (row.tests.is_empty(), row.is_planned) {
            (true, true) => report.planned.push(row.id.to_owned()),
            (true, false) => report
                .problems
                .push(format!("{FILE}: {} names no test and is not planned", row.id)),
            (false, _) => report.tested += 1,
        }
        let problems = row.tests.iter().filter_map(|test| missing_test(test, &source));
        report
            .problems
            .extend(problems.map(|problem| format!("{FILE}: {}: {problem}", row.id)));
    }
    if ids.is_empty() {
        report
            .problems
            .push(format!("{FILE}: no row of the form | P-01 | requirement | tests |"));
    }
    report
}

/// A table row that begins with an id; any other line is prose.
fn parse(line: &str) -> Option<Row<'_>> {
    let line = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let (id, rest) = line.split_once('|')?;
    let id = id.trim();
    let (letters, number) = id.split_once('-')?;
    let is_id = !letters.is_empty()
        && letters.chars().all(|letter| letter.is_ascii_uppercase())
        && number.starts_with(|digit: char| digit.is_ascii_digit())
        && number.chars().all(|letter| letter.is_ascii_alphanumeric());
    if !is_id {
        return None;
    }
    let cell = rest.rsplit_once('|').map_or("", |(_, cell)| cell);
    let tests = cell.split('`').skip(1).step_by(2).collect();
    Some(Row {
        id,
        tests,
        is_planned: contains_word(cell, "planned"),
    })
}

/// Why a test that a document names as `path/to/file.rs::test_name` cannot be found.
pub(crate) fn missing_test(test: &str, source: impl Fn(&str) -> Option<String>) -> Option<String> {
    let Some((file, path)) = test.split_once("::").filter(|(file, _)| file.ends_with(".rs")) else {
        return Some(format!("`{test}` is not written as path/to/file.rs::test_name"));
    };
    let name = path.rsplit("::").next().unwrap_or(path);
    match source(file) {
        None => Some(format!("there is no file {file}")),
        // A conformance clause has no `fn` of its own in the adapter: a macro lists it by name.
        Some(text) if name.is_empty() || !contains_word(&text, name) => Some(format!("no test {name} in {file}")),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Report, Row, parse, report};

    #[test]
    fn a_row_is_read_with_all_its_tests() {
        let row = parse("| P-01 | a `thing` \\| more | `a.rs::one`, `b/c.rs::two` |");
        assert_eq!(
            row,
            Some(Row {
                id: "P-01",
                tests: vec!["a.rs::one", "b/c.rs::two"],
                is_planned: false
            })
        );
    }

    #[test]
    fn headings_rules_and_prose_are_not_rows() {
        for line in [
            "| id | requirement | tests |",
            "|---|---|---|",
            "P-01 is met",
            "",
            "| p-1 | x | y |",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
    }

    fn check(cell: &str, expected: &[&str]) {
        let source = |file: &str| (file == "a.rs").then(|| "fn one() {}\nsuite!(two, three_more);".to_owned());
        let Report { problems, .. } = report(&format!("| P-01 | x | {cell} |"), source);
        assert_eq!(problems, expected, "{cell}");
    }

    #[test]
    fn a_listed_test_must_exist() {
        check("`a.rs::one` `a.rs::two` `a.rs::clause::two`", &[]);
        check("`a.rs::three`", &["docs/requirements.md: P-01: no test three in a.rs"]);
        check("`b.rs::one`", &["docs/requirements.md: P-01: there is no file b.rs"]);
        check(
            "`one`",
            &["docs/requirements.md: P-01: `one` is not written as path/to/file.rs::test_name"],
        );
        check(
            "by hand",
            &["docs/requirements.md: P-01 names no test and is not planned"],
        );
    }

    #[test]
    fn planned_rows_are_counted_apart() {
        let report = report("| P-01 | x | planned |\n| P-02 | x | `a.rs::one` |", |_| {
            Some("one".to_owned())
        });
        assert_eq!(
            report,
            Report {
                tested: 1,
                planned: vec!["P-01".to_owned()],
                problems: vec![]
            }
        );
    }

    #[test]
    fn an_id_stands_there_once_and_a_table_has_rows() {
        let twice = report("| P-01 | x | planned |\n| P-01 | y | planned |", |_| None);
        assert_eq!(twice.problems, ["docs/requirements.md: P-01 stands there twice"]);
        assert_eq!(report("no table", |_| None).problems.len(), 1);
    }
}
