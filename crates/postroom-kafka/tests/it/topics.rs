//! Plans and applies topic specifications.

use std::collections::BTreeMap;

use postroom_kafka::{Difference, TopicSpec};

use crate::publish::name;
use crate::site::KafkaSite;

pub(crate) fn spec(name: &str, partitions: i32) -> TopicSpec {
    TopicSpec {
        name: name.to_owned(),
        partitions,
        replication: 1,
        config: BTreeMap::new(),
    }
}

fn words(differences: &[Difference]) -> Vec<String> {
    differences.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn a_plan_changes_nothing_and_apply_does_what_it_says() {
    let (site, name) = (KafkaSite::shared(), name());
    let mut wanted = spec(&name, 2);
    wanted.config.insert("retention.ms".to_owned(), "60000".to_owned());
    let plan = site.kafka.plan(std::slice::from_ref(&wanted)).await.unwrap();
    assert_eq!(plan, [Difference::Missing(wanted.clone())]);
    assert_eq!(
        site.kafka.plan(std::slice::from_ref(&wanted)).await.unwrap(),
        plan,
        "a plan changes nothing"
    );
    assert_eq!(site.kafka.apply(std::slice::from_ref(&wanted)).await.unwrap(), plan);
    assert_eq!(site.kafka.plan(std::slice::from_ref(&wanted)).await.unwrap(), []);

    wanted.partitions = 4;
    wanted.config.clear();
    wanted.config.insert("cleanup.policy".to_owned(), "compact".to_owned());
    let done = site.kafka.apply(std::slice::from_ref(&wanted)).await.unwrap();
    let expected = [
        format!("add partitions to {name}, from 2 to 4; keys move to other partitions, so publish nothing meanwhile"),
        format!("set cleanup.policy of {name} to compact; it is delete"),
    ];
    assert_eq!(words(&done), expected);
    // A setting that the new specification omits stays unchanged.
    wanted.config.insert("retention.ms".to_owned(), "60000".to_owned());
    assert_eq!(site.kafka.plan(std::slice::from_ref(&wanted)).await.unwrap(), []);
}

#[tokio::test]
async fn partitions_and_topics_are_never_taken_away() {
    let (site, name) = (KafkaSite::shared(), name());
    site.create_with(&name, 3, &[]).await;
    let mut wanted = spec(&name, 1);
    wanted.replication = 2;
    let expected = [
        format!("leave {name}, which has 3 partitions, not 1"),
        format!("leave {name}, which is kept by 1 broker, not 2; use kafka-reassign-partitions.sh"),
    ];
    assert_eq!(
        words(&site.kafka.apply(std::slice::from_ref(&wanted)).await.unwrap()),
        expected
    );
    assert_eq!(
        words(&site.kafka.plan(&[wanted]).await.unwrap()),
        expected,
        "nothing was changed"
    );
    site.kafka.apply(&[]).await.unwrap();
    assert_eq!(
        site.kafka.plan(&[spec(&name, 3)]).await.unwrap(),
        [],
        "the topic is still there"
    );
}

#[tokio::test]
async fn a_topic_that_kafka_does_not_make_is_an_error_that_names_it() {
    let (site, name) = (KafkaSite::shared(), name());
    let mut wanted = spec(&name, 1);
    wanted.config.insert("no.such.setting".to_owned(), "1".to_owned());
    let error = site.kafka.apply(&[wanted]).await.unwrap_err();
    assert!(error.report().contains(&name), "{error:?}");
}
