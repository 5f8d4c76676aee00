//! Which events fail, how, and when. A hash decides, so that the same seed fails the same events in every process.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// How an attempt fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Failure {
    /// It is refused, and tried again by the policy.
    Refused,
    /// It is rejected: a dead letter at once.
    Rejected,
    /// It panics.
    Panicked,
    /// It waits for a lock that is held longer than its timeout.
    Hung,
    /// A system that it needs cannot be reached.
    Unavailable,
}

impl Failure {
    /// All of them.
    pub(crate) const ALL: [Self; 5] = [
        Self::Refused,
        Self::Rejected,
        Self::Panicked,
        Self::Hung,
        Self::Unavailable,
    ];
}

/// Of 10,000 events of a group so many are rejected for ever.
const HOPELESS: u64 = 15;
/// And so many fail now and then.
const NOW_AND_THEN: [(Failure, u64); 5] = [
    (Failure::Refused, 150),
    (Failure::Rejected, 60),
    (Failure::Panicked, 25),
    (Failure::Hung, 4),
    (Failure::Unavailable, 25),
];
/// An event that fails now and then changes its mind this often.
const MOOD: Duration = Duration::from_millis(300);
/// And fails in so many of 100 moods.
const BAD_MOODS: u64 = 70;

/// The fate of one event at one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Every attempt succeeds.
    Fine,
    /// Attempts fail so, now and then; the number tells one event from another.
    NowAndThen(Failure, u64),
    /// Every attempt is rejected.
    Hopeless,
}

impl Fate {
    /// The fate of a version of an aggregate (by its number or name in the run).
    pub(crate) fn of(seed: u64, who: &str, aggregate: &str, version: u32) -> Self {
        let roll = hash(&(seed, who, aggregate, version));
        let mut rest = roll % 10_000;
        if rest < HOPELESS {
            return Self::Hopeless;
        }
        rest -= HOPELESS;
        for (failure, share) in NOW_AND_THEN {
            if rest < share {
                return Self::NowAndThen(failure, roll);
            }
            rest -= share;
        }
        Self::Fine
    }

    /// How an attempt fails at this time, if it does.
    pub(crate) fn at(self, now: Duration) -> Option<Failure> {
        match self {
            Self::Fine => None,
            Self::Hopeless => Some(Failure::Rejected),
            Self::NowAndThen(failure, roll) => {
                let mood = now.as_millis() / MOOD.as_millis();
                (hash(&(roll, mood)) % 100 < BAD_MOODS).then_some(failure)
            }
        }
    }
}

pub(crate) fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new(); // its keys are always the same
    what.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(seed: u64) -> Vec<Fate> {
        (0..20_000)
            .map(|version| Fate::of(seed, "inbox", "7", version))
            .collect()
    }

    #[test]
    fn the_same_seed_fails_the_same_events() {
        assert_eq!(fates(1), fates(1));
        assert_ne!(fates(1), fates(2));
        let others: Vec<Fate> = (0..20_000).map(|version| Fate::of(1, "skip", "7", version)).collect();
        assert_ne!(fates(1), others, "each group has failures of its own");
    }

    #[test]
    fn every_kind_of_failure_is_drawn_about_as_often_as_it_says() {
        let all = fates(1);
        for (failure, share) in NOW_AND_THEN {
            let is_one = |fate: &&Fate| matches!(fate, Fate::NowAndThen(found, _) if *found == failure);
            let found = all.iter().filter(is_one).count() as u64;
            assert!(
                found > share && found < share * 3,
                "{failure:?}: {found} of 20,000, not about {}",
                share * 2
            );
        }
        let hopeless = all.iter().filter(|fate| **fate == Fate::Hopeless).count();
        assert!((15..60).contains(&hopeless), "{hopeless} are hopeless");
    }

    #[test]
    fn what_fails_now_and_then_also_succeeds_and_what_is_hopeless_never_does() {
        let moods = |fate: Fate| -> Vec<bool> { (0..100).map(|mood| fate.at(MOOD * mood).is_some()).collect() };
        let now_and_then = moods(Fate::NowAndThen(Failure::Refused, 7));
        assert!(now_and_then.contains(&true) && now_and_then.contains(&false));
        assert!(!moods(Fate::Hopeless).contains(&false));
        assert!(!moods(Fate::Fine).contains(&true));
    }
}
