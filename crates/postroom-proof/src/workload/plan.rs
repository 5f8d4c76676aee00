//! The plan of one transaction of a writer, drawn at random before it begins.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

/// One transaction, drawn before it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) is_repeatable_read: bool,
    /// Writes another table first; on PostgreSQL that draws the transaction's id long before its events.
    pub(super) is_elsewhere_first: bool,
    /// Between that and the first aggregate.
    pub(super) pause: Duration,
    /// Which aggregates, in this order, and how many events for each.
    pub(super) steps: Vec<(u32, u32)>,
    pub(super) savepoint: Option<Savepoint>,
    /// Between the last write and the end.
    pub(super) late: Duration,
    pub(super) is_rolled_back: bool,
}

/// One more event of the first aggregate, in a savepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Savepoint {
    Released,
    RolledBack,
}

impl Plan {
    pub(super) fn draw(rng: &mut StdRng, keys: u32) -> Self {
        let mut steps = vec![Self::draw_step(rng, keys)];
        if rng.random_bool(0.2) {
            steps.push(Self::draw_step(rng, keys));
        }
        Self {
            is_repeatable_read: rng.random_bool(0.1),
            is_elsewhere_first: rng.random_bool(0.5),
            pause: if rng.random_bool(0.2) {
                millis(rng, 5)
            } else {
                Duration::ZERO
            },
            steps,
            savepoint: rng.random_bool(0.3).then(|| {
                if rng.random_bool(0.34) {
                    Savepoint::RolledBack
                } else {
                    Savepoint::Released
                }
            }),
            late: match rng.random_range(0..1_000) {
                0..5 => millis(rng, 2_000),
                5..305 => millis(rng, 25),
                _ => Duration::ZERO,
            },
            is_rolled_back: rng.random_bool(0.08),
        }
    }

    fn draw_step(rng: &mut StdRng, keys: u32) -> (u32, u32) {
        let hot = if rng.random_bool(0.4) { keys.div_ceil(32) } else { keys };
        let events = if rng.random_bool(0.01) {
            300
        } else {
            rng.random_range(1..=4)
        };
        (rng.random_range(0..hot), events)
    }
}

pub(super) fn millis(rng: &mut StdRng, max: u64) -> Duration {
    Duration::from_millis(rng.random_range(0..=max))
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn plans(seed: u64, count: usize) -> Vec<Plan> {
        let mut rng = StdRng::seed_from_u64(seed);
        (0..count).map(|_| Plan::draw(&mut rng, 64)).collect()
    }

    #[test]
    fn the_same_seed_draws_the_same_transactions() {
        assert_eq!(plans(7, 100), plans(7, 100));
        assert_ne!(plans(7, 100), plans(8, 100));
    }

    #[test]
    fn every_kind_of_transaction_is_drawn_about_as_often_as_documented() {
        let all = plans(1, 20_000);
        let check = |what: &str, percent: f64, holds: fn(&Plan) -> bool| {
            let counted = u32::try_from(all.iter().filter(|plan| holds(plan)).count()).unwrap();
            let found = f64::from(counted) / 200.0;
            assert!(
                (found - percent).abs() <= percent * 0.25,
                "{what}: {found} %, not {percent} %"
            );
        };
        check("elsewhere first", 50.0, |plan| plan.is_elsewhere_first);
        check("rolled back", 8.0, |plan| plan.is_rolled_back);
        check("savepoint rolled back", 10.0, |plan| {
            plan.savepoint == Some(Savepoint::RolledBack)
        });
        check("two aggregates", 20.0, |plan| plan.steps.len() == 2);
        check("very late", 0.5, |plan| plan.late > Duration::from_millis(25));
        check("late", 30.0, |plan| plan.late > Duration::ZERO);
        check("large", 1.2, |plan| plan.steps.iter().any(|(_, events)| *events == 300));
    }
}
