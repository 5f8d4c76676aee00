//! Mobile numbers in words: `공일공 일이삼사 오육칠팔`, `zero one zero …`, and with letters for digits: `O1O-1234-5678`.

use std::ops::Range;

/// The longest separator between two spelled digits.
const GAP_CHARS_MAX: usize = 3;
/// A number that begins in the middle of a run needs as many spelled digits.
const SPELLED_MIN: usize = 6;
const MOBILE_DIGITS: usize = 11;

struct Digit {
    value: u8,
    is_spelled: bool,
    range: Range<usize>,
}

/// Whether a text may have spelled digits at all.
pub(crate) fn is_possible(text: &str) -> bool {
    let is_mixed = || text.contains("01") && text.contains(['일', '이', '삼', '사', '오', '육', '칠', '팔', '구']);
    text.contains(['공', '영', '零', '〇']) || text.contains("zero") || text.contains("Zero") || is_mixed()
}

/// Reports each mobile number with spelled digits.
pub(crate) fn find(text: &str, mut report: impl FnMut(Range<usize>)) {
    let mut run: Vec<Digit> = Vec::new();
    let mut gap = 0;
    let mut at = 0;
    while let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) {
        let rest = text.get(at..).unwrap_or_default();
        if let Some((value, length, is_spelled)) = leading_digit(rest, c) {
            run.push(Digit {
                value,
                is_spelled,
                range: at..at + length,
            });
            gap = 0;
            at += length;
            continue;
        }
        gap += 1;
        if gap > GAP_CHARS_MAX || !is_separator(c) {
            find_in_run(&run, &mut report);
            run.clear();
        }
        at += if c.is_ascii_alphabetic() {
            word_length(rest)
        } else {
            c.len_utf8()
        };
    }
    find_in_run(&run, &mut report);
}

fn is_separator(c: char) -> bool {
    // People say a dash as 에, 의 or 다시.
    c.is_whitespace() || matches!(c, '-' | '.' | ',' | '_' | '/' | '~' | '에' | '의' | '다' | '시')
}

fn word_length(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_alphabetic).count()
}

/// The digit at the start of a text, its length, and whether it is spelled.
fn leading_digit(text: &str, c: char) -> Option<(u8, usize, bool)> {
    let value = match c {
        '0'..='9' => return Some((u8::try_from(c.to_digit(10)?).ok()?, 1, false)),
        '공' | '영' | '零' | '〇' => 0,
        '일' | '一' => 1,
        '이' | '二' => 2,
        '삼' | '三' => 3,
        '사' | '四' => 4,
        '오' | '五' => 5,
        '육' | '륙' | '六' => 6,
        '칠' | '七' => 7,
        '팔' | '八' => 8,
        '구' | '九' => 9,
        _ => return leading_word(text).map(|(value, length)| (value, length, true)),
    };
    Some((value, c.len_utf8(), true))
}

fn leading_word(text: &str) -> Option<(u8, usize)> {
    const WORDS: [(&str, u8); 11] = [
        ("zero", 0),
        ("oh", 0),
        ("one", 1),
        ("two", 2),
        ("three", 3),
        ("four", 4),
        ("five", 5),
        ("six", 6),
        ("seven", 7),
        ("eight", 8),
        ("nine", 9),
    ];
    let word = text.get(..word_length(text))?;
    let found = WORDS.iter().find(|(name, _)| word.eq_ignore_ascii_case(name));
    found.map(|(name, value)| (*value, name.len()))
}

fn find_in_run(run: &[Digit], report: &mut impl FnMut(Range<usize>)) {
    let spelled = run.iter().filter(|digit| digit.is_spelled).count();
    if spelled < 2 || run.len() < MOBILE_DIGITS - 1 {
        return;
    }
    let mut from = 0;
    while let Some(rest) = run.get(from..).filter(|rest| rest.len() >= MOBILE_DIGITS - 1) {
        let is_allowed = from == 0 || spelled >= SPELLED_MIN;
        if is_allowed && is_mobile(rest) {
            let last = rest.get(MOBILE_DIGITS - 1).or(rest.last());
            if let Some((first, last)) = rest.first().zip(last) {
                report(first.range.start..last.range.end);
            }
            from += MOBILE_DIGITS;
        } else {
            from += 1;
        }
    }
}

fn is_mobile(digits: &[Digit]) -> bool {
    let spelled = digits
        .iter()
        .take(MOBILE_DIGITS)
        .filter(|digit| digit.is_spelled)
        .count();
    let mut values = digits.iter().map(|digit| digit.value);
    let start = (values.next(), values.next(), values.next());
    spelled >= 2 && matches!(start, (Some(0), Some(1), Some(0 | 1 | 6..=9)))
}
