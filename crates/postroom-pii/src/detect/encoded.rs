//! Texts in base64, base64url and hexadecimal digits.

use std::ops::Range;

/// The shortest run that is decoded: `a@b.kr` has eight characters in base64.
const RUN_BYTES_MIN: usize = 8;
/// The shortest run of hexadecimal digits that is decoded.
const HEX_BYTES_MIN: usize = 16;
/// Decoded text that is shorter counts only if it is most of what was decoded: random bytes have short texts, too.
const TEXT_BYTES_SURE: usize = 16;
const TEXT_BYTES_MIN: usize = 6;
/// Base64 in MIME has lines of 64 or 76 characters; a shorter line is the last one.
const LINE_BYTES_MIN: usize = 60;

/// Reports each run whose decoded text has a finding, with the answer of `search`.
pub(crate) fn find<T>(text: &str, search: impl Fn(&str) -> Option<T>, mut report: impl FnMut(Range<usize>, T)) {
    for run in runs(text.as_bytes()) {
        let bytes = text.as_bytes().get(run.clone()).unwrap_or_default();
        if let Some(found) = search_run(bytes, &search) {
            report(run, found);
        }
    }
}

/// The runs of characters of base64, across line ends, with their padding.
fn runs(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let start = at + bytes.get(at..)?.iter().position(|byte| value(*byte).is_some())?;
            at = run_end(bytes, start);
            if at - start >= RUN_BYTES_MIN {
                let padding = bytes
                    .get(at..)
                    .unwrap_or_default()
                    .iter()
                    .take_while(|byte| **byte == b'=')
                    .count()
                    .min(2);
                return Some(start..at + padding);
            }
        }
    })
}

fn run_end(bytes: &[u8], start: usize) -> usize {
    let mut line = start;
    loop {
        let rest = bytes.get(line..).unwrap_or_default();
        let end = line + rest.iter().take_while(|byte| value(**byte).is_some()).count();
        let break_length = match bytes.get(end..) {
            Some([b'\r', b'\n', ..]) => 2,
            Some([b'\n', ..]) => 1,
            _ => 0,
        };
        let has_next = bytes.get(end + break_length).is_some_and(|byte| value(*byte).is_some());
        if break_length == 0 || end - line < LINE_BYTES_MIN || !has_next {
            return end;
        }
        line = end + break_length;
    }
}

fn search_run<T>(run: &[u8], search: &impl Fn(&str) -> Option<T>) -> Option<T> {
    let found = decode_hex(run).and_then(|bytes| search_bytes(&bytes, search));
    // Text in base64 practically always has an upper-case letter. Most words, ids and hashes of documents have none.
    if found.is_some() || !run.iter().any(u8::is_ascii_uppercase) {
        return found;
    }
    // A path or a word may stand before the encoded text, so that it begins at any of four places of a group.
    (0..4).find_map(|offset| search_bytes(&decode_base64(run.get(offset..)?), search))
}

/// Searches the readable parts of decoded bytes.
fn search_bytes<T>(bytes: &[u8], search: &impl Fn(&str) -> Option<T>) -> Option<T> {
    let is_text =
        |part: &&str| part.len() >= TEXT_BYTES_SURE || (part.len() >= TEXT_BYTES_MIN && part.len() * 2 >= bytes.len());
    let is_control = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r');
    let mut parts = bytes
        .utf8_chunks()
        .flat_map(|chunk| chunk.valid().split(is_control))
        .filter(is_text);
    parts.find_map(search)
}

fn value(byte: u8) -> Option<u32> {
    match byte {
        b'A'..=b'Z' => Some(u32::from(byte - b'A')),
        b'a'..=b'z' => Some(u32::from(byte - b'a') + 26),
        b'0'..=b'9' => Some(u32::from(byte - b'0') + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    }
}

/// The bytes of base64 or base64url. Other characters are left out, and the last bits may be missing.
#[expect(clippy::cast_possible_truncation, reason = "each byte is taken from the bits")]
pub(crate) fn decode_base64(run: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(run.len() * 3 / 4);
    let (mut bits, mut count) = (0_u32, 0);
    for value in run.iter().filter_map(|byte| value(*byte)) {
        bits = bits << 6 | value;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}

fn decode_hex(run: &[u8]) -> Option<Vec<u8>> {
    if run.len() < HEX_BYTES_MIN || !run.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: &u8| {
        char::from(*byte)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
    };
    run.chunks_exact(2)
        .map(|pair| Some(digit(pair.first()?)? << 4 | digit(pair.last()?)?))
        .collect()
}
