//! How far a group is behind.

use std::collections::BTreeMap;
use std::sync::Arc;

use postroom::Result;

use crate::client::{Kafka, Shared};
use crate::join::Clerk;

/// How many messages of a topic a group has not acknowledged.
///
/// The markers that end transactions count as messages: after transactions, one per partition stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lag {
    /// The topic.
    pub topic: String,
    /// Messages, over all partitions.
    pub messages: u64,
}

impl Kafka {
    /// How far a group is behind in each of these topics. A group that never joined is behind with everything.
    pub async fn lag(&self, group: &str, topics: &[String]) -> Result<Vec<Lag>> {
        let (shared, group, topics) = (Arc::clone(&self.shared), group.to_owned(), topics.to_vec());
        let measure = move || measure(&shared, &group, &topics);
        self.shared.blocking("ask how far a group is behind", measure).await
    }
}

fn measure(shared: &Shared, group: &str, topics: &[String]) -> Result<Vec<Lag>> {
    let clerk = Clerk::new(shared, group)?;
    let mut behind: BTreeMap<String, u64> = topics.iter().map(|topic| (topic.clone(), 0)).collect();
    for (place, committed) in clerk.offsets(topics)? {
        let (low, high) = clerk.ends(&place)?;
        let at = committed.unwrap_or(low).max(low);
        *behind.entry(place.0).or_default() += u64::try_from(high - at).unwrap_or(0);
    }
    let lag = behind.into_iter().map(|(topic, messages)| Lag { topic, messages });
    Ok(lag.collect())
}
