//! A type of event.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Serialize;

use crate::event::DomainEvent;

/// A type of event: its name and version, and the shape of its payload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EventType {
    /// Its name and version, for example `shop.order.paid.v1`.
    pub name: &'static str,
    /// The kind of thing it happens to.
    pub aggregate_type: &'static str,
    /// The JSON Schema (draft 7, all in one piece) of its payload, from the Rust type.
    pub schema: Schema,
}

impl EventType {
    /// The type of a domain event.
    pub fn of<E: DomainEvent + JsonSchema>() -> Self {
        Self {
            name: E::TYPE,
            aggregate_type: E::AGGREGATE_TYPE,
            schema: schema_of::<E>(),
        }
    }

    /// A description: the doc comment of the Rust type.
    pub fn description(&self) -> &str {
        let described = self.schema.get("description").and_then(|text| text.as_str());
        described.unwrap_or_default()
    }

    /// Its version: the number behind `.v`, or 1.
    pub fn version(&self) -> u32 {
        let number = self.name.rsplit_once(".v").and_then(|(_, number)| number.parse().ok());
        number.unwrap_or(1)
    }
}

pub(super) fn schema_of<T: JsonSchema>() -> Schema {
    let in_one_piece = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    in_one_piece.into_generator().into_root_schema_for::<T>()
}
