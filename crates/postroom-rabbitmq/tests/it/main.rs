//! The suites of brokers and destinations on a real RabbitMQ, and what only RabbitMQ does.

mod alarm;
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
