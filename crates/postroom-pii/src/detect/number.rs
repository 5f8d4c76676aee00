//! Numbers that people write in groups: phone numbers, card numbers, resident registration numbers.

use std::ops::Range;

use super::{card, phone, resident};
use crate::Kind;

/// No number has more digits, and no number has more groups.
const DIGITS_MAX: usize = 19;
/// No number has fewer digits.
const DIGITS_MIN: usize = 7;
/// The longest separator between two groups, such as `) - `.
const GAP_BYTES_MAX: usize = 4;

/// Digits that belong together, written in groups.
pub(super) struct Number<'a> {
    text: &'a str,
    groups: &'a [Range<usize>],
    /// The group before the first one, and the group behind the last one.
    before: Option<&'a Range<usize>>,
    after: Option<&'a Range<usize>>,
    pub(super) digits: &'a [u8],
}

/// Reports each number of a kind that must not be stored.
pub(crate) fn find(text: &str, mut report: impl FnMut(Range<usize>, Kind)) {
    let mut chain: Vec<Range<usize>> = Vec::new();
    for group in groups(text) {
        let is_near = chain.last().is_some_and(|last| is_gap(text, last.end..group.start));
        if !is_near {
            find_in_chain(text, &chain, &mut report);
            chain.clear();
        }
        chain.push(group);
    }
    find_in_chain(text, &chain, &mut report);
}

fn groups(text: &str) -> impl Iterator<Item = Range<usize>> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + bytes.get(at..)?.iter().position(u8::is_ascii_digit)?;
        let length = bytes
            .get(start..)?
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        at = start + length;
        Some(start..at)
    })
}

fn is_gap(text: &str, range: Range<usize>) -> bool {
    let is_separator = |byte: &u8| b" -._/~()+*|\t\r\n".contains(byte);
    let gap = text.as_bytes().get(range).unwrap_or_default();
    gap.len() <= GAP_BYTES_MAX && gap.iter().all(is_separator)
}

fn find_in_chain(text: &str, chain: &[Range<usize>], report: &mut impl FnMut(Range<usize>, Kind)) {
    let mut first = 0;
    while first < chain.len() {
        let found = longest(text, chain, first);
        if let Some((count, kind)) = found {
            let whole = chain.get(first).zip(chain.get(first + count - 1));
            if let Some((start, end)) = whole {
                let plus = text.get(..start.start).is_some_and(|before| before.ends_with('+'));
                report(start.start - usize::from(plus)..end.end, kind);
            }
        }
        first += found.map_or(1, |(count, _)| count);
    }
}

/// The longest number that begins with this group: its groups and its kind.
fn longest(text: &str, chain: &[Range<usize>], first: usize) -> Option<(usize, Kind)> {
    let mut digits = [0; DIGITS_MAX];
    let mut ends = [0; DIGITS_MAX];
    let mut total = 0;
    let mut count = 0;
    for group in chain.get(first..)? {
        let place = digits.get_mut(total..total + group.len());
        let Some((place, end)) = place.zip(ends.get_mut(count)) else {
            break;
        };
        place.copy_from_slice(text.as_bytes().get(group.clone())?);
        total += group.len();
        *end = total;
        count += 1;
    }
    (1..=count).rev().find_map(|count| {
        let total = *ends.get(count - 1)?;
        let number = Number {
            text,
            groups: chain.get(first..first + count)?,
            before: first.checked_sub(1).and_then(|before| chain.get(before)),
            after: chain.get(first + count),
            digits: digits.get(..total)?,
        };
        let kind = if total < DIGITS_MIN { None } else { number.kind() };
        Some((count, kind?))
    })
}

impl<'a> Number<'a> {
    fn kind(&self) -> Option<Kind> {
        if card::is_card(self) {
            Some(Kind::Card)
        } else if resident::is_resident_number(self) {
            Some(Kind::ResidentNumber)
        } else if phone::is_phone(self) {
            Some(Kind::Phone)
        } else {
            None
        }
    }

