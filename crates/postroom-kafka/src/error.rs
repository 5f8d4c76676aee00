//! Maps errors of the driver to errors of Postroom.

use postroom::{Error, ErrorKind};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

/// An error with the failed operation and the driver's error as its cause.
pub(crate) fn failed(doing: impl Into<String>, source: KafkaError) -> Error {
    Error::caused(kind(&source), doing, source)
}

/// The error code, if there is one.
pub(crate) fn code(error: &KafkaError) -> Option<Code> {
    match error {
        KafkaError::AdminOp(code) => Some(*code),
        other => other.rdkafka_error_code(),
    }
}

/// Whether the broker rejects the message permanently.
pub(crate) fn is_rejection(code: Code) -> bool {
    matches!(
        code,
        Code::MessageSizeTooLarge
            | Code::MessageBatchTooLarge
            | Code::InvalidMessage
            | Code::InvalidMessageSize
            | Code::InvalidRecord
            | Code::InvalidTimestamp
            | Code::UnsupportedForMessageFormat
    )
}

/// Whether the broker refuses the message for a reason that an operator can fix.
pub(crate) fn is_refusal(code: Code) -> bool {
    matches!(
        code,
        Code::UnknownTopic
            | Code::UnknownPartition
            | Code::UnknownTopicOrPartition
            | Code::InvalidTopic
            | Code::TopicAuthorizationFailed
            | Code::PolicyViolation
            | Code::InvalidRequiredAcks
    )
}

/// Whether another producer with the same transactional id has taken over.
pub(crate) fn is_fenced(error: &KafkaError) -> bool {
    matches!(
        code(error),
        Some(Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch)
    )
}

/// Whether a commit failed because of a rebalance of the group.
pub(crate) fn is_rebalancing(error: &KafkaError) -> bool {
    matches!(
        code(error),
        Some(Code::RebalanceInProgress | Code::IllegalGeneration | Code::UnknownMemberId)
    )
}

/// Whether the group has no coordinator now: it moves to another broker, or the cluster has not had a group yet.
pub(crate) fn is_coordinator_unavailable(error: &KafkaError) -> bool {
    matches!(
        code(error),
        Some(Code::NotCoordinator | Code::CoordinatorNotAvailable | Code::CoordinatorLoadInProgress)
    )
}

fn kind(error: &KafkaError) -> ErrorKind {
    let Some(code) = code(error) else {
        return match error {
            KafkaError::ClientConfig(..) | KafkaError::Nul(_) => ErrorKind::Invalid,
            KafkaError::Canceled | KafkaError::NoMessageReceived => ErrorKind::Unavailable,
            _ => ErrorKind::Failed,
        };
    };
    match code {
        Code::UnknownTopic | Code::UnknownTopicOrPartition | Code::UnknownPartition => ErrorKind::NotFound,
        Code::TopicAlreadyExists => ErrorKind::Conflict,
        code if is_rejection(code) || is_refusal(code) => ErrorKind::Invalid,
        _ if is_fenced(error) || is_rebalancing(error) => ErrorKind::Conflict,
        code if is_unavailable(code) => ErrorKind::Unavailable,
        _ => ErrorKind::Failed,
    }
}

fn is_unavailable(code: Code) -> bool {
    matches!(
        code,
        Code::BrokerTransportFailure
            | Code::AllBrokersDown
            | Code::Resolve
            | Code::OperationTimedOut
            | Code::MessageTimedOut
            | Code::RequestTimedOut
            | Code::TimedOutQueue
            | Code::NetworkException
            | Code::BrokerNotAvailable
            | Code::LeaderNotAvailable
            | Code::NotLeaderForPartition
            | Code::NotEnoughReplicas
            | Code::NotEnoughReplicasAfterAppend
            | Code::CoordinatorLoadInProgress
            | Code::CoordinatorNotAvailable
            | Code::NotCoordinator
            | Code::WaitingForCoordinator
            | Code::NotController
            | Code::PurgeQueue
            | Code::PurgeInflight
            | Code::QueueFull
            | Code::InProgress
            | Code::PreviousInProgress
            | Code::Retry
    )
}
