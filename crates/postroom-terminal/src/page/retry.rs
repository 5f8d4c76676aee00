//! Parked events that are tried now.

use anyhow::Result;
use postroom::operate::{NextStep, RetriedNow, counted};

use crate::age::age;
use crate::output::{clean, print};
use crate::text;

/// Prints a line for each route that tries the event now, and the step that shows the result.
pub fn show(retried: &[RetriedNow], next: NextStep) -> Result<()> {
    for one in retried {
        print(line(one))?;
    }
    print(text::next(&[next]))
}

fn line(one: &RetriedNow) -> String {
    let route = clean(&one.route);
    let attempts = counted(one.attempts.into(), "attempt", "attempts");
    let says = match (one.early_s > 0.0, one.is_paused) {
        (true, false) => format!("{route} tries it now, {} early, after {attempts}", age(one.early_s)),
        (true, true) => format!("{route} tries it when it is resumed, after {attempts}"),
        (false, false) if one.is_probed => format!("{route} asks its destination now, after {attempts}"),
        (false, false) => format!("{route} tries it already: nothing was changed"),
        (false, true) => format!("{route} tries it when it is resumed: nothing was changed"),
    };
    let resume = NextStep::Resume {
        route: one.route.clone(),
    };
    match one.is_paused {
        true => format!("{says} (paused; {})", clean(&text::next(&[resume]))),
        false => says,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_is_told_with_what_it_changed() {
        let told = |early_s: f64, is_paused: bool| {
            line(&RetriedNow {
                route: "mail".to_owned(),
                attempts: 3,
                error: None,
                early_s,
                is_probed: early_s < 0.0,
                is_paused,
            })
        };
        assert_eq!(
            told(3_540.0, false),
            "mail tries it now, 59m 0s early, after 3 attempts"
        );
        assert_eq!(told(0.0, false), "mail tries it already: nothing was changed");
        assert_eq!(told(-1.0, false), "mail asks its destination now, after 3 attempts");
        assert_eq!(
            told(60.0, true),
            "mail tries it when it is resumed, after 3 attempts (paused; postroom resume mail)"
        );
    }
}
