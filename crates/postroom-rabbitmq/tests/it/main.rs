//! The suites of brokers and destinations on a real RabbitMQ.
