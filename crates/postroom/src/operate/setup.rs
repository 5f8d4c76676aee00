//! Whether database, clocks and brokers are set up so that no event gets lost.

use std::collections::BTreeSet;
use std::time::Duration as StdDuration;

use sea_orm::{ConnectionTrait, Statement};
use time::{Duration, OffsetDateTime};

use crate::broker::{Broker, Risk};
use crate::clock;
use crate::error::{Error, ErrorKind, Result};
use crate::store::db_clock;
use crate::store::outbox::{Inspect, with_timeout};
use crate::store::setting::SettingCheck;
use crate::store::table;

/// A broker that answers later counts as unreachable.
const BROKER_ANSWER_MAX: StdDuration = StdDuration::from_secs(10);

/// A setting of the database, as it is now.
#[derive(Debug)]
pub struct SettingReport {
    /// The name in the documentation of the database.
    pub name: &'static str,
    /// The value, or why it could not be read.
    pub value: Result<String>,
    /// The consequence of this value, and the correction; none, if the value is good or could not be read.
    pub advice: Option<&'static str>,
}

/// Reads the settings of the database that can cost events or stop Postroom. This writes nothing, and needs no tables.
pub async fn settings(store: &dyn Inspect) -> Vec<SettingReport> {
    let mut reports = Vec::with_capacity(store.settings().len());
    for check in store.settings() {
        let value = with_timeout(read_setting(store, check)).await;
        let advice = value.as_ref().ok().and_then(|value| check.advice_on(value));
        reports.push(SettingReport {
            name: check.name,
            value,
            advice,
        });
    }
    reports
}

async fn read_setting(store: &dyn Inspect, check: &SettingCheck) -> Result<String> {
    let doing = || format!("read the setting {}", check.name);
    let statement = Statement::from_string(store.db().get_database_backend(), check.sql);
    let row = store.db().query_one_raw(statement).await;
    let row = row.map_err(|source| Error::db(doing(), source))?;
    let row = row.ok_or_else(|| Error::new(ErrorKind::Failed, format!("{}: the database gave no answer", doing())))?;
    Ok(row.try_get_by_index(0)?)
}

/// How far the database's clock is ahead of the clock of this process; negative, if it is behind. The error is at most half of
/// the time that the database takes to answer. This writes nothing, and needs no tables.
pub async fn clock_skew(store: &dyn Inspect) -> Result<Duration> {
    with_timeout(async {
        let tx = table::look(store.db()).await?;
        let before = clock::now();
        let theirs = db_clock::read_now(&tx).await?;
        let after = clock::now();
        tx.commit().await?;
        Ok(skew(before, theirs, after))
    })
    .await
}

/// The database read its clock between the question and the answer; the middle is the best guess.
fn skew(before: OffsetDateTime, theirs: OffsetDateTime, after: OffsetDateTime) -> Duration {
    theirs - (before + (after - before) / 2)
}

/// Settings of a broker that can cost messages of these groups, each with the topics that it reads. A risk of several groups is
/// named once. An error if the broker cannot be reached. This writes nothing.
pub async fn broker_risks(broker: &dyn Broker, groups: &[(String, Vec<String>)]) -> Result<Vec<Risk>> {
    let mut risks = BTreeSet::new();
    for (group, topics) in groups {
        let answer = tokio::time::timeout(BROKER_ANSWER_MAX, broker.risks(group, topics)).await;
        let found = answer.map_err(|_late| {
            let says = format!("it has not answered within {} s", BROKER_ANSWER_MAX.as_secs());
            Error::new(ErrorKind::Unavailable, says)
        })?;
        risks.extend(found?);
    }
    Ok(risks.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;
    use time::macros::datetime;

    use super::*;
    use crate::broker::{Join, Letter, Subscription};
    use crate::destination::Destination;
    use crate::destination::local::NullDestination;
    use crate::event::envelope::Mode;
    use crate::event::topic::Topic;

    /// A broker with one risk for all groups, and one for each. It does not answer about the group `silent`.
    #[derive(Debug)]
    struct Risky;

    #[async_trait]
    impl Broker for Risky {
        fn publisher(&self, _topic: Topic, _mode: Mode) -> Arc<dyn Destination> {
            Arc::new(NullDestination)
        }

        async fn subscribe(&self, _join: Join<'_>) -> Result<Box<dyn Subscription>> {
            Err(Error::invalid("nobody joins here"))
        }

        async fn bury(&self, _letter: &Letter) -> Result<()> {
            Ok(())
        }

        async fn buried(&self, _group: &str, _topics: &[String]) -> Result<Box<dyn Subscription>> {
            Err(Error::invalid("nobody is buried here"))
        }

        async fn waiting(&self, _group: &str, _topics: &[String]) -> Result<u64> {
            Ok(0)
        }

        async fn risks(&self, group: &str, topics: &[String]) -> Result<Vec<Risk>> {
            if group == "silent" {
                std::future::pending::<()>().await;
            }
            let risk = |says: String| Risk {
                says,
                next: "change it".to_owned(),
            };
            Ok(vec![
                risk("memory is short".to_owned()),
                risk(format!("{group} reads {}", topics.join(","))),
            ])
        }
    }

    fn group(name: &str) -> (String, Vec<String>) {
        (name.to_owned(), vec!["orders".to_owned()])
    }

    #[tokio::test]
    async fn a_risk_of_several_groups_is_named_once() {
        let risks = broker_risks(&Risky, &[group("mail"), group("stock")]).await.unwrap();
        let said: Vec<&str> = risks.iter().map(|risk| risk.says.as_str()).collect();
        assert_eq!(said, ["mail reads orders", "memory is short", "stock reads orders"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_broker_that_does_not_answer_is_an_error() {
        let error = broker_risks(&Risky, &[group("mail"), group("silent")])
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert_eq!(error.report(), "it has not answered within 10 s");
    }

    #[test]
    fn the_skew_is_measured_from_the_middle_of_the_question() {
        let before = datetime!(2026-01-02 03:04:05 UTC);
        let after = before + Duration::milliseconds(100);
        let check = |theirs_ms: i64, expected_ms: i64| {
            let theirs = before + Duration::milliseconds(theirs_ms);
            assert_eq!(skew(before, theirs, after), Duration::milliseconds(expected_ms));
        };
        check(50, 0);
        check(2_050, 2_000);
        check(-2_950, -3_000);
    }
}
