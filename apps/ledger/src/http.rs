//! The ledger's HTTP API: commands and queries.

mod change;
mod look;

use axum::Router;
use axum::routing::{get, post};
use postroom_host::Host;

pub(crate) fn routes() -> Router<Host> {
    Router::new()
        .route("/ledger/accounts", post(change::open))
        .route("/ledger/accounts/{account_id}", get(look::account))
        .route("/ledger/accounts/{account_id}/entries", get(look::entries))
        .route("/ledger/accounts/{account_id}/audit", get(look::audit))
        .route("/ledger/accounts/{account_id}/deposits", post(change::deposit))
        .route("/ledger/accounts/{account_id}/withdrawals", post(change::withdraw))
        .route("/ledger/transfers", post(change::transfer))
        .route("/ledger/transactions/{transaction_id}", get(look::transaction))
        .route("/ledger/transactions/{transaction_id}/reversal", post(change::reverse))
        .route("/ledger/balances/{account_id}", get(look::balance))
        .route("/ledger/portfolios/{owner}", get(look::portfolio))
        .route("/ledger/anomalies", get(look::anomalies))
        .route("/ledger/events", get(look::events))
}
