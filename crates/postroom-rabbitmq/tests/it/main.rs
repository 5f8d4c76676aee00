//! The broker and destination suites on a real RabbitMQ, and tests that are specific to RabbitMQ.

mod alarm;
mod by_type;
mod foreign;
mod group;
mod names;
mod publisher;
mod restart;
mod returned;
mod site;
mod speed;
mod suite;
mod tls;
mod wire;
