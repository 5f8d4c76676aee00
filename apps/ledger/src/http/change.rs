//! Requests that change the ledger. Each one needs an idempotency key.

use axum::extract::{Path, State};
use axum::response::Response;
use postroom_host::{Body, Host, Problem};
use serde::Deserialize;

use crate::command::Command;
use crate::idempotency::{Key, once};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Open {
    owner: String,
    name: String,
    currency: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Amount {
    /// In minor units.
    amount: i64,
    currency: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Transfer {
    from: String,
    to: String,
    /// In minor units.
    amount: i64,
    currency: String,
}

pub(super) async fn open(State(host): State<Host>, key: Key, Body(wanted): Body<Open>) -> Result<Response, Problem> {
    let Open { owner, name, currency } = wanted;
    once(&host, key, &Command::Open { owner, name, currency }).await
}

pub(super) async fn deposit(
    State(host): State<Host>,
    Path(account_id): Path<String>,
    key: Key,
    Body(Amount { amount, currency }): Body<Amount>,
) -> Result<Response, Problem> {
    let command = Command::Deposit {
        account_id,
        amount,
        currency,
    };
    once(&host, key, &command).await
}

pub(super) async fn withdraw(
    State(host): State<Host>,
    Path(account_id): Path<String>,
    key: Key,
    Body(Amount { amount, currency }): Body<Amount>,
) -> Result<Response, Problem> {
    let command = Command::Withdraw {
        account_id,
        amount,
        currency,
    };
    once(&host, key, &command).await
}

pub(super) async fn transfer(
    State(host): State<Host>,
    key: Key,
    Body(wanted): Body<Transfer>,
) -> Result<Response, Problem> {
    let Transfer {
        from,
        to,
        amount,
        currency,
    } = wanted;
    let command = Command::Transfer {
        from,
        to,
        amount,
        currency,
    };
    once(&host, key, &command).await
}

pub(super) async fn reverse(
    State(host): State<Host>,
    Path(transaction_id): Path<String>,
    key: Key,
) -> Result<Response, Problem> {
    once(&host, key, &Command::Reverse { transaction_id }).await
}
