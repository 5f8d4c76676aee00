//! Other readings of a text: without hidden characters, in one Unicode form, decoded. Each byte of a view knows its origin.

use std::borrow::Cow;
use std::ops::Range;

use unicode_normalization::UnicodeNormalization;

/// A reading of a text. Detectors search the view; findings are replaced in the original.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub(crate) text: Cow<'a, str>,
    /// The origin of each byte. `None`: the view is the original.
    origins: Option<Vec<Origin>>,
}

/// A range of bytes in the original.
#[derive(Debug, Clone, Copy)]
struct Origin {
    start: u32,
    end: u32,
}

impl<'a> View<'a> {
    /// The folded reading of a text: see [`folded`]. The text must be shorter than 4 GiB.
    pub(crate) fn of(text: &'a str) -> Self {
        if is_plain(text) {
            return Self {
                text: Cow::Borrowed(text),
                origins: None,
            };
        }
        let chars = text
            .char_indices()
            .map(|(at, c)| (c, Origin::of(at..at + c.len_utf8())));
        View::folded(chars, text.len())
    }

    /// One level of percent-encoding, HTML entities and escapes less. `None` if the view has none.
    pub(crate) fn decoded(&self) -> Option<View<'static>> {
        if !self.text.bytes().any(|byte| matches!(byte, b'%' | b'&' | b'\\')) {
            return None;
        }
        let mut bytes = Vec::with_capacity(self.text.len());
        let mut origins = Vec::with_capacity(self.text.len());
        let mut at = 0;
        let mut is_changed = false;
        while let Some(byte) = self.text.as_bytes().get(at) {
            let escaped = self.text.as_bytes().get(at..).and_then(|rest| escape(*byte, rest));
            let length = escaped.as_ref().map_or(1, |(_, length)| *length);
            match escaped {
                Some((Escaped::Byte(byte), _)) => bytes.push(byte),
                Some((Escaped::Char(c), _)) => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
                None => bytes.push(*byte),
            }
            is_changed |= length > 1;
            origins.resize(bytes.len(), Origin::of(self.origin(at..at + length)));
            at += length;
        }
        is_changed.then(|| View::of_bytes(&bytes, &origins))
    }

    /// The range of the original that a range of this view stands for.
    pub(crate) fn origin(&self, range: Range<usize>) -> Range<usize> {
        let Some(origins) = &self.origins else { return range };
        let start = origins
            .get(range.start)
            .map_or(usize::MAX, |origin| origin.start as usize);
        let last = range.end.checked_sub(1).and_then(|last| origins.get(last));
        let end = last.map_or(start, |origin| origin.end as usize);
        start.min(end)..end
    }

    fn of_bytes(bytes: &[u8], origins: &[Origin]) -> View<'static> {
        let mut chars = Vec::with_capacity(bytes.len());
        let mut at = 0;
        for chunk in bytes.utf8_chunks() {
            let valid = chunk.valid().chars().map(|c| (c, c.len_utf8()));
            let invalid = (!chunk.invalid().is_empty()).then_some((char::REPLACEMENT_CHARACTER, chunk.invalid().len()));
            for (c, length) in valid.chain(invalid) {
                let first = origins.get(at);
                let last = origins.get(at + length - 1);
                chars.extend(first.zip(last).map(|(first, last)| {
                    (
                        c,
                        Origin {
                            start: first.start,
                            end: last.end,
                        },
                    )
                }));
                at += length;
            }
        }
        View::folded(chars.into_iter(), bytes.len())
    }

    fn folded(chars: impl Iterator<Item = (char, Origin)>, length: usize) -> View<'static> {
        let mut fold = Fold {
            text: String::with_capacity(length),
            origins: Vec::with_capacity(length),
        };
        let mut jamo: Option<(String, Origin)> = None;
        for (c, origin) in chars {
            if is_jamo(c) {
                let (letters, whole) = jamo.get_or_insert_with(|| (String::new(), origin));
                letters.push(c);
                whole.end = origin.end;
                continue;
            }
            fold.push_jamo(jamo.take());
            fold.push(c, origin);
        }
        fold.push_jamo(jamo);
        View {
            text: Cow::Owned(fold.text),
            origins: Some(fold.origins),
        }
    }
}

