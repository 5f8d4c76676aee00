//! The brokers that are configured: whether they answer, and what about them can cost messages.

use std::sync::Arc;

use postroom::Broker;
use postroom_address::BrokerKind;
use postroom_host::Module;
use postroom_terminal::output::chain;
use postroom_terminal::page::checkup;
use postroom_terminal::page::finding::{Finding, State};

use crate::broker::Brokers;
use crate::config::Config;
use crate::module::{self, Group};

/// A broker as the queue of a module, and the groups of the module.
type Queue = (Arc<dyn Broker>, Vec<Group>);

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
            let (own, shared) = divide(&brokers, config, &modules, kind);
            findings.extend(look(kind, &**broker, shared).await);
            for (queue, groups) in own {
                let own = look(kind, &*queue, groups).await;
                // That the broker answers was said before.
                findings.extend(own.into_iter().filter(|finding| finding.state != State::Ok));
            }
        }
    }
    findings
}

/// The groups that a broker feeds: by the queues of modules that have names of their own, and the others.
fn divide(brokers: &Brokers, config: &Config, modules: &[Module], kind: BrokerKind) -> (Vec<Queue>, Vec<Group>) {
    let (mut own, mut shared) = (Vec::new(), module::groups(kind, config, modules));
    for module in modules
        .iter()
        .filter(|module| config.modules.broker(module.name) == Some(kind))
    {
        if let Ok(Some(queue)) = brokers.of_queue(config, module.name) {
            let is_own = |group: &mut Group| module.subscribers.iter().any(|one| one.group == group.0);
            own.push((queue, shared.extract_if(.., is_own).collect()));
        }
    }
    (own, shared)
}

async fn look(kind: BrokerKind, broker: &dyn Broker, mut groups: Vec<Group>) -> Vec<Finding> {
    if groups.is_empty() {
        groups.push(("postroom-doctor".to_owned(), Vec::new())); // a broker that feeds no module is asked too
    }
    checkup::broker(kind.name(), broker, &groups).await
}
