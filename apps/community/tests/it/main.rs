//! Tests of the community: on every database, directly from the outbox and through RabbitMQ with Redis.

mod broken;
mod browser;
mod chaos;
mod chat;
mod count;
mod deaf;
mod guide;
mod inbox;
mod migrate;
mod notify;
mod resume;
mod world;
