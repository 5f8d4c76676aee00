//! Counts comment sentences that open with a word which hides the actor: "What was read later", "Nobody waits for it".
//!
//! Such sentences are grammatical, and hard to read for people whose first language is another. A few may stay.

use std::collections::BTreeMap;
use std::path::PathBuf;

const OPENERS: &[&str] = &[
    "What",
    "Whatever",
    "Who",
    "Whoever",
    "Whose",
    "Nobody",
    "Somebody",
    "Everybody",
];
/// Per 1,000 comment lines.
const OPENERS_MAX: usize = 5;
/// Sentences that are shown.
const SHOWN: usize = 20;

/// One line with the count and some examples, if there are too many.
pub(crate) fn problem(sources: &BTreeMap<PathBuf, String>) -> Option<String> {
    let comments: Vec<_> = sources
        .iter()
        .flat_map(|(file, text)| {
            text.lines()
                .enumerate()
                .map(move |(at, line)| (file, at + 1, line.trim()))
        })
        .filter_map(|(file, line, text)| Some((file, line, comment(text)?)))
        .collect();
    let found: Vec<_> = comments.iter().filter(|(_, _, text)| has_opener(text)).collect();
    let per_thousand = 1_000 * found.len() / comments.len().max(1);
    if per_thousand < OPENERS_MAX {
        return None;
    }
    let examples = found.iter().take(SHOWN);
    let examples: String = examples
        .map(|(file, line, text)| format!("\n    {}:{line}: {text}", file.display()))
        .collect();
    let counts = format!("{} of {} comment lines", found.len(), comments.len());
    Some(format!(
        "{counts} open a sentence with {}: {per_thousand} per 1,000, the limit is {OPENERS_MAX}; name the actor{examples}",
        OPENERS.join(", ")
    ))
}

fn comment(line: &str) -> Option<&str> {
    let text = line.strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']).trim_start())
}

/// Whether the line, or a sentence inside it, begins with one of the words.
fn has_opener(text: &str) -> bool {
    let sentences = text.split_inclusive(['.', ':', ';']).map(str::trim_start);
    let first = |sentence: &str| {
        sentence
            .split(|letter: char| !letter.is_alphabetic())
            .next()
            .map(str::to_owned)
    };
    sentences.filter_map(first).any(|word| OPENERS.contains(&word.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem_of(text: &str) -> Option<String> {
        problem(&BTreeMap::from([(PathBuf::from("a.rs"), text.to_owned())]))
    }

    #[test]
    fn sentences_that_hide_the_actor_are_found() {
        for text in [
            "What waits.",
            "It stops. Nobody waits for it",
            "Two things: Whoever asks",
        ] {
            assert!(has_opener(text), "{text}");
        }
        for text in ["The entry waits.", "It says what waits.", "Whatsoever", "See `What`"] {
            assert!(!has_opener(text), "{text}");
        }
    }

    #[test]
    fn a_few_may_stay() {
        let many = "/// The entry.\n".repeat(300);
        assert_eq!(
            problem_of(&format!("{many}/// What waits.\nlet what = \"What\";\n")),
            None
        );
        let problem = problem_of("/// The entry.\n/// What waits.\n").unwrap();
        assert!(problem.starts_with("1 of 2 comment lines"), "{problem}");
        assert!(problem.ends_with("\n    a.rs:2: What waits."), "{problem}");
    }
}
