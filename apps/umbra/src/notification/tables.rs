//! The tables of addresses and sent notices.

use postroom::{Migration, Result, Tx};
use sea_orm::sea_query::{Expr, ExprTrait};
use serde::Serialize;

use super::domain::Address;
use crate::door::Part;
use crate::rows::{self, cell};

pub(crate) const MIGRATION: Migration = Migration {
    number: 7,
    name: "notification",
    up: include_str!("../../migrations/0007_notification.up.sql"),
    down: include_str!("../../migrations/0007_notification.down.sql"),
};

const ADDRESS: &str = "umbra_address";
const NOTICE: &str = "umbra_notice";
/// Maximum length of a chain of addresses: licence, guild, user.
const STEPS_MAX: usize = 4;

/// A sent notice.
#[derive(Debug, Serialize)]
pub(super) struct Notice {
    pub(super) event_id: String,
    pub(super) user_id: String,
    pub(super) content: String,
    /// `delivered`, or `closed` when the user accepts no messages.
    pub(super) status: String,
}

/// Stores the target of an address. An older event than the stored one changes nothing.
pub(super) async fn learn(tx: &Tx, from: &Address, to: &Address, mark: &str) -> Result<()> {
    let cells = vec![cell("leads_to", to.as_str()), cell("event_id", mark)];
    if rows::lock(tx, ADDRESS, ("address", from.as_str())).await?.is_none() {
        let mut row = cells;
        row.push(cell("address", from.as_str()));
        return rows::insert(tx, ADDRESS, row).await;
    }
    let is_older = Expr::col("address")
        .eq(from.as_str())
        .and(Expr::col("event_id").lt(mark));
    rows::change(tx, ADDRESS, cells, is_older).await?;
    Ok(())
}

/// Follows an address to its user, if there is one.
pub(super) async fn user_at(tx: &Tx, mut address: Address) -> Result<Option<String>> {
    for _ in 0..STEPS_MAX {
        if let Some(user_id) = address.user_id() {
            return Ok(Some(user_id.to_owned()));
        }
        let Some(row) = rows::find(tx, ADDRESS, ("address", address.as_str())).await? else {
            return Ok(None);
        };
        address = Address::from_text(row.try_get("", "leads_to")?);
    }
    Ok(None)
}

pub(super) async fn is_sent(tx: &Tx, event_id: &str) -> Result<bool> {
    Ok(rows::find(tx, NOTICE, ("event_id", event_id)).await?.is_some())
}

pub(super) async fn insert(tx: &Tx, notice: &Notice) -> Result<()> {
    let row = vec![
        cell("event_id", notice.event_id.as_str()),
        cell("user_id", notice.user_id.as_str()),
        cell("content", notice.content.as_str()),
        cell("status", notice.status.as_str()),
    ];
    rows::insert(tx, NOTICE, row).await
}

/// One page of the notices of a user, oldest first.
pub(super) async fn of_user(tx: &Tx, user_id: &str, part: &Part) -> Result<Vec<Notice>> {
    let rows = rows::page(tx, NOTICE, Expr::col("user_id").eq(user_id), ("event_id", part)).await?;
    rows.into_iter()
        .map(|row| {
            Ok(Notice {
                event_id: row.try_get("", "event_id")?,
                user_id: row.try_get("", "user_id")?,
                content: row.try_get("", "content")?,
                status: row.try_get("", "status")?,
            })
        })
        .collect()
}
