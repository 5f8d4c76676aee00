//! The tables of users and sessions.

use postroom::{Migration, Result, Tx};
use postroom_host::Problem;

use crate::refusal::Refusal;
use crate::rows::{self, cell};

pub(crate) const MIGRATION: Migration = Migration {
    number: 2,
    name: "identity",
    up: include_str!("../../migrations/0002_identity.up.sql"),
    down: include_str!("../../migrations/0002_identity.down.sql"),
};

const USER: &str = "umbra_user";
const SESSION: &str = "umbra_session";

pub(super) async fn is_known(tx: &Tx, discord_user_id: &str) -> Result<bool> {
    let row = rows::find(tx, USER, ("discord_user_id", discord_user_id)).await?;
    Ok(row.is_some())
}

pub(super) async fn insert_user(tx: &Tx, user_id: &str, discord_user_id: &str) -> Result<()> {
    let row = vec![cell("user_id", user_id), cell("discord_user_id", discord_user_id)];
    rows::insert(tx, USER, row).await
}

pub(super) async fn insert_session(tx: &Tx, session_id: &str, user_id: &str) -> Result<()> {
    let row = vec![cell("session_id", session_id), cell("user_id", user_id)];
    rows::insert(tx, SESSION, row).await
}

/// Checks that a request may name this user. Only for HTTP handlers, not for event handlers of other contexts.
pub(crate) async fn check_registered(tx: &Tx, user_id: &str) -> Result<(), Problem> {
    match rows::lock(tx, USER, ("user_id", user_id)).await? {
        Some(_) => Ok(()),
        None => Err(Refusal::absent("unknown_user", "there is no such user").into()),
    }
}