    /// The lengths of the groups.
    pub(super) fn lengths(&self) -> impl DoubleEndedIterator<Item = usize> + ExactSizeIterator {
        self.groups.iter().map(ExactSizeIterator::len)
    }

    /// Whether the groups have exactly these lengths.
    pub(super) fn is_grouped(&self, lengths: &[usize]) -> bool {
        self.lengths().eq(lengths.iter().copied())
    }

    pub(super) fn is_one_group(&self) -> bool {
        self.groups.len() == 1
    }

    pub(super) fn first_length(&self) -> usize {
        self.lengths().next().unwrap_or(0)
    }

    /// The separators between the groups.
    pub(super) fn gaps(&self) -> impl Iterator<Item = &'a str> {
        let text = self.text;
        let pairs = self.groups.iter().zip(self.groups.iter().skip(1));
        pairs.filter_map(move |(left, right)| text.get(left.end..right.start))
    }

    /// Whether each digit stands alone, with the same separator after each: `0 1 0 1 2 3 4 5 6 7 8`.
    pub(super) fn is_spaced(&self) -> bool {
        let mut gaps = self.gaps();
        let first = gaps.next();
        first.is_some() && self.lengths().all(|length| length == 1) && gaps.all(|gap| Some(gap) == first)
    }

    pub(super) fn text_before(&self) -> &'a str {
        let start = self.groups.first().map_or(0, |group| group.start);
        self.text.get(..start).unwrap_or_default()
    }

    pub(super) fn text_after(&self) -> &'a str {
        let end = self.groups.last().map_or(0, |group| group.end);
        self.text.get(end..).unwrap_or_default()
    }

    /// Whether no other number is joined by a dash or a dot: `2024-02-123-4567` is one long number.
    pub(super) fn is_separate(&self) -> bool {
        let is_joining = |gap: &str| gap.contains(['-', '.', '_', '/']);
        let start = self.groups.first().map_or(0, |group| group.start);
        let end = self.groups.last().map_or(0, |group| group.end);
        let before = self.before.and_then(|before| self.text.get(before.end..start));
        let after = self.after.and_then(|after| self.text.get(end..after.start));
        !before.is_some_and(is_joining) && !after.is_some_and(is_joining)
    }

    /// Whether the number is the fraction of a decimal number with this many digits before its point.
    pub(super) fn is_fraction(&self, digits_before: Range<usize>) -> bool {
        let before = self.before.filter(|before| digits_before.contains(&before.len()));
        let gap = before.and_then(|before| self.text.get(before.end..self.groups.first()?.start));
        self.is_one_group() && gap == Some(".")
    }

    /// Whether the number is not a part of a code such as `3f01012345678a9`: only letters may touch it.
    pub(super) fn is_no_part_of_a_code(&self) -> bool {
        let is_mixed = |next: Option<u8>| next.is_some_and(|byte| byte.is_ascii_digit());
        let before = self
            .text_before()
            .bytes()
            .rev()
            .find(|byte| !byte.is_ascii_alphabetic());
        let after = self.text_after().bytes().find(|byte| !byte.is_ascii_alphabetic());
        let touches_before = self.text_before().ends_with(|c: char| c.is_ascii_alphabetic());
        let touches_after = self.text_after().starts_with(|c: char| c.is_ascii_alphabetic());
        !((touches_before && is_mixed(before)) || (touches_after && is_mixed(after)))
    }

    /// Whether no ASCII letter touches the number.
    pub(super) fn is_alone(&self) -> bool {
        !self.text_before().ends_with(|c: char| c.is_ascii_alphabetic())
            && !self.text_after().starts_with(|c: char| c.is_ascii_alphabetic())
    }

    /// Whether a plus stands before the number, as in `+82` or `(+82)`.
    pub(super) fn has_plus(&self) -> bool {
        let before = self.text_before().trim_end_matches([' ', '(']).strip_suffix('+');
        before.is_some_and(|before| !before.ends_with(|c: char| c.is_ascii_alphanumeric()))
    }
}
