//! The checker of a run with failures: what each group may and may not do with what was committed.
//!
//! An operator decides on dead letters and replays keys meanwhile, so that more than one outcome can be right. Everything else is
//! lost, invented, doubled or out of order.

use std::collections::{HashMap, HashSet};

use crate::history::{Findings, History, Truth};

/// When an event may have an effect once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeats {
    /// Never.
    Never,
    /// When its key was replayed.
    Replayed,
    /// At any time: it is delivered at least once.
    Always,
}

/// The rules of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    pub(crate) repeats: Repeats,
    /// A dead letter lets later events of its key pass, and may come late.
    pub(crate) skips: bool,
    /// A replay may bring an event before the broker has brought an earlier one of its key.
    pub(crate) replay_disorders: bool,
}

/// The last decision on a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    None,
    Retried,
    Discarded,
}

/// The acts of operators on the events of one group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Acts {
    /// Dead letters, by key and version, with what was decided last.
    pub(crate) letters: HashMap<(String, u32), Decision>,
    /// Keys that were replayed.
    pub(crate) replayed: HashSet<String>,
}

/// Counts what a group did wrong, and says it in words.
pub(crate) fn check(who: &str, rule: Rule, truth: &Truth, history: &History, acts: &Acts) -> (Findings, Vec<String>) {
    let mut check = Check {
        who,
        rule,
        acts,
        findings: Findings::default(),
        words: Vec::new(),
    };
    let mut keys: Vec<&String> = truth.keys().chain(history.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        let committed = truth.get(key).copied().unwrap_or(0);
        check.key(key, history.versions(key), committed);
    }
    (check.findings, check.words)
}

struct Check<'a> {
    who: &'a str,
    rule: Rule,
    acts: &'a Acts,
    findings: Findings,
    words: Vec<String>,
}

