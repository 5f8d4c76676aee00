//! Single values of the configuration. Each error says what is allowed.

use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use postroom::Start;
use postroom_address::{BrokerKind, BrokerUrl, StoreUrl};
use postroom_telemetry::log;
use time::Time;
use time::macros::format_description;
use toml::Value;

fn must_be(wanted: &str, value: &Value) -> String {
    format!("must be {wanted}, not {value}")
}

pub(super) fn text(value: &Value) -> Result<String, String> {
    match value.as_str() {
        Some(text) if !text.trim().is_empty() => Ok(text.to_owned()),
        _ => Err(must_be("a text", value)),
    }
}

pub(super) fn flag(value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| must_be("true or false", value))
}

pub(super) fn duration(value: &Value) -> Result<Duration, String> {
    value
        .as_str()
        .and_then(parse_duration)
        .ok_or_else(|| must_be(r#"a duration such as "500ms", "10s", "5m", "12h" or "7d""#, value))
}

/// Like [`duration`], but at least `min`.
pub(super) fn duration_from(min: Duration) -> impl Fn(&Value) -> Result<Duration, String> {
    move |value| match duration(value)? {
        short if short < min => Err(format!("must be at least {min:?}, not {value}")),
        enough => Ok(enough),
    }
}

pub(super) fn durations(value: &Value) -> Result<Vec<Duration>, String> {
    match value.as_array().filter(|list| !list.is_empty()) {
        Some(list) => list.iter().map(duration).collect(),
        None => Err(must_be(r#"a list of durations such as ["1s", "5s", "30s"]"#, value)),
    }
}

pub(super) fn time_of_day(value: &Value) -> Result<Time, String> {
    let clock = format_description!("[hour]:[minute]");
    let time = match value {
        Value::String(text) => Time::parse(text, clock).ok(),
        // A variable of the environment has no quotes, so it is a time of TOML.
        Value::Datetime(local) if local.date.is_none() && local.offset.is_none() => local
            .time
            .filter(|time| time.second.unwrap_or(0) == 0 && time.nanosecond.unwrap_or(0) == 0)
            .and_then(|time| Time::from_hms(time.hour, time.minute, 0).ok()),
        _ => None,
    };
    time.ok_or_else(|| must_be(r#"a time of day in UTC such as "04:00""#, value))
}

pub(super) fn address(value: &Value) -> Result<SocketAddr, String> {
    value.as_str().and_then(|text| text.parse().ok()).ok_or_else(|| {
        must_be(
            r#"an address and a port such as "127.0.0.1:8080" or "[::1]:8080""#,
            value,
        )
    })
}

/// A list of texts that each mean something; it may be empty.
pub(super) fn list<T>(value: &Value) -> Result<Vec<T>, String>
where
    T: FromStr<Err = postroom::Error>,
{
    let wrong = || must_be(r#"a list of texts such as ["one", "two"]"#, value);
    let parse = |one: &Value| {
        let text = one.as_str().ok_or_else(wrong)?;
        text.parse().map_err(|error: postroom::Error| error.report())
    };
    value.as_array().ok_or_else(wrong)?.iter().map(parse).collect()
}

pub(super) fn broker(value: &Value) -> Result<BrokerKind, String> {
    let kind = value.as_str().and_then(BrokerKind::named);
    kind.ok_or_else(|| must_be(r#""kafka", "rabbitmq" or "redis""#, value))
}

/// An address of this kind of broker.
pub(super) fn broker_url(kind: BrokerKind) -> impl Fn(&Value) -> Result<BrokerUrl, String> {
    // The value may hold a password, so it is not repeated.
    move |value| BrokerUrl::parse(kind, value.as_str().ok_or("must be a text")?)
}

pub(super) fn topic(value: &Value) -> Result<postroom::Topic, String> {
    let topic: Result<postroom::Topic, _> = text(value)?.parse();
    topic.map_err(|error| error.report())
}

/// A valid prefix of a topic; it may be empty.
pub(super) fn prefix(value: &Value) -> Result<String, String> {
    let prefix = value.as_str().ok_or_else(|| must_be("a text", value))?;
    let topic: Result<postroom::Topic, _> = format!("{prefix}x").parse();
    topic.map(|_| prefix.to_owned()).map_err(|error| error.report())
}

pub(super) fn http_url(value: &Value) -> Result<String, String> {
    let is_url = |text: &&str| text.starts_with("http://") || text.starts_with("https://");
    let text = value.as_str().filter(is_url);
    text.map(str::to_owned)
        .ok_or_else(|| must_be(r#"an address such as "http://127.0.0.1:4318""#, value))
}

pub(super) fn store_url(value: &Value) -> Result<StoreUrl, String> {
    // The value may hold a password, so it is not repeated.
    value.as_str().ok_or("must be a text")?.parse()
}

pub(super) fn level(value: &Value) -> Result<String, String> {
    value
        .as_str()
        .filter(|text| log::is_level(text))
        .map(str::to_owned)
        .ok_or_else(|| {
            must_be(
                r#"error, warn, info, debug, trace or a filter such as "info,sqlx=debug""#,
                value,
            )
        })
}

/// One of a closed set of words.
pub(super) fn one_of<T: Clone>(choices: &[(&'static str, T)]) -> impl Fn(&Value) -> Result<T, String> {
    move |value| {
        let chosen = choices.iter().find(|(name, _)| value.as_str() == Some(name));
        chosen.map(|(_, choice)| choice.clone()).ok_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            must_be(&names.join(" | "), value)
        })
    }
}

/// Where to begin.
pub(super) fn start(value: &Value) -> Result<Start, String> {
    one_of(&[("beginning", Start::Beginning), ("head", Start::Head)])(value)
}

/// A whole number within limits.
pub(super) fn number<T>(limits: RangeInclusive<T>) -> impl Fn(&Value) -> Result<T, String>
where
    T: TryFrom<i64> + PartialOrd + Display,
{
    move |value| {
        value
            .as_integer()
            .and_then(|number| T::try_from(number).ok())
            .filter(|number| limits.contains(number))
            .ok_or_else(|| must_be(&format!("a number from {} to {}", limits.start(), limits.end()), value))
    }
}

/// How often at most, or none for ever.
pub(super) fn limit(value: &Value) -> Result<Option<u32>, String> {
    if value.as_str() == Some("unlimited") {
        return Ok(None);
    }
    let number = number(1..=u32::MAX)(value);
    number
        .map(Some)
        .map_err(|_out_of_range| must_be("a number from 1 on, or \"unlimited\"", value))
}

/// A text that is not repeated when it is wrong.
pub(super) fn secret(value: &Value) -> Result<String, String> {
    let says = "must be a text; one of digits alone has quotes, in the environment too: '\"1234\"'";
    let text = value.as_str().filter(|text| !text.is_empty());
    text.map(str::to_owned).ok_or_else(|| says.to_owned())
}

/// The content of the file with this path.
pub(super) fn file(value: &Value) -> Result<String, String> {
    let path = text(value)?;
    std::fs::read_to_string(&path).map_err(|error| format!("{path} cannot be read: {error}"))
}

/// A whole number and its unit.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        "h" => number.checked_mul(60 * 60).map(Duration::from_secs),
        "d" => number.checked_mul(24 * 60 * 60).map(Duration::from_secs),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_one_that_exists() {
        let check = |text: &str, is_right: bool| assert_eq!(level(&text.into()).is_ok(), is_right, "{text}");
        for right in ["info", "WARN", "off", "info,sqlx=debug", "info,[line]=debug"] {
            check(right, true);
        }
        for wrong in ["bogus", "", "info,bogus", "info,", "sqlx", "sqlx=loud", "inf"] {
            check(wrong, false);
        }
    }

    #[test]
    fn durations_have_a_unit() {
        let check = |text: &str, expected: Option<Duration>| assert_eq!(parse_duration(text), expected, "{text}");
        check("500ms", Some(Duration::from_millis(500)));
        check("10s", Some(Duration::from_secs(10)));
        check("5m", Some(Duration::from_secs(300)));
        check("7d", Some(Duration::from_secs(604_800)));
        for wrong in [
            "",
            "5",
            "s",
            "-5s",
            "1.5s",
            "5 s",
            "5w",
            "99999999999999999999s",
            "999999999999999999d",
        ] {
            check(wrong, None);
        }
    }
}
