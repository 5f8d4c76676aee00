//! Time limits on texts of bad shapes.

use std::time::{Duration, Instant};

use postroom_pii::Firewall;

use crate::firewall;

pub(crate) const SHAPES: &[&str] = &[
    "a",
    "0",
    "1",
    "01",
    "010-",
    "0 ",
    "@",
    "a@",
    "a@b.",
    "a@b.c",
    "=",
    "password=",
    "\"content\": ",
    "content: a",
    "q=a&",
    "token:[",
    "token=\"",
    "\\",
    "\\\\\"",
    "%25",
    "%2525",
    "&#64;",
    "\\u0040",
    "eyJ",
    "eyJhbGci.",
    "://",
    "://a",
    "VVVV",
    "QUFB",
    "TUZGQg",
    "a (at) ",
    "a at b dot ",
    "공",
    "공일",
    "zero one ",
    "+8",
    "{\"a\":",
    "[",
    "\u{200b}",
    "가",
    "ᄀ",
    "ﷺ",
    "basic ",
    "bearer ",
    "비밀번호 ",
    "kim@example.com ",
    "h:k1:",
    "00000000-0000-0000-0000-000000000000",
    "4111 1111 1111 1111 ",
    "-----BEGIN PRIVATE KEY-----",
    "A\n",
    "900101-1*",
];

fn repeated(shape: &str, bytes: usize) -> String {
    shape.repeat(bytes / shape.len())
}

fn cleaning_time(firewall: &Firewall, text: &str) -> Duration {
    let start = Instant::now();
    let clean = firewall.clean_text(text);
    let time = start.elapsed();
    assert!(clean.value.len() < 64 * text.len() + 64);
    time
}

/// A quadratic search would take 256 times the time.
fn is_linear(firewall: &Firewall, shape: &str) -> bool {
    let small = cleaning_time(firewall, &repeated(shape, 1 << 14));
    let large = cleaning_time(firewall, &repeated(shape, 1 << 18));
    large < small * 64 || large < Duration::from_secs(1)
}

#[test]
fn sixteen_times_the_text_takes_about_sixteen_times_the_time() {
    let firewall = firewall();
    // A busy machine can disturb one measurement.
    let is_slow = |shape: &&&str| !(0..3).any(|_| is_linear(&firewall, shape));
    let slow: Vec<_> = SHAPES.iter().filter(is_slow).collect();
    assert!(slow.is_empty(), "more than linear time for {slow:?}");
}

#[test]
fn a_megabyte_takes_seconds_at_most() {
    let firewall = firewall();
    let mixed: String = SHAPES
        .iter()
        .map(|shape| repeated(shape, (1 << 20) / SHAPES.len()))
        .collect();
    let texts = ["a", "@", "010-", "=", "eyJ", "VVVV", "%25", "가"].map(|shape| repeated(shape, 1 << 20));
    for text in texts.iter().chain([&mixed]) {
        let time = cleaning_time(&firewall, text);
        let start: String = text.chars().take(8).collect();
        assert!(time < Duration::from_secs(60), "{start:?} took {time:?}");
    }
}
