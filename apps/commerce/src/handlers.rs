//! Request handlers, each in one transaction with its events, and the handlers of the four subscribers.

use std::collections::BTreeMap;
use std::sync::Arc;

use postroom::{BoxError, Error, ErrorKind, Event, Handler, Result, Tx, table};
use sea_orm::{DatabaseConnection, DbErr};
use uuid::Uuid;

use crate::cache::ProductCache;
use crate::domain::{Fact, Order, Product, Refusal, check_lines, check_user};
use crate::events::{self, OrderPaidEventV1, ProductViewedEventV1, StockDepletedEventV1};
use crate::tables::{self, Metric};

/// The reason why a request was not executed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The request breaks a rule of the shop.
    Refused(Refusal),
    /// The store failed.
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

/// Adds a like. Returns `false` when the like existed before.
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

/// Removes a like. Returns `false` when there was none.
pub(crate) async fn unlike(db: &DatabaseConnection, product_id: i64, user_id: i64) -> Result<bool, Failure> {
    let tx = begin_for(db, product_id, user_id).await?;
    if !tables::delete_like(&tx, product_id, user_id).await? {
        return Ok(false);
    }
    events::emit(&tx, vec![Fact::LikeCanceled { user_id, product_id }]).await?;
    tx.commit().await?;
    Ok(true)
}

/// Emits the view event. A view changes no table.
pub(crate) async fn view(db: &DatabaseConnection, product_id: i64, user_id: i64) -> Result<Option<Uuid>, Failure> {
    let tx = begin_for(db, product_id, user_id).await?;
    let event_id = events::emit(&tx, vec![Fact::ProductViewed { product_id, user_id }]).await?;
    tx.commit().await?;
    Ok(event_id)
}

/// Begins a transaction after checking the user number and that the product exists.
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
    check_lines(wanted)?; // before one query reads all of them
    let tx = table::begin(db).await?;
    let ids: Vec<i64> = wanted.iter().map(|(product_id, _)| *product_id).collect();
    let products = tables::products(&tx, &ids).await?;
    let order = Order::new(tables::next_id(&tx, "order").await?, user_id, wanted, &products)?;
    tables::insert_order(&tx, &order).await?;
    tx.commit().await?;
    Ok(order)
}

/// Pays an order. Payment, stock and events commit together. The order and its products are locked first, so no order is paid
/// twice and no unit is sold twice. Returns the paid order and the id of its event.
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

/// `commerce-likes`: the event only names a product; the number is counted from the likes table. So the result is correct for
/// any order and any repetition of events. A product that appears several times in a batch is counted once.
pub(crate) async fn count_likes(tx: &mut Tx, events: &[&Event]) -> Result<()> {
    let mut product_ids = Vec::with_capacity(events.len());
    for event in events {
        product_ids.push(event.decode::<Liked>()?.product_id);
    }
    tables::recount_likes(tx, product_ids.into_iter()).await
}

/// The common fields of both like events.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Liked {
    product_id: i64,
}

/// `commerce-sales`: `order.paid` carries no products, so the quantities come from the order lines in the database.
pub(crate) async fn count_sales(tx: &mut Tx, events: &[&Event]) -> Result<()> {
    let mut sold = BTreeMap::new();
    for event in events {
        let paid: OrderPaidEventV1 = event.decode()?;
        let order = tables::order(tx, paid.order_id).await?;
        let order = order.ok_or_else(|| {
            let says = format!("order {} was paid but does not exist in the shop", paid.order_id);
            Error::new(ErrorKind::Failed, says)
        })?;
        for line in order.lines {
            *sold.entry(line.product_id).or_default() += line.quantity;
        }
    }
    tables::add(tx, Metric::Sales, &sold).await
}

/// `commerce-views`: adds one for each view event.
pub(crate) async fn count_views(tx: &mut Tx, events: &[&Event]) -> Result<()> {
    let mut viewed = BTreeMap::new();
    for event in events {
        let view: ProductViewedEventV1 = event.decode()?;
        *viewed.entry(view.product_id).or_default() += 1;
    }
    tables::add(tx, Metric::Views, &viewed).await
}

/// `commerce-stock`: removes a sold-out product from the cache. The event is delivered after the sale was committed, so the
/// next read returns the new stock.
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
