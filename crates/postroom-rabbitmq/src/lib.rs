//! Postroom's broker on RabbitMQ.
