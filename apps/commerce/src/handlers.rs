//! What people do in the shop, each in one transaction with its events, and what the consumers make of the events.

use std::collections::BTreeMap;
use std::sync::Arc;

use postroom::{BoxError, Error, ErrorKind, Event, Handler, Result, Tx, table};
use sea_orm::{DatabaseConnection, DbErr};
use uuid::Uuid;

use crate::cache::ProductCache;
use crate::domain::{Fact, Order, Product, Refusal, check_lines, check_user};
use crate::events::{self, OrderPaidEventV1, ProductViewedEventV1, StockDepletedEventV1};
use crate::tables::{self, Metric};

/// Why something was not done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The shop's rules are against it.
    Refused(Refusal),
    /// The store is.
    Failed(Error),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<DbErr> for Failure {
    fn from(error: DbErr) -> Self {
        Self::Failed(error.into())
    }
}

pub(crate) async fn add_product(
    db: &DatabaseConnection,
    name: &str,
    price: i64,
    stock: i64,
) -> Result<Product, Failure> {
    let tx = table::begin(db).await?;
    let product = Product::new(tables::next_id(&tx, "product").await?, name, price, stock)?;
    tables::insert_product(&tx, &product).await?;
    tx.commit().await?;
    Ok(product)
}

/// Whether the like is new; one that was there already is no second one.
pub(crate) async fn like(db: &DatabaseConnection, product_id: i64, user_id: i64) -> Result<bool, Failure> {
    let tx = begin_for(db, product_id, user_id).await?;
    match tables::insert_like(&tx, product_id, user_id).await {
        Err(error) if error.kind() == ErrorKind::Conflict => return Ok(false),
        inserted => inserted?,
    }
    events::emit(&tx, vec![Fact::LikeCreated { user_id, product_id }]).await?;
    tx.commit().await?;
    Ok(true)
}

/// Whether there was a like to take back.
pub(crate) async fn unlike(db: &DatabaseConnection, product_id: i64, user_id: i64) -> Result<bool, Failure> {
    let tx = begin_for(db, product_id, user_id).await?;
    if !tables::delete_like(&tx, product_id, user_id).await? {
        return Ok(false);
    }
    events::emit(&tx, vec![Fact::LikeCanceled { user_id, product_id }]).await?;
    tx.commit().await?;
    Ok(true)
}

/// Nothing changes but that somebody looked: the event is all there is of it.
pub(crate) async fn view(db: &DatabaseConnection, product_id: i64, user_id: i64) -> Result<Option<Uuid>, Failure> {
    let tx = begin_for(db, product_id, user_id).await?;
    let event_id = events::emit(&tx, vec![Fact::ProductViewed { product_id, user_id }]).await?;
    tx.commit().await?;
    Ok(event_id)
}

/// A transaction about a product that there is and somebody that there may be.
async fn begin_for(db: &DatabaseConnection, product_id: i64, user_id: i64) -> Result<Tx, Failure> {
    check_user(user_id)?;
    let tx = table::begin(db).await?;
    if tables::products(&tx, &[product_id]).await?.is_empty() {
        return Err(Refusal::UnknownProduct(product_id).into());
    }
    Ok(tx)
}

pub(crate) async fn place_order(
    db: &DatabaseConnection,
    user_id: i64,
    wanted: &[(i64, i64)],
) -> Result<Order, Failure> {
    check_lines(wanted)?; // before all of them are looked up at once
    let tx = table::begin(db).await?;
    let ids: Vec<i64> = wanted.iter().map(|(product_id, _)| *product_id).collect();
    let products = tables::products(&tx, &ids).await?;
    let order = Order::new(tables::next_id(&tx, "order").await?, user_id, wanted, &products)?;
    tables::insert_order(&tx, &order).await?;
    tx.commit().await?;
    Ok(order)
}

/// Pays an order: the payment, the stock and the events commit together, or nothing of them. The order and its products are
/// locked first, so that nothing is paid or sold twice. Answers the paid order and the id of its event.
pub(crate) async fn pay(db: &DatabaseConnection, order_id: i64, amount: i64) -> Result<(Order, Option<Uuid>), Failure> {
    let tx = table::begin(db).await?;
    let order = tables::order_to_pay(&tx, order_id).await?;
    let mut order = order.ok_or(Refusal::UnknownOrder(order_id))?;
    let ids: Vec<i64> = order.lines.iter().map(|line| line.product_id).collect();
    let products = tables::products_to_sell(&tx, &ids).await?;
    let mut shelf: BTreeMap<i64, Product> = products.into_iter().map(|one| (one.product_id, one)).collect();
    let facts = order.pay(tables::next_id(&tx, "payment").await?, amount, &mut shelf)?;
    tables::set_paid(&tx, &order).await?;
    for product in shelf.values() {
        tables::set_stock(&tx, product).await?;
    }
    let event_id = events::emit(&tx, facts).await?;
    tx.commit().await?;
    Ok((order, event_id))
}

/// `commerce-likes`: an event says whose likes have changed, and the number is taken from the likes themselves. So it is right
/// in the end however often and in whatever order events come; a product that comes several times in a batch is counted once.
pub(crate) async fn count_likes(tx: &mut Tx, events: &[&Event]) -> Result<()> {
    let mut product_ids = Vec::with_capacity(events.len());
    for event in events {
        product_ids.push(event.decode::<Liked>()?.product_id);
    }
    tables::recount_likes(tx, product_ids.into_iter()).await
}

/// What both events of a like have in common.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Liked {
    product_id: i64,
}

/// `commerce-sales`: the event of a paid order does not say what was sold; the order's own lines do.
pub(crate) async fn count_sales(tx: &mut Tx, events: &[&Event]) -> Result<()> {
    let mut sold = BTreeMap::new();
    for event in events {
        let paid: OrderPaidEventV1 = event.decode()?;
        let order = tables::order(tx, paid.order_id).await?;
        let order = order.ok_or_else(|| {
            let says = format!("order {} was paid, but the shop does not have it", paid.order_id);
            Error::new(ErrorKind::Failed, says)
        })?;
        for line in order.lines {
            *sold.entry(line.product_id).or_default() += line.quantity;
        }
    }
    tables::add(tx, Metric::Sales, &sold).await
}

/// `commerce-views`.
pub(crate) async fn count_views(tx: &mut Tx, events: &[&Event]) -> Result<()> {
    let mut viewed = BTreeMap::new();
    for event in events {
        let view: ProductViewedEventV1 = event.decode()?;
        *viewed.entry(view.product_id).or_default() += 1;
    }
    tables::add(tx, Metric::Views, &viewed).await
}

/// `commerce-stock`: what is kept of a product that is sold out is forgotten. The event came after the sale had committed, so
/// whoever reads from now on sees it.
#[derive(Debug)]
pub(crate) struct Invalidate(pub(crate) Arc<dyn ProductCache>);

impl Handler for Invalidate {
    async fn handle(&self, _tx: &mut Tx, event: &Event) -> Result<(), BoxError> {
        let depleted: StockDepletedEventV1 = event.decode()?;
        self.0.forget(depleted.product_id).await;
        tracing::debug!(
            product = depleted.product_id,
            "the stock is depleted; forgot what was cached"
        );
        Ok(())
    }
}
