//! The ledger's HTTP API: commands and queries.

mod change;
mod look;

use postroom_host::{Access, Routes};

pub(crate) fn routes() -> Routes {
    Routes::new(Access::Service)
        .post("/ledger/accounts", change::open)
        .get("/ledger/accounts/{account_id}", look::account)
        .get("/ledger/accounts/{account_id}/entries", look::entries)
        .get("/ledger/accounts/{account_id}/audit", look::audit)
        .post("/ledger/accounts/{account_id}/deposits", change::deposit)
        .post("/ledger/accounts/{account_id}/withdrawals", change::withdraw)
        .post("/ledger/transfers", change::transfer)
        .get("/ledger/transactions/{transaction_id}", look::transaction)
        .post("/ledger/transactions/{transaction_id}/reversal", change::reverse)
        .get("/ledger/balances/{account_id}", look::balance)
        .get("/ledger/portfolios/{owner}", look::portfolio)
        .get("/ledger/anomalies", look::anomalies)
        .get("/ledger/events", look::events)
}
