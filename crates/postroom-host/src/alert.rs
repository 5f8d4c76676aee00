//! Alerts: what modules have looked at, when it is too much, and whom that is told to.
//!
//! A module brings [`Rule`]s and one look that judges them; here they are looked at now and then by one process at a time,
//! what begins and what ends is told once, and all of it is shown. How a notice travels is the messenger's business.

mod page;
mod round;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use postroom::alert::{Channel, Messenger};
use postroom::{Error, Job, Result};
use serde::{Serialize, Serializer};

use self::round::Round;
use crate::host::Host;
use crate::module::Module;

/// When somebody should know: what is the matter, how they are told, and what they do next.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Rule {
    /// Its name: unique among all modules. Incident tools recognise an incident by it.
    #[serde(rename = "rule")]
    pub name: &'static str,
    /// How somebody is told.
    pub channel: Channel,
    /// The finding in words, when it fires.
    pub says: &'static str,
    /// The next step for the operator.
    pub next: &'static str,
}

/// The finding of one look for a rule.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The measured number.
    #[serde(serialize_with = "number")]
    pub number: f64,
    /// The limit.
    #[serde(serialize_with = "number")]
    pub limit: f64,
    /// Whether it is too much.
    pub is_firing: bool,
}

impl Finding {
    /// Too much above the limit.
    pub fn above(number: f64, limit: f64) -> Self {
        Self {
            number,
            limit,
            is_firing: number > limit,
        }
    }

    /// Too much from the limit on.
    pub fn at_least(number: f64, limit: f64) -> Self {
        Self {
            number,
            limit,
            is_firing: number >= limit,
        }
    }
}

/// Whole numbers without a fraction, others with one digit of it.
struct Shown(f64);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.fract() == 0.0 {
            true => write!(f, "{:.0}", self.0),
            false => write!(f, "{:.1}", self.0),
        }
    }
}

fn number<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    let shown = Shown(*number).to_string();
    match shown.parse::<i64>() {
        Ok(whole) => serializer.serialize_i64(whole),
        Err(_fraction) => serializer.serialize_f64(shown.parse().unwrap_or(*number)),
    }
}

/// Rules, and the look that judges all of them at once.
#[derive(Clone)]
pub struct Watch {
    rules: Vec<Rule>,
    look: Arc<dyn Fn(Host) -> BoxFuture<'static, Result<Vec<Finding>>> + Send + Sync>,
}

impl Watch {
    /// A look answers one finding for each rule, in the same order.
    pub fn new<const N: usize, F, Fut>(rules: [Rule; N], look: F) -> Self
    where
        F: Fn(Host) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<[Finding; N]>> + Send + 'static,
    {
        let look = Arc::new(look);
        Self {
            rules: rules.into(),
            look: Arc::new(move |host| {
                let look = Arc::clone(&look);
                Box::pin(async move { Ok(look(host).await?.into()) })
            }),
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}

/// The messengers, by channel. A rule whose channel has no messenger is checked and shown all the same.
pub type Messengers = HashMap<Channel, Arc<dyn Messenger>>;

/// The alerts of all modules of a process.
#[derive(Clone, Debug)]
pub(crate) struct Alerts(Vec<Arc<Round>>);

impl Alerts {
    /// Takes the rules of these modules; refuses two of one name, which would end and begin each other for ever.
    pub(crate) fn new(host: &Host, modules: &mut [Module], messengers: &Messengers) -> Result<Self> {
        let mut owners = HashMap::new();
        for module in modules.iter() {
            for rule in module.alerts.iter().flat_map(|watch| &watch.rules) {
                if let Some(other) = owners.insert(rule.name, module.name) {
                    return Err(Error::invalid(format!(
                        "two alert rules are named {:?}, of the module {other} and of the module {}; give one another name",
                        rule.name, module.name
                    )));
                }
            }
        }
        let rounds = modules.iter_mut().map(|module| {
            let watches = std::mem::take(&mut module.alerts);
            Arc::new(Round::new(module.name, host.clone(), watches, messengers.clone()))
        });
        Ok(Self(rounds.filter(|round| !round.is_empty()).collect()))
    }

    /// A job for each module: one process at a time looks at its rules, and tells what has begun and what has ended.
    pub(crate) fn jobs(&self, every: Duration) -> Vec<Job> {
        let job = |round: &Arc<Round>| {
            let round = Arc::clone(round);
            Job::every(format!("alerts-{}", round.module), every, move |_outbox| {
                let round = Arc::clone(&round);
                async move { round.go().await }
            })
        };
        self.0.iter().map(job).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_passed_above_it_or_reached_from_it_on() {
        let check = |number: f64, above: bool, at_least: bool| {
            let (is_above, is_at_least) = (Finding::above(number, 10.0), Finding::at_least(number, 10.0));
            assert_eq!(
                (is_above.is_firing, is_at_least.is_firing),
                (above, at_least),
                "{number}"
            );
        };
        check(9.9, false, false);
        check(10.0, false, true);
        check(10.1, true, true);
    }

    #[test]
    fn numbers_are_shown_as_people_write_them() {
        let json = |number| serde_json::to_string(&Finding::above(number, 100.0)).unwrap();
        assert_eq!(json(3.0), r#"{"number":3,"limit":100,"is_firing":false}"#);
        assert_eq!(json(61.234), r#"{"number":61.2,"limit":100,"is_firing":false}"#);
        assert_eq!(Shown(1e6).to_string(), "1000000");
    }
}
