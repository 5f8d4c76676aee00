//! Log lines that would repeat themselves: said when they change, and once a minute as long as they do not.

use std::time::{Duration, Instant};

const AGAIN: Duration = Duration::from_secs(60);

/// The last line, and the time when it was logged.
#[derive(Debug, Default)]
pub(crate) struct Repeated {
    last: Option<(String, Instant)>,
}

impl Repeated {
    /// Whether this is to be said now.
    pub(crate) fn is_news(&mut self, says: &str, now: Instant) -> bool {
        let is_known = |(last, at): &(String, Instant)| last == says && now.duration_since(*at) < AGAIN;
        if self.last.as_ref().is_some_and(is_known) {
            return false;
        }
        self.last = Some((says.to_owned(), now));
        true
    }

    /// It is over: when it comes again, it is news.
    pub(crate) fn is_over(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_again_after_a_minute_or_when_it_changes() {
        let (mut repeated, begun) = (Repeated::default(), Instant::now());
        let mut check = |second: u64, says: &str, expected: bool| {
            let is_news = repeated.is_news(says, begun + Duration::from_secs(second));
            assert_eq!(is_news, expected, "{says} after {second} s");
        };
        check(0, "no topic", true);
        check(4, "no topic", false);
        check(59, "no topic", false);
        check(60, "no topic", true);
        check(61, "no broker", true);
        check(62, "no topic", true);
        check(63, "no topic", false);
        repeated.is_over();
        assert!(repeated.is_news("no topic", begun + Duration::from_secs(64)));
    }
}
