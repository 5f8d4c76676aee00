//! What happens when a group is shared out anew: partitions come with a place to begin at, and go only when what is handed
//! out of them is finished, or has taken too long.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerContext, RebalanceProtocol};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{Offset, TopicPartitionList};

use crate::client::Voice;
use crate::error::failed;
use crate::hand::{Hand, Place};
use crate::join::committed;

/// So long a partition that is to go waits for what is handed out of it. The rest of the group goes on meanwhile.
const FINISH_MAX: Duration = Duration::from_secs(20);

/// What the driver says of an offset that it sets anew.
const LOST: &str = "OFFSET";

/// Looks after a member's partitions. Runs on the thread that polls.
#[derive(Debug)]
pub(crate) struct Sharing {
    pub(crate) hand: Arc<Hand>,
    /// Where partitions begin that nobody has read, as of when the member joined. Those that are newer begin at their
    /// beginning, wherever the group began: everything in them came later.
    pub(crate) starts: HashMap<Place, i64>,
    pub(crate) answer_max: Duration,
}

impl Sharing {
    fn gain(&self, consumer: &BaseConsumer<Self>, gained: &mut TopicPartitionList) -> KafkaResult<()> {
        let starts = self.starts_of(consumer, gained)?;
        for ((topic, partition), start) in starts.to_topic_map() {
            gained.set_partition_offset(&topic, partition, start)?;
        }
        self.hand.gain(places(gained).into_iter().collect());
        match consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => consumer.incremental_assign(gained)?,
            RebalanceProtocol::None | RebalanceProtocol::Eager => consumer.assign(gained)?,
        }
        if starts.count() > 0 {
            consumer.commit(&starts, CommitMode::Async)?;
        }
        Ok(())
    }

    /// Where to begin in those that have no offset yet.
    fn starts_of(&self, consumer: &BaseConsumer<Self>, gained: &TopicPartitionList) -> KafkaResult<TopicPartitionList> {
        let mut starts = TopicPartitionList::new();
        if gained.count() == 0 {
            return Ok(starts);
        }
        let committed = committed(consumer, gained, self.answer_max)?;
        for (place, offset) in committed.to_topic_map() {
            if offset != Offset::Invalid {
                continue;
            }
            let start = match self.starts.get(&place) {
                Some(start) => *start,
                None => consumer.fetch_watermarks(&place.0, place.1, self.answer_max)?.0,
            };
            starts.add_partition_offset(&place.0, place.1, Offset::Offset(start))?;
        }
        Ok(starts)
    }

    fn lose(&self, consumer: &BaseConsumer<Self>, lost: &TopicPartitionList) -> KafkaResult<()> {
        // Who was thrown out has nothing to finish: others are at it already.
        let patience = if consumer.assignment_lost() {
            Duration::ZERO
        } else {
            FINISH_MAX
        };
        self.hand.lose(&places(lost), patience);
        match consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => consumer.incremental_unassign(lost),
            RebalanceProtocol::None | RebalanceProtocol::Eager => consumer.unassign(),
        }
    }
}

impl ConsumerContext for Sharing {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, event: RDKafkaRespErr, partitions: &mut TopicPartitionList) {
        tracing::debug!(?event, ?partitions, "sharing out");
        let result = if event == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            self.gain(consumer, partitions)
        } else {
            self.lose(consumer, partitions)
        };
        if let Err(source) = result {
            self.hand.fail(failed("share out a group", source));
        }
    }
}

impl ClientContext for Sharing {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, words: &str) {
        if matches!(level, RDKafkaLogLevel::Warning) && facility == LOST {
            tracing::warn!(
                words,
                "an offset is not in its topic any more; the group goes on elsewhere"
            );
        } else {
            Voice.log(level, facility, words);
        }
    }

    fn error(&self, error: KafkaError, words: &str) {
        Voice.error(error, words);
    }
}

fn places(partitions: &TopicPartitionList) -> HashSet<Place> {
    partitions.to_topic_map().into_keys().collect()
}
