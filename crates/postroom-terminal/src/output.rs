//! Writes to standard output: text without control characters, colour only on a terminal.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use anyhow::Result;
use serde::Serialize;
use terminal_size::{Height, Width, terminal_size};

use crate::text;

/// Writes text and a line end to standard output.
pub fn print(text: impl fmt::Display) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()?;
    Ok(())
}

/// Writes a document for programs.
pub fn print_json(document: &(impl Serialize + ?Sized)) -> Result<()> {
    print(serde_json::to_string_pretty(document)?)
}

/// Writes a document for programs in one line, for streams of them.
pub fn print_json_line(document: &(impl Serialize + ?Sized)) -> Result<()> {
    print(serde_json::to_string(document)?)
}

/// Whether the reader of the output has gone (`postroom tail | head`): no failure.
pub fn is_reader_gone(error: &anyhow::Error) -> bool {
    let broken = error.downcast_ref::<io::Error>();
    broken.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// The whole chain in one line, outermost first, then what to do. Drivers repeat their cause in their own text; it is said once.
pub fn chain(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if line.is_empty() {
            line = cause;
        } else if !line.contains(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    let own = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<postroom::Error>());
    match own.map(postroom::Error::next_steps).find(|steps| !steps.is_empty()) {
        Some(steps) => format!("{line}; {}", text::next(steps)),
        None => line,
    }
}

/// Whether a person watches.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Columns and rows of the terminal; `None` when there is none.
pub fn size() -> Option<(usize, usize)> {
    let (Width(columns), Height(rows)) = terminal_size()?;
    is_terminal().then_some((columns.into(), rows.into()))
}

/// Columns of the terminal; `None` when there is none.
pub fn columns() -> Option<usize> {
    size().map(|(columns, _)| columns)
}

/// Text from somewhere else, safe to show: it cannot move the cursor or break a line.
pub fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

/// The first `columns` characters; an ellipsis shows that there was more.
pub fn cut(text: &str, columns: usize) -> String {
    match text.char_indices().nth(columns) {
        None => text.to_owned(),
        Some(_) => text.chars().take(columns.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// Text in lines of at most `columns`, each behind `indent`; a longer word has a line of its own.
pub fn wrap(text: &str, columns: usize, indent: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in clean(text).split_whitespace() {
        let length = word.chars().count() + 1;
        match lines.last_mut().filter(|line| line.chars().count() + length <= columns) {
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(format!("{indent}{word}")),
        }
    }
    lines
}

/// Colours, or none.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    is_on: bool,
}

/// The meaning of a colour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tone {
    /// The usual colour.
    Plain,
    /// A title or a value.
    Strong,
    /// Less important text.
    Faint,
    /// Something is well.
    Good,
    /// An operator should check it.
    Warn,
    /// Something does not work.
    Bad,
}

impl Paint {
    /// Colour only on a terminal, unless `NO_COLOR` is set (<https://no-color.org>).
    pub fn detect() -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            is_on: is_terminal() && !is_set("NO_COLOR") && !is_dumb,
        }
    }

    /// No colour.
    #[cfg(test)]
    pub(crate) fn off() -> Self {
        Self { is_on: false }
    }

    /// The text in the colour of its tone.
    pub fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Plain => return text.to_owned(),
            _ if !self.is_on => return text.to_owned(),
            Tone::Strong => "1",
            Tone::Faint => "2",
            Tone::Good => "32",
            Tone::Warn => "33",
            Tone::Bad => "31",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

#[cfg(test)]
mod tests {
    use postroom::NextStep;

    use super::*;

    #[test]
    fn text_from_outside_cannot_move_the_cursor() {
        assert_eq!(clean("a\x1b[2Jb\nc\td"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}d");
    }

    #[test]
    fn a_chain_says_each_thing_once() {
        let error = anyhow::anyhow!("access denied")
            .context("the server says: access denied")
            .context("open the store");
        assert_eq!(chain(&error), "open the store: the server says: access denied");
    }

    #[test]
    fn a_chain_ends_with_what_to_do() {
        let unknown = postroom::Error::invalid("there is no replay 7").with_next([NextStep::ShowReplays]);
        let error = anyhow::Error::new(unknown).context("cancel");
        let expected = "cancel: there is no replay 7; `postroom replay list` shows them";
        assert_eq!(chain(&error), expected);
    }

    #[test]
    fn text_is_wrapped_between_words() {
        assert_eq!(wrap("one two three", 9, "  "), ["  one two", "  three"]);
        assert_eq!(wrap("a incomprehensible b", 6, ""), ["a", "incomprehensible", "b"]);
        assert_eq!(wrap("", 9, "  "), [""; 0]);
    }

    #[test]
    fn long_text_is_cut_at_characters() {
        assert_eq!(cut("grün", 4), "grün");
        assert_eq!(cut("grüner", 4), "grü…");
        assert_eq!(cut("", 0), "");
    }
}
