//! The catalogue: what can happen, as others may rely on it.

use schemars::{JsonSchema, Schema, schema_for};
use serde::Serialize;

use crate::event::DomainEvent;

/// A type of event: its name and version, and the shape of its payload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EventType {
    /// Its name and version, for example `shop.order.paid.v1`.
    pub name: &'static str,
    /// The kind of thing it happens to.
    pub aggregate_type: &'static str,
    /// The JSON Schema of its payload, from the Rust type; its description is the type's doc comment.
    pub schema: Schema,
}

impl EventType {
    /// The type of a domain event.
    pub fn of<E: DomainEvent + JsonSchema>() -> Self {
        Self {
            name: E::TYPE,
            aggregate_type: E::AGGREGATE_TYPE,
            schema: schema_for!(E),
        }
    }
}
