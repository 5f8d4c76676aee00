//! An HTTP client of the ledger.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test harness: a panic fails the test"
)]

use std::io;

use postroom_testkit::client::Answer;
use serde_json::{Value, json};
use uuid::Uuid;

/// The client, with the address of a ledger.
#[derive(Clone, Debug)]
pub(crate) struct Client(pub(crate) postroom_testkit::Client);

impl Client {
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.0.get(path).await
    }

    /// The body of a successful GET.
    pub(crate) async fn look(&self, path: &str) -> Value {
        self.get(path).await.ok()
    }

    /// A request with a new idempotency key.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_as(&Uuid::now_v7().to_string(), path, body).await
    }

    pub(crate) async fn post_as(&self, key: &str, path: &str, body: &Value) -> Answer {
        self.must("POST", path, Some(key), &body.to_string()).await
    }

    /// Opens an account and returns its id.
    pub(crate) async fn open(&self, owner: &str, currency: &str) -> String {
        let wanted = json!({ "owner": owner, "name": "Everyday", "currency": currency });
        let account = self.post("/ledger/accounts", &wanted).await.created();
        account["account_id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn deposit(&self, account: &str, amount: i64) -> Answer {
        let path = format!("/ledger/accounts/{account}/deposits");
        self.post(&path, &json!({ "amount": amount, "currency": "KRW" })).await
    }

    pub(crate) async fn transfer(&self, from: &str, to: &str, amount: i64) -> Answer {
        let wanted = json!({ "from": from, "to": to, "amount": amount, "currency": "KRW" });
        self.post("/ledger/transfers", &wanted).await
    }

    pub(crate) async fn must(&self, method: &str, path: &str, key: Option<&str>, body: &str) -> Answer {
        let answer = self.send(method, path, key, body).await;
        answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    pub(crate) async fn send(&self, method: &str, path: &str, key: Option<&str>, body: &str) -> io::Result<Answer> {
        let key = key.map(|key| ("idempotency-key", key));
        self.0.send(method, path, key.as_slice(), body).await
    }
}
