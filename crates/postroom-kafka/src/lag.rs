//! The lag of a consumer group.

use std::collections::BTreeMap;
use std::sync::Arc;

use postroom::Result;

use crate::client::{Kafka, Shared};
use crate::join::GroupOffsets;

/// Number of messages of a topic that a group has not acknowledged.
///
/// Transaction markers count as messages: after a transaction each of its partitions has a lag of at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lag {
    /// The topic.
    pub topic: String,
    /// Number of messages over all partitions.
    pub messages: u64,
}

impl Kafka {
    /// The group's lag in each of these topics. For a group that never joined, all messages count.
    pub async fn lag(&self, group: &str, topics: &[String]) -> Result<Vec<Lag>> {
        let (shared, group, topics) = (Arc::clone(&self.shared), group.to_owned(), topics.to_vec());
        let measure = move || measure(&shared, &group, &topics);
        self.shared.blocking("measure the lag of a group", measure).await
    }
}

fn measure(shared: &Shared, group: &str, topics: &[String]) -> Result<Vec<Lag>> {
    let group_offsets = GroupOffsets::new(shared, group)?;
    let mut behind: BTreeMap<String, u64> = topics.iter().map(|topic| (topic.clone(), 0)).collect();
    for (partition, committed) in group_offsets.offsets(topics)? {
        let (low, high) = group_offsets.watermarks(&partition)?;
        let at = committed.unwrap_or(low).max(low);
        *behind.entry(partition.0).or_default() += u64::try_from(high - at).unwrap_or(0);
    }
    let lag = behind.into_iter().map(|(topic, messages)| Lag { topic, messages });
    Ok(lag.collect())
}
