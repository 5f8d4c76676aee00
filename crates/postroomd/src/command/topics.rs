//! `postroom topics`: what Kafka must have, and making it so. The daemon itself never creates a topic.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use postroom_host::Module;
use postroom_kafka::{Difference, Kafka, Options, TopicSpec};
use serde_json::json;

use crate::broker::BrokerKind;
use crate::config::{Config, Destination};
use crate::{module, output};

/// Plan and create the topics on Kafka that the configuration needs
#[derive(Debug, Subcommand)]
pub(crate) enum Topics {
    /// Say what is missing or different; changes nothing
    Plan(Wanted),
    /// Create what is missing and add partitions and settings; deletes nothing
    Apply(Wanted),
}

/// What each topic should have.
#[derive(Debug, Args)]
pub(crate) struct Wanted {
    /// Partitions of each topic; they can be added later, never taken away
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(i32).range(1..=10_000))]
    partitions: i32,
    /// How many brokers keep each partition
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=100))]
    replication: i32,
    /// For programs
    #[arg(long)]
    json: bool,
}

impl Topics {
    pub(crate) async fn run(self, config: &Config) -> Result<()> {
        let (wanted, applies) = match &self {
            Self::Plan(wanted) => (wanted, false),
            Self::Apply(wanted) => (wanted, true),
        };
        let broker = config.brokers.get(BrokerKind::Kafka);
        let url = broker
            .url
            .as_ref()
            .context("there is no Kafka; add [brokers.kafka] with its url")?;
        let kafka = Kafka::new(&Options::new(url.secret()))?;
        let specs = wanted.specs(config, &broker.prefix);
        let differences = if applies {
            kafka.apply(&specs).await?
        } else {
            kafka.plan(&specs).await?
        };
        report(&specs, &differences, wanted.json)
    }
}

impl Wanted {
    fn specs(&self, config: &Config, prefix: &str) -> Vec<TopicSpec> {
        let spec = |name: String| TopicSpec {
            name: format!("{prefix}{name}"),
            partitions: self.partitions,
            replication: self.replication,
            config: BTreeMap::new(),
        };
        names(config, &module::enabled(config)).into_iter().map(spec).collect()
    }
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
    let fed = modules
        .iter()
        .filter(|module| config.modules.broker(module.name) == Some(BrokerKind::Kafka));
    for subscriber in fed.flat_map(|module| &module.subscribers) {
        for topic in topics.matching(&subscriber.filter) {
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
        (count, 0) => output::print(format!("{count} topics, nothing to do")),
        _ => output::print(lines.join("\n")),
    }
}
