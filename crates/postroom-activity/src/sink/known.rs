//! Sinks that processes of this store have: their routes are in the store from the first start of such a process until they are
//! forgotten. A process that stores events may have none of them itself.

use postroom::table::{self, Table};
use postroom::{Error, Result, Tx};
use sea_orm::ConnectionTrait as _;
use sea_orm::sea_query::{Cond, Expr, ExprTrait as _, Query};

use super::route_name;
use crate::settings::GROUP;
use crate::{MAP, NAME};

/// Whether any process has a sink.
pub(crate) async fn is_any(tx: &Tx) -> Result<bool> {
    is_route(tx, Cond::all().add(Expr::col("route").like(route_name("%")))).await
}

/// Whether any process has this one.
pub(crate) async fn is_known(tx: &Tx, sink_type: &str) -> Result<bool> {
    is_route(tx, Cond::all().add(Expr::col("route").eq(route_name(sink_type)))).await
}

async fn is_route(tx: &Tx, condition: Cond) -> Result<bool> {
    // The module's other routes: its subscribers, and the one that it has when it is switched off.
    let others = [MAP.to_owned(), GROUP.to_owned(), format!("{NAME}-off")];
    let mut select = Query::select();
    select
        .column("route")
        .from(table::named(tx, Table::Cursor))
        .cond_where(condition)
        .and_where(Expr::col("route").is_not_in(others))
        .limit(1);
    let row = tx.query_one(&select).await;
    Ok(row.map_err(|source| Error::db("look for a sink", source))?.is_some())
}
