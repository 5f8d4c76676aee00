//! What the shop does: place an order, and what follows from it.

use std::time::Duration;

use postroom::{DomainEvent, Error, ErrorKind, Event, Result, Tx, clock, emit};
use uuid::Uuid;

use crate::domain::Order;
use crate::events::{OrderPlaced, ReceiptWritten};
use crate::tables;

/// A new order's number: short enough to read out, and random.
pub(crate) fn order_id() -> String {
    let (_, low) = Uuid::now_v7().as_u64_pair();
    format!("{:012x}", low & 0xffff_ffff_ffff)
}

/// Places an order: its row and its event commit together, or neither. Answers the event's id.
pub(crate) async fn place(tx: &Tx, order: &Order) -> Result<Uuid> {
    tables::insert_order(tx, order).await?;
    emit(tx, &OrderPlaced::from(order)).await
}

/// `hello-receipts`: every order gets one receipt, however often its event is delivered.
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

/// `hello-flaky`: the courier takes the parcel, and later its receipt. While a parcel is refused, its receipt waits behind
/// it; parcels of other orders go on.
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
