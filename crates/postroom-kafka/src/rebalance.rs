//! Rebalances of a group. A newly assigned partition gets a start offset if the group has none. A partition is released when
//! its messages in flight are acknowledged, or after a timeout.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerContext, RebalanceProtocol};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{Offset, TopicPartitionList};

use crate::assignment::{Assignment, TopicPartition};
use crate::client::LogContext;
use crate::error::failed;
use crate::join::committed_offsets;

/// A revoked partition waits this long for its messages in flight. The other members continue meanwhile.
const REVOKE_TIMEOUT: Duration = Duration::from_secs(20);

/// The facility under which the driver logs an offset reset.
const OFFSET_RESET_FACILITY: &str = "OFFSET";

/// Assigns and revokes a member's partitions. Runs on the polling thread.
#[derive(Debug)]
pub(crate) struct RebalanceContext {
    pub(crate) assignment: Arc<Assignment>,
    /// Start offsets of partitions without a committed offset, taken when the member joined. Partitions added later start at
    /// their oldest message, because all of their messages are newer than the group.
    pub(crate) start_offsets: HashMap<TopicPartition, i64>,
    pub(crate) answer_max: Duration,
}

impl RebalanceContext {
    fn assign(&self, consumer: &BaseConsumer<Self>, assigned: &mut TopicPartitionList) -> KafkaResult<()> {
        let start_offsets = self.missing_start_offsets(consumer, assigned)?;
        for ((topic, partition), start) in start_offsets.to_topic_map() {
            assigned.set_partition_offset(&topic, partition, start)?;
        }
        self.assignment.add(topic_partitions(assigned).into_iter().collect());
        match consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => consumer.incremental_assign(assigned)?,
            RebalanceProtocol::None | RebalanceProtocol::Eager => consumer.assign(assigned)?,
        }
        if start_offsets.count() > 0 {
            consumer.commit(&start_offsets, CommitMode::Async)?;
        }
        Ok(())
    }

    /// Start offsets of assigned partitions that have no committed offset.
    fn missing_start_offsets(
        &self,
        consumer: &BaseConsumer<Self>,
        assigned: &TopicPartitionList,
    ) -> KafkaResult<TopicPartitionList> {
        let mut start_offsets = TopicPartitionList::new();
        if assigned.count() == 0 {
            return Ok(start_offsets);
        }
        let committed = committed_offsets(consumer, assigned, self.answer_max)?;
        for (partition, offset) in committed.to_topic_map() {
            if offset != Offset::Invalid {
                continue;
            }
            let start = match self.start_offsets.get(&partition) {
                Some(start) => *start,
                None => consumer.fetch_watermarks(&partition.0, partition.1, self.answer_max)?.0,
            };
            start_offsets.add_partition_offset(&partition.0, partition.1, Offset::Offset(start))?;
        }
        Ok(start_offsets)
    }

    fn revoke(&self, consumer: &BaseConsumer<Self>, revoked: &TopicPartitionList) -> KafkaResult<()> {
        // A member that the group has removed must not wait: other members process its partitions already.
        let timeout = if consumer.assignment_lost() {
            Duration::ZERO
        } else {
            REVOKE_TIMEOUT
        };
        self.assignment.revoke(&topic_partitions(revoked), timeout);
        match consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => consumer.incremental_unassign(revoked),
            RebalanceProtocol::None | RebalanceProtocol::Eager => consumer.unassign(),
        }
    }
}

impl ConsumerContext for RebalanceContext {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, event: RDKafkaRespErr, partitions: &mut TopicPartitionList) {
        tracing::debug!(?event, ?partitions, "rebalance");
        let result = if event == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            self.assign(consumer, partitions)
        } else {
            self.revoke(consumer, partitions)
        };
        if let Err(source) = result {
            self.assignment.fail(failed("rebalance the group", source));
        }
    }
}

impl ClientContext for RebalanceContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        if matches!(level, RDKafkaLogLevel::Warning) && facility == OFFSET_RESET_FACILITY {
            tracing::warn!(
                text,
                "a committed offset is outside its topic; the group continues at another offset"
            );
        } else {
            LogContext.log(level, facility, text);
        }
    }

    fn error(&self, error: KafkaError, text: &str) {
        LogContext.error(error, text);
    }
}

fn topic_partitions(partitions: &TopicPartitionList) -> HashSet<TopicPartition> {
    partitions.to_topic_map().into_keys().collect()
}
