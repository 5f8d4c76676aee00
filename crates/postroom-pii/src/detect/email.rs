//! E-mail addresses: plain ones, and ones that are written to escape a search, such as `kim (at) example.com`.

use std::ops::Range;

use regex::Regex;

use super::secret::compiled;
use crate::Invalid;

/// No address is longer; the rest of a longer run of letters is left alone.
const PART_BYTES_MAX: usize = 255;

/// Reports each plain address.
pub(crate) fn find(text: &str, mut report: impl FnMut(Range<usize>)) {
    for (at, _) in text.match_indices('@') {
        let before = text.get(..at).unwrap_or_default();
        let after = text.get(at + 1..).unwrap_or_default();
        let local = local_length(before);
        let domain = domain_length(after);
        if local > 0 && domain > 0 {
            report(at - local..at + 1 + domain);
        }
    }
}

/// The length of the local part at the end of a text.
fn local_length(before: &str) -> usize {
    if let Some(quoted) = before.strip_suffix('"') {
        let tail = quoted.get(quoted.ceil_char_boundary(quoted.len().saturating_sub(PART_BYTES_MAX))..);
        let start = tail.and_then(|tail| tail.rfind('"').map(|at| tail.len() - at));
        return start.map_or(0, |length| length + 1);
    }
    let is_local = |c: &char| c.is_alphanumeric() || matches!(c, '.' | '_' | '%' | '+' | '-' | '\'');
    before
        .chars()
        .rev()
        .take(PART_BYTES_MAX)
        .take_while(is_local)
        .map(char::len_utf8)
        .sum()
}

/// The length of the domain at the start of a text, or 0.
fn domain_length(after: &str) -> usize {
    if let Some(literal) = after.strip_prefix('[') {
        let end = literal
            .bytes()
            .take(PART_BYTES_MAX)
            .take_while(|byte| is_address(*byte))
            .count();
        let is_closed = literal.as_bytes().get(end) == Some(&b']');
        return if is_closed && literal.bytes().take(end).any(|byte| byte.is_ascii_digit()) {
            end + 2
        } else {
            0
        };
    }
    let is_domain = |c: &char| c.is_alphanumeric() || matches!(c, '.' | '-');
    let length = after
        .chars()
        .take(PART_BYTES_MAX)
        .take_while(is_domain)
        .map(char::len_utf8)
        .sum();
    let run = after.get(..length).unwrap_or_default();
    if is_scaled_image(run) {
        return 0;
    }
    match domain_end(run) {
        0 => provider_length(run),
        end => end,
    }
}

/// The length of a well-known provider without its top-level domain: `kim@naver`.
fn provider_length(run: &str) -> usize {
    const PROVIDERS: [&str; 6] = ["naver", "gmail", "daum", "hanmail", "kakao", "nate"];
    let name: String = run.chars().take_while(char::is_ascii_alphanumeric).collect();
    let is_known = PROVIDERS.iter().any(|provider| name.eq_ignore_ascii_case(provider));
    if is_known { name.len() } else { 0 }
}

fn is_address(byte: u8) -> bool {
    byte.is_ascii_hexdigit() || matches!(byte, b'.' | b':')
}

/// `logo@2x.png` is no address.
fn is_scaled_image(run: &str) -> bool {
    const IMAGES: [&str; 7] = ["png", "jpg", "jpeg", "gif", "webp", "svg", "avif"];
    let digits = run.trim_start_matches(|c: char| c.is_ascii_digit());
    let ending = digits.strip_prefix("x.").filter(|_| digits.len() < run.len());
    ending.is_some_and(|ending| IMAGES.iter().any(|image| ending.starts_with(image)))
}

/// The end of the last label that may be a top-level domain. Text in another script behind it is no part: `example.com으로`.
fn domain_end(run: &str) -> usize {
    let mut end = 0;
    let mut start = 0;
    for (at, label) in run.split('.').enumerate() {
        let length = if at == 0 { 0 } else { top_label_length(label) };
        if length > 0 {
            end = start + length;
        }
        let is_followed_by_text = length > 0 && length < label.len() && !label.is_ascii();
        if label.is_empty() || is_followed_by_text {
            break;
        }
        start += label.len() + 1;
    }
    end
}

/// The length of the letters that may be a top-level domain, at the start of a label.
fn top_label_length(label: &str) -> usize {
    let first = label.chars().next();
    let is_ascii = first.is_some_and(|c| c.is_ascii());
    let is_part = |c: &char| {
        if is_ascii {
            c.is_ascii_alphanumeric() || *c == '-'
        } else {
            c.is_alphabetic()
        }
    };
    let part: String = label.chars().take_while(is_part).collect();
    let letters = part.chars().filter(|c| c.is_alphabetic()).count();
    let is_top = first.is_some_and(char::is_alphabetic) && letters >= 2;
    if is_top { part.len() } else { 0 }
}

/// Patterns of addresses that are written to escape a search.
#[derive(Debug)]
pub(crate) struct Disguised {
    strong: Regex,
    weak: Regex,
}

const TOP: &str =
    r"(?:com|net|org|edu|gov|io|me|dev|app|info|biz|kr|jp|cn|uk|de|us|co|test|example|invalid|한국|컴|닷컴|넷)";

impl Disguised {
    pub(crate) fn new() -> Result<Self, Invalid> {
        let open = r"[(\[{<]\s?";
        let close = r"\s?[)\]}>]";
        let at = format!(
            r"(?:\s{{1,3}}@\s{{1,3}}|@\s{{1,3}}|\s{{0,3}}{open}(?:at|골뱅이|앳|@){close}\s{{0,3}}|\s{{0,3}}(?:골뱅이|앳)\s{{0,3}}|_at_)"
        );
        let spelled_dot =
            format!(r"(?:\s{{0,2}}{open}(?:dot|점|닷|쩜){close}\s{{0,2}}|\s{{1,2}}(?:dot|점|닷|쩜)\s{{1,2}})");
        let local = format!(r"[a-z0-9][a-z0-9._+-]*(?:{spelled_dot}[a-z0-9._+-]+)*");
        let dot = format!(r"(?:\s{{0,2}}\.\s{{0,2}}|{spelled_dot}|점|닷|쩜|_dot_)");
        let label = r"[a-z0-9가-힣-]+?";
        let top = format!(r"{TOP}[a-z]*");
        let provider = r"(?:gmail|naver|daum|hanmail|kakao|nate|outlook|hotmail|yahoo|icloud|네이버|지메일|다음|한메일|카카오|네이트)";
        let strong = format!(r"(?i){local}(?:{at}(?:{label}{dot}){{1,4}}{top}|\s{{0,3}}골뱅이\s{{0,3}}{provider})");
        let weak = format!(
            r"(?i){local}\s{{1,3}}at\s{{1,3}}(?:(?:{label}{spelled_dot}){{1,4}}{top}|{provider}(?:{dot}(?:com|net|co\.kr)|\s?닷컴))"
        );
        Ok(Self {
            strong: compiled(&strong)?,
            weak: compiled(&weak)?,
        })
    }

    /// Reports each disguised address.
    pub(crate) fn find(&self, text: &str, mut report: impl FnMut(Range<usize>)) {
        let is_bracketed =
            text.contains(['@', '(', '[', '{', '<', '_']) || text.contains("골뱅이") || text.contains("앳");
        if is_bracketed {
            self.strong.find_iter(text).for_each(|found| report(found.range()));
        }
        if text.contains(" at ") || text.contains(" AT ") || text.contains(" At ") {
            self.weak.find_iter(text).for_each(|found| report(found.range()));
        }
    }
}
