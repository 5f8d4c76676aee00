//! The shop's public events. Each one is a domain fact with a type, a version and a schema, in an envelope. The topic follows
//! from the type: `loopers.order.paid.v1` goes to `order-events`.

use postroom::{DomainEvent, Event, Result, Tx, append};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::domain::Fact;

/// The `source` field of every event of this service.
pub const SOURCE: &str = "commerce-api";

/// An order was paid and its products were taken from the stock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrderPaidEventV1 {
    /// The paid order.
    pub order_id: i64,
    /// The payment.
    pub payment_id: i64,
    /// The paid amount, in minor units of the currency.
    pub amount: i64,
}

impl DomainEvent for OrderPaidEventV1 {
    const TYPE: &'static str = "loopers.order.paid.v1";
    const AGGREGATE_TYPE: &'static str = "Order";

    fn aggregate_id(&self) -> String {
        self.order_id.to_string()
    }
}

/// A user liked a product. The like events of one product stay in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LikeCreatedEventV1 {
    /// The user.
    pub user_id: i64,
    /// The liked product.
    pub product_id: i64,
}

impl DomainEvent for LikeCreatedEventV1 {
    const TYPE: &'static str = "loopers.like.created.v1";
    const AGGREGATE_TYPE: &'static str = "Like";

    fn aggregate_id(&self) -> String {
        self.product_id.to_string()
    }
}

/// A user removed a like from a product.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LikeCanceledEventV1 {
    /// The user.
    pub user_id: i64,
    /// The product.
    pub product_id: i64,
}

impl DomainEvent for LikeCanceledEventV1 {
    const TYPE: &'static str = "loopers.like.canceled.v1";
    const AGGREGATE_TYPE: &'static str = "Like";

    fn aggregate_id(&self) -> String {
        self.product_id.to_string()
    }
}

/// A user viewed a product.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProductViewedEventV1 {
    /// The viewed product.
    pub product_id: i64,
    /// The user.
    pub user_id: i64,
}

impl DomainEvent for ProductViewedEventV1 {
    const TYPE: &'static str = "loopers.product.viewed.v1";
    const AGGREGATE_TYPE: &'static str = "Product";

    fn aggregate_id(&self) -> String {
        self.product_id.to_string()
    }
}

/// The last unit of a product was sold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StockDepletedEventV1 {
    /// The sold-out product.
    pub product_id: i64,
}

impl DomainEvent for StockDepletedEventV1 {
    const TYPE: &'static str = "loopers.stock.depleted.v1";
    const AGGREGATE_TYPE: &'static str = "Stock";

    fn aggregate_id(&self) -> String {
        self.product_id.to_string()
    }
}

/// Emits facts in their order, in the transaction that makes them true. Returns the id of the first event.
pub(crate) async fn emit(tx: &Tx, facts: Vec<Fact>) -> Result<Option<Uuid>> {
    let events: Vec<Event> = facts.into_iter().map(envelope).collect::<Result<_>>()?;
    append(tx, &events).await?;
    Ok(events.first().map(|event| event.id))
}

/// Wraps a fact in an event envelope.
fn envelope(fact: Fact) -> Result<Event> {
    let mut event = match fact {
        Fact::OrderPaid {
            order_id,
            payment_id,
            amount,
        } => Event::of(&OrderPaidEventV1 {
            order_id,
            payment_id,
            amount,
        }),
        Fact::LikeCreated { user_id, product_id } => Event::of(&LikeCreatedEventV1 { user_id, product_id }),
        Fact::LikeCanceled { user_id, product_id } => Event::of(&LikeCanceledEventV1 { user_id, product_id }),
        Fact::ProductViewed { product_id, user_id } => Event::of(&ProductViewedEventV1 { product_id, user_id }),
        Fact::StockDepleted { product_id } => Event::of(&StockDepletedEventV1 { product_id }),
    }?;
    SOURCE.clone_into(&mut event.source);
    Ok(event)
}
