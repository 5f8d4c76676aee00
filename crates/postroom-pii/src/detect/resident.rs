//! Korean resident registration numbers, and those of foreigners: `YYMMDD-GNNNNNN`.
//!
//! The last digit was a checksum until October 2020. Newer numbers are random, so a missing checksum proves nothing where the
//! number is written with its dash. Without a dash, thirteen digits are often a time or an order number.

use super::number::Number;

/// The number of masking characters from which a masked number is still a finding: `900101-1******`.
const MASK_MIN: usize = 4;
/// A label must stand so near before the number.
const LABEL_BYTES_MAX: usize = 32;

pub(super) fn is_resident_number(number: &Number<'_>) -> bool {
    if !matches!(number.digits.len(), 7 | 13) {
        return false;
    }
    let Some(birth) = Birth::of(number.digits) else {
        return false;
    };
    if number.digits.len() == 7 {
        return number.is_grouped(&[6, 1]) && is_masked(number.text_after()) && birth.is_likely();
    }
    let is_number = if number.is_grouped(&[6, 7]) || number.is_grouped(&[6, 1, 6]) {
        birth.is_likely() || (birth.is_possible() && has_checksum(number.digits))
    } else if number.is_one_group() {
        has_label(number.text_before()) || is_likely_without_dash(number, &birth)
    } else {
        false
    };
    is_number && number.is_no_part_of_a_code() && !number.is_fraction(1..4)
}

fn is_likely_without_dash(number: &Number<'_>, birth: &Birth) -> bool {
    let is_given = has_checksum(number.digits) || birth.is_without_checksum();
    is_given && birth.is_possible() && !is_time(number.digits)
}

struct Birth {
    year: u32,
}

impl Birth {
    /// The date of birth, if the first six digits are a date.
    fn of(digits: &[u8]) -> Option<Self> {
        let digit = |at: usize| digits.get(at).map(|digit| u32::from(digit - b'0'));
        let pair = |at: usize| Some(digit(at)? * 10 + digit(at + 1)?);
        let (year, month, day) = (pair(0)?, pair(2)?, pair(4)?);
        let century = match digit(6)? {
            1 | 2 | 5 | 6 => 1900,
            3 | 4 | 7 | 8 => 2000,
            _ => 1800,
        };
        let days = match month {
            2 => 29,
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => return None,
        };
        (1..=days).contains(&day).then_some(Self { year: century + year })
    }

    fn is_possible(&self) -> bool {
        self.year < 2036
    }

    /// Whether a living person may have this birth year, and an order number of our days rarely looks like it.
    fn is_likely(&self) -> bool {
        (1920..2036).contains(&self.year)
    }

    /// Whether the number was given without a checksum.
    fn is_without_checksum(&self) -> bool {
        (2020..2036).contains(&self.year)
    }
}

fn has_checksum(digits: &[u8]) -> bool {
    let weights = [2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5];
    let sum: u32 = weights
        .iter()
        .zip(digits)
        .map(|(weight, digit)| weight * u32::from(digit - b'0'))
        .sum();
    let last = digits.last().map_or(0, |digit| u32::from(digit - b'0'));
    let is_foreigner = matches!(digits.get(6), Some(b'5'..=b'8'));
    let minuend = if is_foreigner { 13 } else { 11 };
    last == (minuend - sum % 11) % 10
}

/// Whether thirteen digits are a time of our days in milliseconds since 1970 (2017 to 2033).
fn is_time(digits: &[u8]) -> bool {
    matches!(digits, [b'1', b'5'..=b'9', ..])
}

fn is_masked(after: &str) -> bool {
    let is_mask = |c: &char| matches!(c, '*' | 'x' | 'X' | '●' | '○' | '■' | '＊' | '#');
    after.chars().take(MASK_MIN).filter(is_mask).count() == MASK_MIN
}

fn has_label(before: &str) -> bool {
    let from = before.ceil_char_boundary(before.len().saturating_sub(LABEL_BYTES_MAX));
    before.get(from..).is_some_and(|near| near.contains("주민"))
}
