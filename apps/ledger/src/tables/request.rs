//! The stored responses by idempotency key.

use postroom::{Result, Tx};
use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Expr, ExprTrait, Query};
use uuid::Uuid;

use super::now_ms;

/// The stored response to a request.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    /// A fingerprint of the command.
    pub(crate) command: String,
    /// The HTTP status.
    pub(crate) status: u16,
    /// The body.
    pub(crate) answer: String,
}

pub(crate) async fn find(tx: &Tx, request_id: Uuid) -> Result<Option<Answered>> {
    let mut select = Query::select();
    select
        .columns(["command", "status", "answer"])
        .from("ledger_request")
        .and_where(Expr::col("request_id").eq(request_id.to_string()));
    let row = tx.query_one(&select).await?;
    row.map(|row| {
        Ok(Answered {
            command: row.try_get("", "command")?,
            status: u16::try_from(row.try_get::<i32>("", "status")?).unwrap_or_default(),
            answer: row.try_get("", "answer")?,
        })
    })
    .transpose()
}

/// Stores a response. A conflict error means that a concurrent request with the same key was committed first.
pub(crate) async fn insert(tx: &Tx, request_id: Uuid, answered: &Answered) -> Result<()> {
    let mut insert = Query::insert();
    insert
        .into_table("ledger_request")
        .columns(["request_id", "command", "status", "answer", "answered_at_ms"])
        .values_panic([
            request_id.to_string().into(),
            answered.command.as_str().into(),
            i32::from(answered.status).into(),
            answered.answer.as_str().into(),
            now_ms().into(),
        ]);
    tx.execute(&insert).await?;
    Ok(())
}

/// Deletes at most `batch` responses that are older than `keep_ms`. Returns their number.
pub(crate) async fn prune(tx: &Tx, keep_ms: i64, batch: u64) -> Result<u64> {
    let mut select = Query::select();
    select
        .column("request_id")
        .from("ledger_request")
        .and_where(Expr::col("answered_at_ms").lt(now_ms() - keep_ms))
        .limit(batch);
    let rows = tx.query_all(&select).await?;
    let ids: Vec<String> = rows
        .iter()
        .map(|row| row.try_get("", "request_id"))
        .collect::<Result<_, _>>()?;
    if ids.is_empty() {
        return Ok(0);
    }
    let mut delete = Query::delete();
    delete
        .from_table("ledger_request")
        .and_where(Expr::col("request_id").is_in(ids));
    Ok(tx.execute(&delete).await?.rows_affected())
}
