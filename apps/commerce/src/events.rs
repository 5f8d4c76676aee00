//! What happens in the shop, as others hear of it: from a fact of the domain to an event with a type, a version and a shape, in
//! the envelope that carries it. Topics follow from the types, as everywhere: `loopers.order.paid.v1` is in `order-events`.

use postroom::{DomainEvent, Event, Result, Tx, append};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::domain::Fact;

/// Which service says so.
pub const SOURCE: &str = "commerce-api";

/// An order was paid, and its products were taken from the stock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrderPaidEventV1 {
    /// The order.
    pub order_id: i64,
    /// The payment.
    pub payment_id: i64,
    /// How much, in minor units of the currency.
    pub amount: i64,
}

impl DomainEvent for OrderPaidEventV1 {
    const TYPE: &'static str = "loopers.order.paid.v1";
    const AGGREGATE_TYPE: &'static str = "Order";

    fn aggregate_id(&self) -> String {
        self.order_id.to_string()
    }
}

/// Somebody likes a product. What one user does to one product stays in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LikeCreatedEventV1 {
    /// Who.
    pub user_id: i64,
    /// What.
    pub product_id: i64,
}

impl DomainEvent for LikeCreatedEventV1 {
    const TYPE: &'static str = "loopers.like.created.v1";
    const AGGREGATE_TYPE: &'static str = "Like";

    fn aggregate_id(&self) -> String {
        self.product_id.to_string()
    }
}

/// Somebody does not like a product any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LikeCanceledEventV1 {
    /// Who.
    pub user_id: i64,
    /// What.
    pub product_id: i64,
}

impl DomainEvent for LikeCanceledEventV1 {
    const TYPE: &'static str = "loopers.like.canceled.v1";
    const AGGREGATE_TYPE: &'static str = "Like";

    fn aggregate_id(&self) -> String {
        self.product_id.to_string()
    }
}

/// Somebody looked at a product.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProductViewedEventV1 {
    /// What.
    pub product_id: i64,
    /// Who.
    pub user_id: i64,
}

impl DomainEvent for ProductViewedEventV1 {
    const TYPE: &'static str = "loopers.product.viewed.v1";
    const AGGREGATE_TYPE: &'static str = "Product";

    fn aggregate_id(&self) -> String {
        self.product_id.to_string()
    }
}

/// The last one of a product was sold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StockDepletedEventV1 {
    /// What.
    pub product_id: i64,
}

impl DomainEvent for StockDepletedEventV1 {
    const TYPE: &'static str = "loopers.stock.depleted.v1";
    const AGGREGATE_TYPE: &'static str = "Stock";

    fn aggregate_id(&self) -> String {
        self.product_id.to_string()
    }
}

/// Emits facts in the transaction that made them true, in their order; answers the id of the first.
pub(crate) async fn emit(tx: &Tx, facts: Vec<Fact>) -> Result<Option<Uuid>> {
    let events: Vec<Event> = facts.into_iter().map(envelope).collect::<Result<_>>()?;
    append(tx, &events).await?;
    Ok(events.first().map(|event| event.id))
}

/// The fact in the envelope that carries it.
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
