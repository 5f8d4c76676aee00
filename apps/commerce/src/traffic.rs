//! Generated customers, so that a demo shows events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use postroom::{Job, Outbox, Result, table};
use postroom_host::Problem;
use sea_orm::DatabaseConnection;

use crate::domain::{Fact, Refusal};
use crate::events;
use crate::handlers::{self, Failure};

/// Order numbers of stray payments start here. Real orders never reach this number.
const STRAYS_FROM: i64 = 900_000_000;

/// A job that makes one visit to the shop about every second. Most visits succeed. Some order more than the stock, and some
/// payments name an order that does not exist and become dead letters. A host adds the job to [`crate::module`] when it wants
/// traffic.
pub fn traffic() -> Job {
    let visits = Arc::new(AtomicU64::new(0));
    Job::every("commerce-traffic", Duration::from_secs(1), move |outbox| {
        let number = visits.fetch_add(1, Ordering::Relaxed);
        visit(outbox, i64::try_from(number).unwrap_or_default())
    })
}

/// The `number`-th visit. Every twentieth visit adds a new product, and the following visits use it.
async fn visit(outbox: Arc<dyn Outbox>, number: i64) -> Result<u64> {
    let db = outbox.db();
    if number % 40 == 25 {
        stray_payment(db, STRAYS_FROM + number).await?;
    }
    match shop(db, number).await {
        Ok(()) | Err(Failure::Refused(Refusal::OutOfStock { .. })) => Ok(1),
        Err(Failure::Refused(refusal)) => {
            let problem = Problem::from(refusal);
            tracing::warn!(%problem, "the shop rejected a generated request");
            Ok(0)
        }
        Err(Failure::Failed(error)) => Err(error),
    }
}

async fn shop(db: &DatabaseConnection, number: i64) -> Result<(), Failure> {
    let names = ["lamp", "chair", "book", "teapot", "scarf", "clock"];
    let name = usize::try_from(number / 20)
        .ok()
        .and_then(|day| names.get(day % names.len()));
    if number % 20 == 0 {
        handlers::add_product(db, name.unwrap_or(&"lamp"), 1_000 + number, 8).await?;
    }
    let (product_id, user_id) = (newest(db).await?, 1 + number % 7);
    handlers::view(db, product_id, user_id).await?;
    match number % 4 {
        0 => drop(handlers::like(db, product_id, user_id).await?),
        // The user of the previous like removes it.
        1 if number % 8 == 5 => drop(handlers::unlike(db, product_id, 1 + (number - 1) % 7).await?),
        1 => {}
        _ => {
            let order = handlers::place_order(db, user_id, &[(product_id, 1 + number % 2)]).await?;
            handlers::pay(db, order.order_id, order.amount()).await?;
        }
    }
    Ok(())
}

/// The product that was added last.
async fn newest(db: &DatabaseConnection) -> Result<i64, Failure> {
    let tx = table::begin(db).await?;
    let newest = crate::tables::last_id(&tx, "product").await?;
    tx.commit().await?;
    Ok(newest)
}

/// Emits a payment for an order that does not exist in the shop.
async fn stray_payment(db: &DatabaseConnection, order_id: i64) -> Result<()> {
    let tx = table::begin(db).await?;
    let paid = Fact::OrderPaid {
        order_id,
        payment_id: order_id,
        amount: 1_900,
    };
    events::emit(&tx, vec![paid]).await?;
    tx.commit().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use postroom::{Event, Position};
    use postroom_testkit::fresh;

    use super::*;
    use crate::events::OrderPaidEventV1;

    #[tokio::test]
    async fn a_day_has_sales_refusals_and_stray_payments() {
        let fresh = fresh::sqlite().await;
        crate::module().migrate(&*fresh).await.unwrap();
        for number in 0..80 {
            assert_eq!(visit(fresh.store() as _, number).await.unwrap(), 1, "visit {number}");
        }
        let page = fresh.read(Position::START, 1000).await.unwrap();
        let count = |kind: &str| {
            let kinds = page.entries.iter().map(|entry| entry.event.event_type.as_str());
            kinds.filter(|one| *one == format!("loopers.{kind}.v1")).count()
        };
        assert_eq!(count("product.viewed"), 80);
        assert_eq!(count("stock.depleted"), 4, "of every product the last one is sold");
        assert_eq!((count("like.created"), count("like.canceled")), (20, 10));
        let paid = |event: &Event| {
            event
                .decode::<OrderPaidEventV1>()
                .is_ok_and(|paid| paid.order_id > STRAYS_FROM)
        };
        let stray = page.entries.iter().filter(|entry| paid(&entry.event)).count();
        assert_eq!(stray, 2);
    }
}
