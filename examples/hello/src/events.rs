//! The shop's public events.

use postroom::DomainEvent;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::Order;

/// A customer placed an order.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct OrderPlaced {
    /// The order id.
    pub order_id: String,
    /// The customer who placed the order.
    pub customer: String,
    /// The ordered item.
    pub item: String,
    /// The ordered quantity.
    pub quantity: u32,
}

impl DomainEvent for OrderPlaced {
    const TYPE: &'static str = "hello.order.placed.v1";
    const AGGREGATE_TYPE: &'static str = "order";

    fn aggregate_id(&self) -> String {
        self.order_id.clone()
    }
}

/// The till wrote the receipt of an order. The aggregate is the order, so this event comes after `OrderPlaced`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReceiptWritten {
    /// The order id.
    pub order_id: String,
}

impl DomainEvent for ReceiptWritten {
    const TYPE: &'static str = "hello.receipt.written.v1";
    const AGGREGATE_TYPE: &'static str = "order";

    fn aggregate_id(&self) -> String {
        self.order_id.clone()
    }
}

impl From<&Order> for OrderPlaced {
    fn from(order: &Order) -> Self {
        let Order {
            order_id,
            customer,
            item,
            quantity,
        } = order.clone();
        Self {
            order_id,
            customer,
            item,
            quantity,
        }
    }
}

impl From<OrderPlaced> for Order {
    fn from(placed: OrderPlaced) -> Self {
        let OrderPlaced {
            order_id,
            customer,
            item,
            quantity,
        } = placed;
        Self {
            order_id,
            customer,
            item,
            quantity,
        }
    }
}
