//! A guide's walk: the shell blocks of a page, run without a change.

#![expect(clippy::panic, reason = "a test harness: a guide that cannot be walked has failed")]

use std::fs;
use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;
use tokio::time::timeout;

use crate::wait::PATIENCE;

/// The result of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walked {
    /// Whether every step succeeded.
    pub is_done: bool,
    /// Its standard output.
    pub said: String,
    /// Its standard error.
    pub complained: String,
}

impl Walked {
    /// The standard output of a walk in which every step succeeded. Panics if one failed.
    pub fn done(self) -> String {
        assert!(self.is_done, "{}{}", self.said, self.complained);
        self.said
    }
}

/// The text of the page's blocks with this title, one after the other. The page is named from the repository's root.
pub fn blocks(page: &str, title: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()));
    let found = read(&text, title);
    assert!(!found.is_empty(), "{page} has no block {title}");
    found
}

fn read(text: &str, title: &str) -> String {
    let (ending, mut found, mut is_inside) = (format!(" title={title}"), String::new(), false);
    for line in text.lines() {
        if is_inside && line != "```" {
            found.push_str(line);
            found.push('\n');
        } else {
            is_inside = !is_inside && line.starts_with("```") && line.ends_with(&ending);
        }
    }
    found
}

/// Walks in a shell like the one that guides ask for, with `name` set to where the server is.
pub async fn run(script: &str, server: (&str, &str)) -> Walked {
    run_with(script, [server]).await
}

/// The same with several variables.
pub async fn run_with<const N: usize>(script: &str, variables: [(&str, &str); N]) -> Walked {
    let shell = Command::new("bash")
        .args(["-euo", "pipefail", "-c", script])
        .envs(variables)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let Ok(ended) = timeout(PATIENCE, shell).await else {
        panic!("the walk goes on and on: {script}");
    };
    let output = ended.unwrap_or_else(|error| panic!("run bash: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Walked {
        is_done: output.status.success(),
        said: text(&output.stdout),
        complained: text(&output.stderr),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_one_title_are_one_text() {
        let page = "a\n```sh title=walk\necho 1\n```\nb\n```text\n1\n```\n```sh title=walk\necho 2\n```\n";
        assert_eq!(read(page, "walk"), "echo 1\necho 2\n");
        assert_eq!(read(page, "talk"), "");
    }

    #[tokio::test]
    async fn a_walk_ends_at_the_first_step_that_fails() {
        let walked = run("echo $AT; grep -q x /dev/null | cat; echo on", ("AT", "here")).await;
        assert!(!walked.is_done);
        assert_eq!(walked.said, "here\n");
    }
}
