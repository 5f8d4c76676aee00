//! Tests of the community: on every database, directly from the outbox and through RabbitMQ with Redis.

mod chat;
mod count;
mod inbox;
mod notify;
mod resume;
mod world;