/// A text as a reader sees it: NFKC, without invisible characters, with ASCII digits, dashes and dots.
pub(crate) fn folded(text: &str) -> Cow<'_, str> {
    View::of(text).text
}

impl Origin {
    #[expect(clippy::cast_possible_truncation, reason = "longer texts are removed before")]
    fn of(range: Range<usize>) -> Self {
        Self {
            start: range.start as u32,
            end: range.end as u32,
        }
    }
}

struct Fold {
    text: String,
    origins: Vec<Origin>,
}

impl Fold {
    fn push(&mut self, c: char, origin: Origin) {
        if is_invisible(c) {
            return;
        }
        if c.is_ascii() || matches!(c, '가'..='힣') {
            self.append(c, origin);
        } else if let Some(simple) = ascii_sibling(c) {
            self.append(simple, origin);
        } else {
            for c in std::iter::once(c).nfkc() {
                self.append(ascii_sibling(c).unwrap_or(c), origin);
            }
        }
    }

    /// Appends decomposed Hangul as syllables.
    fn push_jamo(&mut self, jamo: Option<(String, Origin)>) {
        if let Some((letters, origin)) = jamo {
            for c in letters.nfc() {
                self.append(c, origin);
            }
        }
    }

    fn append(&mut self, c: char, origin: Origin) {
        self.text.push(c);
        self.origins.extend(std::iter::repeat_n(origin, c.len_utf8()));
    }
}

fn is_plain(text: &str) -> bool {
    text.bytes()
        .all(|byte| matches!(byte, b' '..=b'~' | b'\t' | b'\n' | b'\r'))
}

fn is_jamo(c: char) -> bool {
    matches!(c, '\u{1100}'..='\u{115e}' | '\u{1161}'..='\u{11ff}')
}

/// Characters without a shape of their own: controls, joiners, fillers, marks, variation selectors, tags.
fn is_invisible(c: char) -> bool {
    match c {
        '\t' | '\n' | '\r' => false,
        _ if c.is_ascii() => c.is_ascii_control(),
        '\u{80}'..='\u{9f}'
        | '\u{ad}'
        | '\u{300}'..='\u{36f}'
        | '\u{61c}'
        | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{20d0}'..='\u{20ff}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{e0000}'..='\u{e0fff}' => true,
        _ => false,
    }
}

/// The first digits of scripts whose digits NFKC keeps.
const ZEROS: [char; 12] = ['٠', '۰', '०', '০', '੦', '૦', '୦', '௦', '౦', '೦', '๐', '໐'];

/// The ASCII character that people mean: digits of other scripts, dashes, dots.
fn ascii_sibling(c: char) -> Option<char> {
    match c {
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{2043}' | '\u{30fc}' | '\u{3161}' | '\u{ff70}' => Some('-'),
        '。' | '·' | '・' | '•' | '‧' | '∙' | '․' => Some('.'),
        '\u{660}'..='\u{ed9}' => {
            let zero = ZEROS
                .iter()
                .find(|zero| (**zero as u32..**zero as u32 + 10).contains(&(c as u32)))?;
            char::from_digit(c as u32 - *zero as u32, 10)
        }
        _ => None,
    }
}

enum Escaped {
    Byte(u8),
    Char(char),
}

/// The escape at the start of a text, and its length: `%40`, `&#64;`, `\u0040`.
fn escape(first: u8, rest: &[u8]) -> Option<(Escaped, usize)> {
    match first {
        b'%' => Some((Escaped::Byte(u8::try_from(hex(rest.get(1..3)?)?).ok()?), 3)),
        b'&' => entity(rest),
        b'\\' => backslash(rest),
        _ => None,
    }
}

fn hex(digits: &[u8]) -> Option<u32> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    digits.iter().try_fold(0, |value, byte| Some(value << 4 | digit(byte)?))
}

/// The longest entity, such as `&commat;` or `&#x00040;`.
const ENTITY_BYTES_MAX: usize = 10;

