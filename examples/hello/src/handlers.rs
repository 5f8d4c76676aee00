//! Places orders, and handles the events that follow.

use std::time::Duration;

use postroom::{DomainEvent, Error, ErrorKind, Event, Result, Tx, clock, emit};
use uuid::Uuid;

use crate::domain::Order;
use crate::events::{OrderPlaced, ReceiptWritten};
use crate::tables;

/// A new random order id, short enough to read aloud.
pub(crate) fn order_id() -> String {
    let (_, low) = Uuid::now_v7().as_u64_pair();
    format!("{:012x}", low & 0xffff_ffff_ffff)
}

/// Places an order. Its row and its event commit together. Returns the id of the event.
pub(crate) async fn place(tx: &Tx, order: &Order) -> Result<Uuid> {
    tables::insert_order(tx, order).await?;
    emit(tx, &OrderPlaced::from(order)).await
}

/// `hello-receipts`: writes one receipt for each order, for any number of deliveries of its event.
pub(crate) async fn write_receipt(tx: &mut Tx, event: &Event) -> Result<()> {
    let order = Order::from(event.decode::<OrderPlaced>()?);
    tables::insert_receipt(tx, &order.order_id, &order.receipt()).await?;
    emit(
        tx,
        &ReceiptWritten {
            order_id: order.order_id,
        },
    )
    .await?;
    Ok(())
}

/// `hello-flaky`: hands the parcel and then its receipt to the courier. While the courier rejects a parcel, the receipt of
/// the same order waits behind it. Other orders are not blocked.
pub(crate) async fn hand_to_courier(tx: &mut Tx, event: &Event) -> Result<()> {
    if event.event_type == ReceiptWritten::TYPE {
        return tables::enclose_receipt(tx, &event.aggregate_id).await;
    }
    let order = Order::from(event.decode::<OrderPlaced>()?);
    let waited = Duration::try_from(clock::now() - event.occurred_at).unwrap_or_default();
    order
        .offer_to_courier(waited)
        .map_err(|refusal| Error::new(ErrorKind::Failed, refusal))?;
    tables::insert_parcel(tx, &order.order_id).await
}
