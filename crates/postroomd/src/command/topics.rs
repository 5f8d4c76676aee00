//! `postroom topics`: what Kafka must have, and making it so. The daemon itself never creates a topic.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use postroom::operate::counted;
use postroom_address::BrokerKind;
use postroom_host::Module;
use postroom_kafka::{Difference, TopicSpec};
use postroom_terminal::output;
use serde_json::json;

use crate::config::{Config, Destination};
use crate::module;

/// Plan and create the topics on Kafka that the configuration needs
#[derive(Debug, Subcommand)]
pub(crate) enum Topics {
    /// Say what is missing or different; changes nothing
    Plan(Told),
    /// Create what is missing and add partitions and settings; deletes nothing
    Apply(Told),
}

/// How it is told.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Told {
    /// For programs
    #[arg(long)]
    json: bool,
}

impl Topics {
    pub(crate) async fn run(self, config: &Config) -> Result<()> {
        let kafka = config.brokers.kafka.open()?;
        let kafka = kafka.context("there is no Kafka; add [brokers.kafka] with its url")?;
        let specs = specs(config);
        let (differences, told) = match self {
            Self::Plan(told) => (kafka.plan(&specs).await?, told),
            Self::Apply(told) => (kafka.apply(&specs).await?, told),
        };
        report(&specs, &differences, told.json)
    }
}

fn specs(config: &Config) -> Vec<TopicSpec> {
    let broker = &config.brokers.kafka;
    let spec = |name: String| TopicSpec {
        name: format!("{}{name}", broker.prefix),
        partitions: broker.options.partitions,
        replication: broker.options.replication,
        config: BTreeMap::new(),
    };
    names(config, &module::enabled(config)).into_iter().map(spec).collect()
}

/// The topics of every route that leads to Kafka and every module that is fed by it, with a place for dead letters each.
fn names(config: &Config, modules: &[Module]) -> BTreeSet<String> {
    let topics = postroom_host::Topics::of(modules);
    let mut names = BTreeSet::new();
    for route in &config.routes {
        if route.to == Destination::Broker(BrokerKind::Kafka) {
            names.extend(topics.all_in(&route.topic).matching(&route.filter()));
            names.extend(route.topic.fixed().map(str::to_owned));
        }
    }
    for (_, topics) in module::groups(BrokerKind::Kafka, config, modules) {
        for topic in topics {
            names.insert(format!("{topic}.DLT"));
            names.insert(topic);
        }
    }
    names
}

fn report(specs: &[TopicSpec], differences: &[Difference], as_json: bool) -> Result<()> {
    let lines: Vec<String> = differences.iter().map(ToString::to_string).collect();
    if as_json {
        let topics: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        return output::print_json(&json!({ "topics": topics, "differences": lines }));
    }
    match (specs.len(), lines.len()) {
        (0, _) => output::print("the configuration sends nothing to Kafka"),
        (count, 0) => {
            let topics = counted(count as u64, "topic", "topics");
            output::print(format!("{topics}, nothing to do"))
        }
        _ => output::print(lines.join("\n")),
    }
}
