//! The numbers of an account's events: 1, 2, 3, without a gap. What a consumer makes of the next one that it gets.

use std::ops::RangeInclusive;

/// How an event's number fits to the highest one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The next one.
    InOrder,
    /// These have not come.
    Gap(RangeInclusive<i64>),
    /// Not above what came before: a repetition, or one that was missing.
    Behind,
}

impl Arrival {
    /// The arrival of `number` after `last`, which is zero when nothing came yet.
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
