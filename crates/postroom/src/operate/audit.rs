//! The operators' log: every act on events, with who did it.

use sea_orm::ConnectionTrait;
use sea_orm::sea_query::Query;

use crate::error::{Error, Result};
use crate::store::table::{self, Table, json_value};
use crate::store::tx::Tx;

/// Writes an act of an operator down, in the transaction that performs it. Modules use it for acts of their own.
pub async fn record(tx: &Tx, actor: &str, action: &str, target: &str, detail: &serde_json::Value) -> Result<()> {
    record_all(tx, actor, action, [(target.to_owned(), detail.clone())]).await
}

/// Writes the same act on several targets down, each with its detail, in one statement.
pub(crate) async fn record_all(
    tx: &Tx,
    actor: &str,
    action: &str,
    targets: impl IntoIterator<Item = (String, serde_json::Value)>,
) -> Result<()> {
    let mut insert = Query::insert();
    insert
        .into_table(table::named(tx, Table::AdminAudit))
        .columns(["actor", "action", "target", "detail"]);
    for (target, detail) in targets {
        insert.values_panic([
            actor.into(),
            action.into(),
            target.into(),
            json_value(tx.get_database_backend(), &detail.to_string()),
        ]);
    }
    tx.execute(&insert)
        .await
        .map_err(|source| Error::db("write the operators' log", source))?;
    Ok(())
}
