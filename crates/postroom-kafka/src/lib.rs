//! Postroom's broker on Apache Kafka.
