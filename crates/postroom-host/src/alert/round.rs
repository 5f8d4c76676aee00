//! One round over the rules of a module: look, write down what has begun and what has ended, tell what was not told.
//!
//! Telling happens outside of any transaction, so a notice may come twice when a process dies before it writes down that it was
//! told. It needs the store and the messengers, and no route: an alert may be about the relay itself.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::join_all;
use postroom::Result;
use postroom::alert::{self, Alert, Channel, Messenger, Notice, Reply, Turn};
use sea_orm::DatabaseConnection;
use time::OffsetDateTime;

use super::{Finding, Messengers, Rule, Shown, Watch};
use crate::host::Host;

/// The longest pause before a messenger is tried again, whatever it asks for, and the pause after a refusal.
const AFTER_MAX: Duration = Duration::from_secs(3600);

/// A turn of an alert, as long as it lasts.
type Moment = (Turn, OffsetDateTime);

#[derive(Debug)]
pub(super) struct Round {
    pub(super) module: &'static str,
    pub(super) host: Host,
    pub(super) watches: Vec<Watch>,
    pub(super) messengers: Messengers,
    /// Notices that a messenger refused, and when. Kept in memory: a process that starts with another setting tries at once.
    refused: Mutex<HashMap<String, (Moment, Instant)>>,
}

impl Round {
    pub(super) fn new(module: &'static str, host: Host, watches: Vec<Watch>, messengers: Messengers) -> Self {
        Self {
            module,
            host,
            watches,
            messengers,
            refused: Mutex::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.watches.is_empty()
    }

    /// Answers how many notices were taken, or the last thing that failed; that holds up no other watch.
    pub(super) async fn go(&self) -> Result<u64> {
        let mut outcome = Ok(0);
        for watch in &self.watches {
            outcome = match self.watch(watch).await {
                Ok(taken) => outcome.map(|before| before + taken),
                Err(error) => {
                    tracing::warn!(rules = ?names(&watch.rules), error = error.report(), "rules could not be looked at");
                    Err(error)
                }
            };
        }
        outcome
    }

    async fn watch(&self, watch: &Watch) -> Result<u64> {
        let findings = match (watch.look)(self.host.clone()).await {
            Ok(findings) => self.note(&watch.rules, &findings).await.map(|()| findings),
            Err(error) => Err(error),
        };
        // Notices that were not sent before are sent also when the look fails.
        let known = findings.as_deref().unwrap_or_default();
        let taken = self.tell_all(&watch.rules, known).await?;
        findings.map(|_| taken)
    }

    /// Writes down what has begun and what has ended.
    async fn note(&self, rules: &[Rule], findings: &[Finding]) -> Result<()> {
        let known = alert::load(self.db(), &names(rules)).await?;
        for (rule, finding) in rules.iter().zip(findings) {
            let alert = known.iter().find(|alert| alert.rule == rule.name);
            match turn(alert.map(|alert| alert.turn), finding.is_firing) {
                None => {}
                Some(Turn::Began) => {
                    let Finding { number, limit, .. } = finding;
                    tracing::warn!(rule = rule.name, number, limit, "an alert began");
                    alert::begin(self.db(), rule.name).await?;
                }
                Some(Turn::Ended) => {
                    tracing::info!(rule = rule.name, "an alert ended");
                    match self.messengers.contains_key(&rule.channel) {
                        true => alert::end(self.db(), rule.name).await?,
                        false => alert::forget(self.db(), rule.name).await?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Tells what was not told; a channel that fails holds up no other.
    async fn tell_all(&self, rules: &[Rule], findings: &[Finding]) -> Result<u64> {
        let alerts = alert::load(self.db(), &names(rules)).await?;
        let channels = self.messengers.iter().map(|(channel, messenger)| {
            let due = alerts.iter().filter(|alert| alert.is_due && !alert.is_told);
            let notices = due.filter_map(|alert| {
                let at = rules.iter().position(|rule| rule.name == alert.rule)?;
                let rule = rules.get(at).filter(|rule| rule.channel == *channel)?;
                Some((alert, notice(rule, alert, findings.get(at))))
            });
            self.tell(*channel, messenger.as_ref(), notices.collect())
        });
        join_all(channels).await.into_iter().sum()
    }

    /// Tells one after the other, until somebody says that it is not the time.
    async fn tell(&self, channel: Channel, messenger: &dyn Messenger, notices: Vec<(&Alert, Notice)>) -> Result<u64> {
        let mut taken = 0;
        let mut not_now = None;
        for (alert, notice) in &notices {
            if self.is_refused(alert) {
                continue;
            }
            let reply = match &not_now {
                None => messenger.tell(notice).await,
                Some(later) => Reply::clone(later),
            };
            match &reply {
                Reply::Taken => {
                    tracing::info!(rule = alert.rule, %channel, turn = ?alert.turn, "an alert was told");
                    alert::told(self.db(), alert).await?;
                    taken += 1;
                }
                Reply::Later { says, after } => {
                    tracing::warn!(rule = alert.rule, %channel, says, "an alert could not be told; it is tried again");
                    let after = after.unwrap_or_default().min(AFTER_MAX);
                    alert::postpone(self.db(), alert, says, after).await?;
                    not_now = Some(reply);
                }
                Reply::Refused(says) => {
                    let setting = format!("alerts.{channel}");
                    tracing::error!(
                        rule = alert.rule,
                        setting,
                        says,
                        "an alert was refused; look at the setting"
                    );
                    alert::postpone(self.db(), alert, says, Duration::ZERO).await?;
                    self.refuse(alert);
                }
            }
        }
        Ok(taken)
    }

    fn is_refused(&self, alert: &Alert) -> bool {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let known = refused.get(&alert.rule);
        known.is_some_and(|(moment, at)| *moment == (alert.turn, alert.since) && at.elapsed() < AFTER_MAX)
    }

    fn refuse(&self, alert: &Alert) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.insert(alert.rule.clone(), ((alert.turn, alert.since), Instant::now()));
    }

    fn db(&self) -> &DatabaseConnection {
        self.host.store.db()
    }
}

pub(super) fn names(rules: &[Rule]) -> Vec<&'static str> {
    rules.iter().map(|rule| rule.name).collect()
}

/// The change of an alert, if any. An alert that begins again before its end was sent begins anew: the receiver of the end must
/// hear of it.
fn turn(known: Option<Turn>, is_firing: bool) -> Option<Turn> {
    match (known, is_firing) {
        (None | Some(Turn::Ended), true) => Some(Turn::Began),
        (Some(Turn::Began), false) => Some(Turn::Ended),
        (Some(Turn::Began), true) | (None | Some(Turn::Ended), false) => None,
    }
}

fn notice(rule: &Rule, alert: &Alert, finding: Option<&Finding>) -> Notice {
    let says = match finding {
        Some(Finding { number, limit, .. }) => {
            format!("{}: {}, the limit is {}", rule.says, Shown(*number), Shown(*limit))
        }
        None => rule.says.to_owned(),
    };
    Notice {
        rule: rule.name.to_owned(),
        turn: alert.turn,
        since: alert.since,
        says,
        next: rule.next.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_and_what_ends_is_news_and_nothing_else() {
        let check = |known, is_firing, expected| assert_eq!(turn(known, is_firing), expected, "{known:?} {is_firing}");
        check(None, false, None);
        check(None, true, Some(Turn::Began));
        check(Some(Turn::Began), true, None);
        check(Some(Turn::Began), false, Some(Turn::Ended));
        check(Some(Turn::Ended), false, None);
        check(Some(Turn::Ended), true, Some(Turn::Began));
    }
}
