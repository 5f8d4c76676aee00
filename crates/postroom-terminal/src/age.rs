//! Times and ages as people read them.

use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

const OF_DAY: &[BorrowedFormatItem<'_>] = format_description!("[hour]:[minute]:[second].[subsecond digits:3]");
const WITH_DATE: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day] [hour]:[minute]:[second].[subsecond digits:3]");

/// How long, in its largest two units at most: `0.4s`, `12s`, `3m 5s`, `2h 10m`, `5d 3h`.
pub fn age(seconds: f64) -> String {
    let whole = std::time::Duration::try_from_secs_f64(seconds)
        .unwrap_or_default()
        .as_secs();
    let (minute, hour, day) = (60, 60 * 60, 24 * 60 * 60);
    match whole {
        s if s < 10 => format!("{:.1}s", seconds.max(0.0)),
        s if s < minute => format!("{s}s"),
        s if s < hour => format!("{}m {}s", s / minute, s % minute),
        s if s < day => format!("{}h {}m", s / hour, s % hour / minute),
        s => format!("{}d {}h", s / day, s % day / hour),
    }
}

/// The time of day, UTC, to the millisecond.
pub fn of_day(at: OffsetDateTime) -> String {
    at.format(OF_DAY).unwrap_or_default()
}

/// Date and time, UTC, to the millisecond.
pub fn with_date(at: OffsetDateTime) -> String {
    at.format(WITH_DATE).unwrap_or_default()
}

/// Reads a time from a command line.
pub fn parse_time(text: &str) -> Result<OffsetDateTime, String> {
    OffsetDateTime::parse(text, &Rfc3339)
        .map_err(|error| format!("{error}; write a time such as 2026-01-31T18:30:00Z or 2026-01-31T18:30:00+09:00"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let check = |seconds: f64, expected: &str| assert_eq!(age(seconds), expected);
        check(-1.0, "0.0s");
        check(0.44, "0.4s");
        check(12.9, "12s");
        check(185.0, "3m 5s");
        check(7_800.0, "2h 10m");
        check(442_800.0, "5d 3h");
    }
}
