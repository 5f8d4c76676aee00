//! Phone numbers: Korean ones, international ones with a plus, and North American ones.
//!
//! Nationwide numbers of companies (`1588-1234`) are no personal data and look like years: they are not searched.

use super::number::Number;

pub(super) fn is_phone(number: &Number<'_>) -> bool {
    let is_shaped = is_mobile(number)
        || is_international(number)
        || is_korean_abroad(number)
        || is_dialled_abroad(number)
        || is_landline(number)
        || is_written_with_area_code(number)
        || is_north_american(number);
    is_shaped && number.is_no_part_of_a_code()
}

/// `010-1234-5678`, `01012345678`, `010 12 34 56 78`, `0 1 0 1 2 3 4 5 6 7 8`; also `011`, `016` to `019`.
fn is_mobile(number: &Number<'_>) -> bool {
    if !starts_as_mobile(number.digits) || !matches!(number.digits.len(), 10 | 11) {
        return false;
    }
    if number.is_one_group() {
        let is_full = number.digits.len() == 11 || number.digits.get(2) != Some(&b'0');
        let is_binary = number.digits.iter().all(|digit| matches!(digit, b'0' | b'1'));
        return is_full && !is_binary && !number.is_fraction(2..4);
    }
    number.is_spaced() || (number.first_length() >= 3 && number.lengths().all(|length| length >= 2))
}

fn starts_as_mobile(digits: &[u8]) -> bool {
    matches!(digits, [b'0', b'1', b'0' | b'1' | b'6'..=b'9', ..])
}

/// A plus, a country code, and 9 to 15 digits in total.
fn is_international(number: &Number<'_>) -> bool {
    let has_country = !matches!(number.digits, [b'2', b'8', ..] | [b'8', b'3' | b'9', ..] | [b'0', ..]);
    has_country && (9..=15).contains(&number.digits.len()) && number.has_plus()
}

/// `82 10 1234 5678`, `821012345678`, `0082-10-1234-5678`, `82-(0)10-1234-5678`, `82-2-1234-5678`.
fn is_korean_abroad(number: &Number<'_>) -> bool {
    let digits = number.digits.strip_prefix(b"00").unwrap_or(number.digits);
    let Some(national) = digits.strip_prefix(b"82") else {
        return false;
    };
    let national = national.strip_prefix(b"0").unwrap_or(national);
    let is_mobile = matches!(national, [b'1', b'0' | b'1' | b'6'..=b'9', ..]) && matches!(national.len(), 9 | 10);
    let has_dashes = number.gaps().all(|gap| gap == "-") && number.lengths().len() == 4;
    let is_landline = has_dashes && number.lengths().next_back() == Some(4) && matches!(national.len(), 8..=10);
    number.first_length() >= 2 && (is_mobile || is_landline)
}

/// `00 44 20 7946 0958`, `001-1-415-555-0132`: the prefix of a call abroad, and groups.
fn is_dialled_abroad(number: &Number<'_>) -> bool {
    let is_grouped = number.lengths().len() >= 4 && number.lengths().next_back() >= Some(3);
    let has_prefix = number.digits.starts_with(b"00") && (2..=5).contains(&number.first_length());
    has_prefix && is_grouped && (12..=17).contains(&number.digits.len()) && number.is_separate()
}

/// `02-1234-5678`, `(031) 123-4567`, `070.1234.5678`, `0505-123-4567`; also of other countries, such as `03-1234-5678`.
fn is_written_with_area_code(number: &Number<'_>) -> bool {
    let mut lengths = number.lengths();
    let shape = (lengths.next(), lengths.next(), lengths.next(), lengths.next());
    let is_shaped = matches!(shape, (Some(2..=4), Some(3..=4), Some(4), None));
    let has_area = matches!(number.digits, [b'0', b'2'..=b'9', ..]);
    let is_separator = |c: char| matches!(c, '-' | '.' | '(' | ')' | ' ' | '~');
    is_shaped && has_area && number.is_separate() && number.gaps().all(|gap| gap.chars().all(is_separator))
}

/// `0212345678`, `031-2345678`, `07012345678`.
fn is_landline(number: &Number<'_>) -> bool {
    let Some(area) = area_length(number.digits) else {
        return false;
    };
    let is_shaped = number.is_one_group() || (number.lengths().len() == 2 && number.first_length() == area);
    let subscriber = number.digits.get(area..).unwrap_or_default();
    let is_subscriber = matches!(subscriber, [b'1'..=b'9', ..]) && matches!(subscriber.len(), 7 | 8);
    is_shaped && is_subscriber && number.is_alone() && number.is_separate()
}

/// The length of a Korean area code, or of the code of internet and personal numbers.
fn area_length(digits: &[u8]) -> Option<usize> {
    match digits {
        [b'0', b'2', ..] => Some(2),
        [b'0', b'3', b'1'..=b'3', ..]
        | [b'0', b'4', b'1'..=b'4', ..]
        | [b'0', b'5', b'1'..=b'5', ..]
        | [b'0', b'6', b'1'..=b'4', ..]
        | [b'0', b'7'..=b'9', b'0', ..] => Some(3),
        [b'0', b'5', b'0', b'2'..=b'8', ..] => Some(4),
        _ => None,
    }
}

/// `(415) 555-0132`, `415-555-0132`, `415.555.0132`, `1-415-555-0132`.
fn is_north_american(number: &Number<'_>) -> bool {
    let national = match number.digits {
        [b'1', national @ ..] if number.is_grouped(&[1, 3, 3, 4]) => national,
        national if number.is_grouped(&[3, 3, 4]) => national,
        _ => return false,
    };
    let is_valid = matches!(national, [b'2'..=b'9', _, _, b'2'..=b'9', ..]);
    let is_separator = |gap: &str| matches!(gap, "-" | "." | ") " | ")" | ")-" | " (" | "-(");
    is_valid && number.is_separate() && number.gaps().all(is_separator)
}
