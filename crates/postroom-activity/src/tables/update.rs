//! Writes a stored event anew, after its mapping has changed.

use postroom::{Error, Result, Tx};
use sea_orm::ConnectionTrait as _;
use sea_orm::sea_query::{Expr, ExprTrait as _, Query};

use super::insert::values;
use super::{COLUMNS, TABLE};
use crate::event::ActivityEvent;

/// Replaces the content of the row with the id of this event. Its number and the time when it was stored stay.
pub(crate) async fn update(tx: &Tx, event: &ActivityEvent) -> Result<()> {
    let mut update = Query::update();
    update
        .table(TABLE)
        .values(COLUMNS.into_iter().zip(values(event, tx.get_database_backend())))
        .and_where(Expr::col("event_id").eq(event.event_id.as_str()));
    let updated = tx.execute(&update).await;
    updated.map_err(|source| Error::db("update an activity event", source))?;
    Ok(())
}