impl Check<'_> {
    fn key(&mut self, key: &str, versions: &[u32], committed: u32) {
        let is_replayed = self.acts.replayed.contains(key);
        let may_repeat = match self.rule.repeats {
            Repeats::Never => false,
            Repeats::Replayed => is_replayed,
            Repeats::Always => true,
        };
        let (mut seen, mut highest) = (HashSet::new(), 0);
        for version in versions.iter().copied() {
            let letter = self.acts.letters.get(&(key.to_owned(), version)).copied();
            let is_discarded = letter == Some(Decision::Discarded);
            if version == 0 || version > committed {
                self.findings.phantom += 1;
                self.say(key, version, "was never committed");
            } else if !seen.insert(version) {
                if !may_repeat {
                    self.findings.double_effects += 1;
                    self.say(key, version, "had a second effect");
                }
            } else if is_discarded && !may_repeat && !is_replayed {
                self.findings.phantom += 1;
                self.say(key, version, "was discarded and had an effect");
            } else if version < highest && !self.may_be_late(letter, is_replayed) {
                self.findings.order_violations += 1;
                self.say(key, version, &format!("came after version {highest}"));
            }
            highest = highest.max(version);
        }
        self.missing(key, &seen, committed);
    }

    fn may_be_late(&self, letter: Option<Decision>, is_replayed: bool) -> bool {
        letter == Some(Decision::Discarded)
            || self.rule.skips && letter.is_some()
            || self.rule.replay_disorders && is_replayed
    }

    fn missing(&mut self, key: &str, seen: &HashSet<u32>, committed: u32) {
        for version in (1..=committed).filter(|version| !seen.contains(version)) {
            match self.acts.letters.get(&(key.to_owned(), version)) {
                Some(Decision::Discarded) => {}
                Some(Decision::Retried) => {
                    self.findings.lost += 1;
                    self.say(key, version, "was retried and never had an effect");
                }
                Some(Decision::None) => {
                    self.findings.lost += 1;
                    self.say(key, version, "is a dead letter that waits for a decision");
                }
                None => {
                    self.findings.lost += 1;
                    self.say(key, version, "never had an effect");
                }
            }
        }
    }

    fn say(&mut self, key: &str, version: u32, what: &str) {
        self.words
            .push(format!("{}: version {version} of {key} {what}", self.who));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXACT: Rule = Rule {
        repeats: Repeats::Never,
        skips: false,
        replay_disorders: false,
    };

    /// The findings when versions of key `a` arrive in this order, of `committed`; as (lost, phantom, double, order).
    fn found(
        rule: Rule,
        committed: u32,
        arrivals: &[u32],
        letters: &[(u32, Decision)],
        is_replayed: bool,
    ) -> (u64, u64, u64, u64) {
        let truth: Truth = [("a".to_owned(), committed)].into();
        let mut history = History::default();
        arrivals.iter().for_each(|version| history.record("a", *version));
        let acts = Acts {
            letters: letters
                .iter()
                .map(|(ver, act)| (("a".to_owned(), *ver), *act))
                .collect(),
            replayed: is_replayed.then(|| "a".to_owned()).into_iter().collect(),
        };
        let (found, words) = check("group", rule, &truth, &history, &acts);
        let counts = (found.lost, found.phantom, found.double_effects, found.order_violations);
        assert_eq!(
            words.len() as u64,
            counts.0 + counts.1 + counts.2 + counts.3,
            "each is explained: {words:?}"
        );
        counts
    }

    #[test]
    fn what_comes_once_and_in_order_is_right() {
        assert_eq!(found(EXACT, 3, &[1, 2, 3], &[], false), (0, 0, 0, 0));
        assert_eq!(
            found(EXACT, 3, &[1, 2, 3], &[(2, Decision::Retried)], false),
            (0, 0, 0, 0)
        );
    }

    #[test]
    fn what_is_missing_is_lost_unless_it_was_discarded() {
        assert_eq!(found(EXACT, 3, &[1, 3], &[], false), (1, 0, 0, 0));
        assert_eq!(found(EXACT, 3, &[1, 3], &[(2, Decision::Retried)], false), (1, 0, 0, 0));
        assert_eq!(found(EXACT, 3, &[1, 3], &[(2, Decision::None)], false), (1, 0, 0, 0));
        assert_eq!(
            found(EXACT, 3, &[1, 3], &[(2, Decision::Discarded)], false),
            (0, 0, 0, 0)
        );
    }

    #[test]
    fn a_discarded_letter_has_no_effect_unless_it_was_replayed() {
        let discarded = [(2, Decision::Discarded)];
        assert_eq!(found(EXACT, 3, &[1, 2, 3], &discarded, false), (0, 1, 0, 0));
        assert_eq!(found(EXACT, 3, &[1, 3, 2], &discarded, true), (0, 0, 0, 0));
    }

    #[test]
    fn an_effect_repeats_only_where_it_may() {
        let repeated = [1, 2, 1, 3];
        let check = |repeats, is_replayed, expected| {
            let rule = Rule { repeats, ..EXACT };
            assert_eq!(
                found(rule, 3, &repeated, &[], is_replayed),
                (0, 0, expected, 0),
                "{repeats:?}"
            );
        };
        check(Repeats::Never, false, 1);
        check(Repeats::Never, true, 1); // a replay has no second effect where there is an inbox
        check(Repeats::Replayed, false, 1);
        check(Repeats::Replayed, true, 0);
        check(Repeats::Always, false, 0);
    }

    #[test]
    fn only_a_dead_letter_that_was_skipped_may_be_overtaken() {
        let skips = Rule { skips: true, ..EXACT };
        let retried = [(2, Decision::Retried)];
        assert_eq!(
            found(EXACT, 3, &[1, 3, 2], &retried, false),
            (0, 0, 0, 1),
            "a held key waits"
        );
        assert_eq!(found(skips, 3, &[1, 3, 2], &retried, false), (0, 0, 0, 0));
        assert_eq!(
            found(skips, 3, &[1, 3, 2], &[], false),
            (0, 0, 0, 1),
            "it was no dead letter"
        );
    }

    #[test]
    fn a_replay_disorders_only_what_a_broker_feeds() {
        let fed = Rule {
            replay_disorders: true,
            ..EXACT
        };
        assert_eq!(found(EXACT, 2, &[2, 1], &[], true), (0, 0, 0, 1));
        assert_eq!(found(fed, 2, &[2, 1], &[], true), (0, 0, 0, 0));
        assert_eq!(found(fed, 2, &[2, 1], &[], false), (0, 0, 0, 1));
    }

    #[test]
    fn what_was_never_committed_is_a_phantom() {
        assert_eq!(found(EXACT, 1, &[1, 2], &[], false), (0, 1, 0, 0));
        assert_eq!(found(EXACT, 0, &[1], &[], false), (0, 1, 0, 0));
    }
}
