//! Accepting events from producers that cannot emit in a transaction of their own: each id once, however often it is sent.

use sea_orm::DatabaseConnection;

use crate::emit::append;
use crate::error::{ErrorKind, Result};
use crate::event::Event;
use crate::inbox;
use crate::table;

/// How often a transaction is run again that met another one with the same event.
const RERUNS: u32 = 3;

/// Appends those of the events that were not accepted before, all or none; answers how many were new. An id is remembered as
/// long as the inbox keeps its rows.
pub async fn accept(db: &DatabaseConnection, events: &[Event]) -> Result<usize> {
    for event in events {
        event.check()?;
    }
    let mut reruns = 0;
    loop {
        match try_accept(db, events).await {
            Err(error) if error.kind() == ErrorKind::Conflict && reruns < RERUNS => reruns += 1,
            outcome => return outcome,
        }
    }
}

async fn try_accept(db: &DatabaseConnection, events: &[Event]) -> Result<usize> {
    let tx = table::begin_own(db).await?;
    let keys: Vec<String> = events.iter().map(|event| format!("accepted:{}", event.id)).collect();
    let mut known = inbox::known(&tx, &keys).await?;
    let (mut fresh, mut fresh_keys) = (Vec::new(), Vec::new());
    for (event, key) in events.iter().zip(&keys) {
        if known.insert(key.clone()) {
            fresh.push(event.clone());
            fresh_keys.push(key.as_str());
        }
    }
    inbox::record(&tx, &fresh_keys).await?;
    append(&tx, &fresh).await?;
    tx.commit().await?;
    Ok(fresh.len())
}
