//! `docs/hazards.md`: each hazard names tests that exist, or says that there is none yet.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::requirements::missing_test;

const FILE: &str = "docs/hazards.md";
/// Begins the sentence that says which test is missing.
const NONE_YET: &str = "*None yet";

/// Everything that is wrong with the document.
pub(crate) fn problems(root: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(root.join(FILE)).with_context(|| format!("read {FILE}"))?;
    Ok(check(&text, |file| fs::read_to_string(root.join(file)).ok()))
}

/// `source` gives the text of a file, if there is such a file.
fn check(document: &str, source: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let hazards: Vec<_> = sections(document).filter_map(number_of).collect();
    let mut problems = Vec::new();
    if hazards.is_empty() {
        problems.push(format!("{FILE}: no hazard of the form **1. Name.**"));
    }
    for (number, section) in hazards {
        let tests: Vec<&str> = section
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|piece| is_test(piece))
            .collect();
        if tests.is_empty() && !section.contains(NONE_YET) {
            problems.push(format!("{FILE}: {number} names no test and does not say {NONE_YET}"));
        }
        let missing = tests.iter().filter_map(|test| missing_test(test, &source));
        problems.extend(missing.map(|problem| format!("{FILE}: {number}: {problem}")));
    }
    problems
}

/// The parts of the document that begin with bold text.
fn sections(document: &str) -> impl Iterator<Item = &str> {
    document.split("\n**").skip(1)
}

fn number_of(section: &str) -> Option<(&str, &str)> {
    let (number, _) = section.split_once('.')?;
    let is_number = !number.is_empty() && number.chars().all(|digit| digit.is_ascii_digit());
    is_number.then_some((number, section))
}

fn is_test(piece: &str) -> bool {
    piece.contains(".rs::")
}

#[cfg(test)]
mod tests {
    use super::check;

    fn problems(document: &str) -> Vec<String> {
        check(document, |file| (file == "a.rs").then(|| "fn one() {}".to_owned()))
    }

    #[test]
    fn a_hazard_names_a_test_or_says_that_there_is_none() {
        assert_eq!(
            problems("# H\n\n**1. Loss.** Text.\n- `a.rs::one`\n\n**2. More.**\n- *None yet:* all.\n"),
            [""; 0]
        );
        let none = "docs/hazards.md: 2 names no test and does not say *None yet";
        assert_eq!(problems("\n**1. Loss.** `a.rs::one`\n\n**2. More.** `x`\n"), [none]);
    }

    #[test]
    fn a_test_that_is_gone_is_found() {
        let expected = [
            "docs/hazards.md: 7: no test two in a.rs",
            "docs/hazards.md: 7: there is no file b.rs",
        ];
        assert_eq!(problems("\n**7. Loss.**\n- `a.rs::two`, `b.rs::one`\n"), expected);
        assert_eq!(
            problems("nothing"),
            ["docs/hazards.md: no hazard of the form **1. Name.**"]
        );
    }
}
