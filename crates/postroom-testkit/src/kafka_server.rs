//! A private Kafka server, for tests that take it away.