fn entity(rest: &[u8]) -> Option<(Escaped, usize)> {
    let end = rest.iter().take(ENTITY_BYTES_MAX).position(|byte| *byte == b';')?;
    let name = std::str::from_utf8(rest.get(1..end)?).ok()?;
    let c = match name {
        "commat" => '@',
        "period" => '.',
        "amp" => '&',
        "quot" => '"',
        "colon" => ':',
        "equals" => '=',
        "hyphen" | "dash" => '-',
        "nbsp" => ' ',
        _ => {
            let number = name.strip_prefix('#')?;
            let digits = number.strip_prefix(['x', 'X']);
            let code = digits.map_or_else(|| number.parse().ok(), |digits| hex(digits.as_bytes()))?;
            char::from_u32(code)?
        }
    };
    Some((Escaped::Char(c), end + 1))
}

fn backslash(rest: &[u8]) -> Option<(Escaped, usize)> {
    let (c, length) = match rest.get(1)? {
        b'u' => return unicode_escape(rest),
        b'x' => (char::from_u32(hex(rest.get(2..4)?)?)?, 4),
        b'n' => ('\n', 2),
        b't' => ('\t', 2),
        b'r' => ('\r', 2),
        byte @ (b'"' | b'\'' | b'\\' | b'/') => (char::from(*byte), 2),
        _ => return None,
    };
    Some((Escaped::Char(c), length))
}

fn unicode_escape(rest: &[u8]) -> Option<(Escaped, usize)> {
    let first = hex(rest.get(2..6)?)?;
    if let Some(c) = char::from_u32(first) {
        return Some((Escaped::Char(c), 6));
    }
    let second = rest
        .get(6..8)
        .filter(|start| start == b"\\u")
        .and(rest.get(8..12))
        .and_then(hex);
    let pair = [u16::try_from(first).ok()?, u16::try_from(second.unwrap_or(0)).ok()?];
    match char::decode_utf16(pair).next()? {
        Ok(c) => Some((Escaped::Char(c), 12)),
        Err(_) => Some((Escaped::Char(char::REPLACEMENT_CHARACTER), 6)),
    }
}

#[cfg(test)]
mod tests {
    use super::{View, folded};

    #[test]
    fn a_folded_text_reads_as_a_person_reads_it() {
        let check = |text: &str, expected: &str| assert_eq!(folded(text), expected, "{text}");
        check("plain text", "plain text");
        check("０１０－１２３４", "010-1234");
        check("0\u{200b}1\u{feff}0\u{0}1", "0101");
        check("⓪①⓪ 0️⃣1️⃣0️⃣", "010 010");
        check("٠١٠ ०१०", "010 010");
        check("010ㅡ1234—5678", "010-1234-5678");
        check("kim＠example。com", "kim@example.com");
        check("\u{1100}\u{1161}\u{11a8}가", "각가");
        check("𝐤𝐢𝐦", "kim");
    }

    #[test]
    fn each_level_of_encoding_is_one_view_and_knows_its_origin() {
        let text = "a %256B%2569 &#64; \\u0040 é b";
        let first = View::of(text);
        let second = first.decoded().unwrap();
        assert_eq!(second.text, "a %6B%69 @ @ é b");
        let third = second.decoded().unwrap();
        assert_eq!(third.text, "a ki @ @ é b");
        assert!(third.decoded().is_none());
        assert_eq!(&text[third.origin(2..4)], "%256B%2569");
        assert_eq!(&text[third.origin(5..6)], "&#64;");
        assert_eq!(&text[third.origin(9..11)], "é");
        assert_eq!(&text[third.origin(12..13)], "b");
    }

    #[test]
    fn broken_escapes_are_left_alone() {
        for text in [
            "100%",
            "%4",
            "%zz",
            "&",
            "&#;",
            "&#xFFFFFFFF;",
            "\\",
            "\\u12",
            "\\q",
            "&nothing;",
        ] {
            assert!(View::of(text).decoded().is_none(), "{text}");
        }
        assert_eq!(View::of("%ff\\ud800x").decoded().unwrap().text, "\u{fffd}\u{fffd}x");
        assert_eq!(View::of("\\ud83c\\udf5c").decoded().unwrap().text, "🍜");
    }
}
