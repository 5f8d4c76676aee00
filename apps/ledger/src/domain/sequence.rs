//! The sequence numbers of an account's events: 1, 2, 3, without gaps. A consumer compares each number with the last one.

use std::ops::RangeInclusive;

/// The relation of an event's number to the highest number before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The next number.
    InOrder,
    /// These numbers are missing.
    Gap(RangeInclusive<i64>),
    /// Not above the last number: a repetition, or a number that was missing.
    Behind,
}

impl Arrival {
    /// Classifies `number` after `last`. `last` is zero before the first event.
    pub fn of(number: i64, last: i64) -> Self {
        let next = last.saturating_add(1);
        match number {
            _ if number == next => Self::InOrder,
            _ if number > next => Self::Gap(next..=number - 1),
            _ => Self::Behind,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_next_too_high_or_behind() {
        let check =
            |number, last, expected: Arrival| assert_eq!(Arrival::of(number, last), expected, "{number} after {last}");
        check(1, 0, Arrival::InOrder);
        check(8, 7, Arrival::InOrder);
        check(3, 0, Arrival::Gap(1..=2));
        check(9, 7, Arrival::Gap(8..=8));
        check(7, 7, Arrival::Behind);
        check(2, 7, Arrival::Behind);
    }
}
