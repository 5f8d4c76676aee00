//! The brokers that are configured: whether they answer, and what about them can cost messages.

use postroom::{Broker, Risk, operate};
use postroom_terminal::output::chain;
use postroom_terminal::page::finding::Finding;

use crate::broker::{BrokerKind, Brokers};
use crate::config::Config;
use crate::module::{self, Group};

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
            let groups = module::groups(kind, config, &modules);
            findings.extend(look(kind, &**broker, groups).await);
        }
    }
    findings
}

async fn look(kind: BrokerKind, broker: &dyn Broker, mut groups: Vec<Group>) -> Vec<Finding> {
    if groups.is_empty() {
        groups.push(("postroom-doctor".to_owned(), Vec::new())); // a broker that feeds no module is asked too
    }
    let risks = match operate::broker_risks(broker, &groups).await {
        Ok(risks) => risks,
        Err(error) => {
            let next = format!("check the address in [brokers.{kind}], the server, the user and its password");
            return vec![Finding::fail(kind.name(), error.report(), next)];
        }
    };
    let answers = Finding::ok(kind.name(), format!("{} answers", broker.name()));
    let warning = |Risk { says, next }| Finding::warn(kind.name(), says, next);
    std::iter::once(answers).chain(risks.into_iter().map(warning)).collect()
}
