//! Payment card numbers: by the prefix of their network, their length and the Luhn checksum.

use super::number::Number;

pub(super) fn is_card(number: &Number<'_>) -> bool {
    has_network(number.digits)
        && is_luhn(number.digits)
        && is_shaped(number)
        && number.is_no_part_of_a_code()
        && !number.is_fraction(1..4)
}

fn is_shaped(number: &Number<'_>) -> bool {
    let is_grouped = || number.first_length() == 4 && number.lengths().all(|length| (3..=6).contains(&length));
    number.is_one_group() || number.is_spaced() || is_grouped()
}

/// Whether a network issues numbers of this prefix and length.
fn has_network(digits: &[u8]) -> bool {
    let prefix = digits
        .iter()
        .take(4)
        .fold(0_u32, |value, digit| value * 10 + u32::from(digit - b'0'));
    match digits.len() {
        14 => matches!(prefix, 3000..=3059 | 3600..=3699 | 3800..=3999),
        15 => matches!(prefix, 3400..=3499 | 3700..=3799),
        16 => matches!(
            prefix,
            4000..=4999             // Visa
            | 2221..=2720 | 5000..=5999 // Mastercard, Maestro
            | 3528..=3589           // JCB
            | 6011 | 6440..=6599    // Discover
            | 6200..=6299           // UnionPay
            | 6304 | 6759..=6763    // Maestro
            | 9400..=9499           // cards for Korea only
        ),
        17..=19 => matches!(prefix, 6200..=6299),
        _ => false,
    }
}

fn is_luhn(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(at, digit)| {
            let value = u32::from(digit - b'0') << (at % 2);
            if value > 9 { value - 9 } else { value }
        })
        .sum();
    sum.is_multiple_of(10)
}
