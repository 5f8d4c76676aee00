//! The inbox: what members read of their stored notifications, and whether they want to be told at once. It needs the database
//! alone.

mod http;

use std::sync::Arc;

use postroom::{Error, Result, Tx};
use postroom_host::Host;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::attempt::{Attempts, Failure};
use crate::domain::Refusal;
use crate::stream::{self, Position, StreamEvent, UNREAD};
use crate::tables::notification;

pub(crate) use http::routes;

/// Notifications that one transaction marks as read.
const BATCH: u64 = 500;

/// Marks a notification of a member as read; returns how many are unread then. One that was read stays so.
async fn read_one(host: &Host, me: i64, notification_id: i64) -> Result<i64, Failure> {
    let mut attempts = Attempts::begin();
    loop {
        match try_read_one(host, me, notification_id).await {
            Err(failure) if attempts.again(&failure).await => {}
            ended => return ended,
        }
    }
}

async fn try_read_one(host: &Host, me: i64, notification_id: i64) -> Result<i64, Failure> {
    let tx = host.begin().await?;
    let position = stream::lock_one(&tx, me).await?;
    if !notification::exists(&tx, me, notification_id).await? {
        return Err(Refusal::Unknown("notification").into());
    }
    let read = notification::mark_read(&tx, me, &[notification_id]).await?;
    let unread = subtract(&tx, position, read).await?;
    tx.commit().await?;
    Ok(unread)
}

/// Marks every notification of a member as read that is there now; returns how many are unread then.
async fn read_all(host: &Host, me: i64) -> Result<i64, Failure> {
    let newest = notification::list(host.store.db(), me, None, 1).await?;
    let until = newest.first().map_or(0, |newest| newest.notification_id);
    let mut attempts = Attempts::begin();
    loop {
        match try_read_some(host, me, until).await {
            Err(failure) if attempts.again(&failure).await => {}
            Ok((BATCH, _)) => {} // there may be more
            ended => return ended.map(|(_, unread)| unread),
        }
    }
}

async fn try_read_some(host: &Host, me: i64, until: i64) -> Result<(u64, i64), Failure> {
    let tx = host.begin().await?;
    let position = stream::lock_one(&tx, me).await?;
    let ids = notification::unread_until(&tx, me, until, BATCH).await?;
    let read = notification::mark_read(&tx, me, &ids).await?;
    let unread = subtract(&tx, position, read).await?;
    tx.commit().await?;
    Ok((ids.len() as u64, unread))
}

/// Counts these notifications as read, and tells the open connections of the member. The row is locked.
async fn subtract(tx: &Tx, mut position: Position, read: u64) -> Result<i64> {
    if read == 0 {
        return Ok(position.unread);
    }
    position.unread -= i64::try_from(read).unwrap_or(i64::MAX);
    stream::store_one(tx, position).await?;
    let nothing = RawValue::from_string("{}".to_owned()).map_err(Error::from)?;
    let changed = StreamEvent {
        member_id: position.member_id,
        event_id: Uuid::now_v7(),
        name: UNREAD,
        data: Arc::from(nothing),
        is_notification: false,
    };
    stream::append(tx, &[changed]).await?;
    Ok(position.unread)
}

/// Mutes notifications, or unmutes them. They are stored in either case, and chat comes in either case.
async fn set_muted(host: &Host, me: i64, is_muted: bool) -> Result<(), Failure> {
    let mut attempts = Attempts::begin();
    loop {
        match try_set_muted(host, me, is_muted).await {
            Err(failure) if attempts.again(&failure).await => {}
            ended => return ended,
        }
    }
}

async fn try_set_muted(host: &Host, me: i64, is_muted: bool) -> Result<(), Failure> {
    let tx = host.begin().await?;
    let position = stream::lock_one(&tx, me).await?;
    stream::store_one(&tx, Position { is_muted, ..position }).await?;
    Ok(tx.commit().await?)
}
