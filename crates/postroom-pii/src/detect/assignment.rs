//! Values whose key is judged, in texts: `token=…` in a URL, `Authorization: …`, JSON that cannot be parsed.

use std::ops::Range;

use crate::Kind;
use crate::key_name::{KeyNames, Treatment};

/// Only the end of a longer name is read.
const NAME_BYTES_MAX: usize = 64;

/// A value with its treatment.
pub(crate) struct Assigned {
    pub(crate) range: Range<usize>,
    pub(crate) treatment: Treatment,
}

/// The name before a `=` or `:`, and the way it is written.
struct Name<'a> {
    text: &'a str,
    is_quoted: bool,
    /// Whether the name begins the text or a parameter of a query.
    is_parameter: bool,
}

/// Reports each value of a judged key.
pub(crate) fn find(text: &str, names: &KeyNames, mut report: impl FnMut(Assigned)) {
    let mut from = 0;
    while let Some(at) = text
        .get(from..)
        .and_then(|rest| rest.find(['=', ':']))
        .map(|at| from + at)
    {
        let assigned = assigned(text, at, names);
        from = assigned
            .as_ref()
            .map_or(at + 1, |assigned| assigned.range.end.max(at + 1));
        if let Some(assigned) = assigned.filter(|assigned| !is_harmless(text, assigned)) {
            report(assigned);
        }
    }
}

fn assigned(text: &str, at: usize, names: &KeyNames) -> Option<Assigned> {
    let is_colon = text.as_bytes().get(at) == Some(&b':');
    let rest = text.get(at + 1..)?;
    if rest.starts_with("//") || rest.starts_with('=') {
        return None;
    }
    let name = Name::before(text.get(..at)?)?;
    let treatment = names.treatment(name.text)?;
    let is_read = match treatment {
        Treatment::Remove(Kind::Token | Kind::Password | Kind::Card | Kind::ResidentNumber) => true,
        Treatment::Remove(Kind::Email | Kind::Phone) => !is_colon || name.is_quoted,
        Treatment::Remove(_) | Treatment::Hash(_) => name.is_quoted || (!is_colon && name.is_parameter),
    };
    if !is_read {
        return None;
    }
    let spaces = rest.len() - rest.trim_start_matches([' ', '\t']).len();
    let start = at + 1 + spaces;
    let value = value_range(text.get(start..)?, is_colon, treatment);
    Some(Assigned {
        range: start + value.start..start + value.end,
        treatment,
    })
}

impl<'a> Name<'a> {
    /// The name at the end of a text.
    fn before(text: &'a str) -> Option<Self> {
        let trimmed = text.trim_end_matches([' ', '\t', '"', '\'', '\\', ']']);
        let is_quoted = text.get(trimmed.len()..)?.contains(['"', '\'']);
        let is_name = |c: &char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        let length: usize = trimmed
            .chars()
            .rev()
            .take(NAME_BYTES_MAX)
            .take_while(is_name)
            .map(char::len_utf8)
            .sum();
        let (before, name) = trimmed.split_at_checked(trimmed.len() - length)?;
        let is_parameter = before.is_empty() || before.ends_with(['?', '&', '#', ';', '[', '"', '\'', ' ']);
        Some(Self {
            text: name,
            is_quoted,
            is_parameter,
        })
    }
}

/// The range of a value at the start of a text, without its quotes.
fn value_range(text: &str, is_colon: bool, treatment: Treatment) -> Range<usize> {
    let quote = text.trim_start_matches('\\');
    let slashes = text.len() - quote.len();
    if let Some(quote_mark) = quote.chars().next().filter(|c| matches!(c, '"' | '\'')) {
        let start = slashes + 1;
        return start..start + quoted_length(text.get(start..).unwrap_or_default(), quote_mark, slashes);
    }
    if let Some(mark) = leading_mark(text) {
        return 0..mark;
    }
    if is_colon && text.starts_with(['[', '{']) {
        return 0..structure_length(text);
    }
    let is_end: fn(char) -> bool = match treatment {
        // The whole header.
        Treatment::Remove(Kind::Token) if is_colon => |c| matches!(c, '\n' | '\r' | '"' | '}'),
        Treatment::Remove(Kind::Password) => |c| c.is_whitespace() || matches!(c, '&' | '"' | '\''),
        Treatment::Remove(Kind::ReviewBody) | Treatment::Hash(_) => |c| matches!(c, '&' | '#' | '\n' | '"'),
        Treatment::Remove(_) => {
            |c| c.is_whitespace() || matches!(c, '&' | ';' | ',' | '"' | '\'' | '<' | '>' | ')' | '}' | ']' | '#')
        }
    };
    0..text.find(is_end).unwrap_or(text.len())
}

/// The length up to the closing quote, which has as many backslashes as the opening one.
fn quoted_length(text: &str, quote: char, slashes: usize) -> usize {
    let mut before = 0;
    for (at, c) in text.char_indices() {
        if c == quote && before <= slashes {
            return at - before;
        }
        before = if c == '\\' { before + 1 } else { 0 };
    }
    text.len()
}

/// The length of an array or an object, up to its last bracket.
fn structure_length(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    text.len()
}

/// The length of a mark that is the whole value.
fn leading_mark(text: &str) -> Option<usize> {
    let end = text.bytes().take(32).position(|byte| byte == b']')? + 1;
    let is_alone = text.get(end..)?.chars().next().is_none_or(|c| !c.is_alphanumeric());
    (Kind::is_mark(text.get(..end)?) && is_alone).then_some(end)
}

fn is_harmless(text: &str, assigned: &Assigned) -> bool {
    let value = text.get(assigned.range.clone()).unwrap_or_default().trim();
    let is_number = || value.bytes().all(|byte| byte.is_ascii_digit());
    value.is_empty()
        || Kind::is_mark(value)
        || matches!(value, "[]" | "{}")
        || matches!(
            value,
            "true" | "false" | "null" | "undefined" | "True" | "False" | "None"
        )
        || (assigned.treatment == Treatment::Remove(Kind::ReviewBody) && is_number())
}
