//! The brokers that are configured: whether they answer, and what about them can cost messages.

use std::collections::BTreeSet;
use std::time::Duration;

use postroom::{Broker, Risk};
use postroom_host::{Module, Topics};

use super::Finding;
use crate::broker::{BrokerKind, Brokers};
use crate::config::Config;
use crate::module;
use crate::output::chain;

/// A broker that answers later is not there.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// A group, and the topics that it reads.
type Group = (String, Vec<String>);

pub(super) async fn examine(config: &Config) -> Vec<Finding> {
    let brokers = match Brokers::open(&config.brokers) {
        Ok(brokers) => brokers,
        Err(error) => {
            let next = "correct [brokers] in the configuration";
            return vec![Finding::fail("brokers", chain(&error), next)];
        }
    };
    let modules = module::enabled(config);
    let mut findings = Vec::new();
    for kind in BrokerKind::ALL {
        if let Ok(broker) = brokers.get(kind) {
            let groups = groups(kind, config, &modules);
            findings.extend(look(kind, &**broker, &groups).await);
        }
    }
    findings
}

/// The groups of modules that this broker feeds.
fn groups(kind: BrokerKind, config: &Config, modules: &[Module]) -> Vec<Group> {
    let topics = Topics::of(modules);
    let fed = modules
        .iter()
        .filter(|module| config.modules.broker(module.name) == Some(kind));
    fed.flat_map(|module| &module.subscribers)
        .map(|subscriber| {
            let topics = topics.matching(&subscriber.filter).into_iter().collect();
            (subscriber.group.clone(), topics)
        })
        .collect()
}

async fn look(kind: BrokerKind, broker: &dyn Broker, groups: &[Group]) -> Vec<Finding> {
    let nobody = [("postroom-doctor".to_owned(), Vec::new())];
    let groups = if groups.is_empty() { &nobody } else { groups };
    let mut risks = BTreeSet::new();
    for (group, topics) in groups {
        match tokio::time::timeout(ANSWER_MAX, broker.risks(group, topics)).await {
            Ok(Ok(found)) => risks.extend(found),
            Ok(Err(error)) => return vec![away(kind, &error.report())],
            Err(_late) => {
                let says = format!("it has not answered within {} s", ANSWER_MAX.as_secs());
                return vec![away(kind, &says)];
            }
        }
    }
    let mut findings = vec![Finding::ok(kind.name(), format!("{} answers", broker.name()))];
    findings.extend(
        risks
            .into_iter()
            .map(|Risk { says, next }| Finding::warn(kind.name(), says, next)),
    );
    findings
}

fn away(kind: BrokerKind, says: &str) -> Finding {
    let next = format!("check the address in [brokers.{kind}], the server, the user and its password");
    Finding::fail(kind.name(), says, next)
}
