//! A private RabbitMQ server, for tests that take it away.
