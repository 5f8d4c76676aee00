//! Users register and sign in.

use postroom::{Result, Tx, emit};
use postroom_host::Problem;

use super::events::{UserRegistered, UserSessionCreated};
use super::tables;
use crate::door::new_id;
use crate::refusal::Refusal;

pub(crate) async fn register(tx: &Tx, discord_user_id: &str) -> Result<String, Problem> {
    if tables::is_known(tx, discord_user_id).await? {
        return Err(Refusal::conflict("already_registered", "this Discord user is registered").into());
    }
    let user_id = new_id();
    tables::insert_user(tx, &user_id, discord_user_id).await?;
    let registered = UserRegistered {
        user_id: user_id.clone(),
        discord_user_id: discord_user_id.to_owned(),
    };
    emit(tx, &registered).await?;
    Ok(user_id)
}

pub(super) async fn create_session(tx: &Tx, user_id: &str) -> Result<String> {
    let session_id = new_id();
    tables::insert_session(tx, &session_id, user_id).await?;
    let created = UserSessionCreated {
        user_id: user_id.to_owned(),
        session_id: session_id.clone(),
    };
    emit(tx, &created).await?;
    Ok(session_id)
}
