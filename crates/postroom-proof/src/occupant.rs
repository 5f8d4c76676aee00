//! Finds out who else works in a store, so that a run of `verify` or `bench` neither disturbs others nor is disturbed.

use postroom::table::{self, Table};
use postroom::{Error, ErrorKind, Inspect, Result, operate};
use sea_orm::ConnectionTrait as _;
use sea_orm::sea_query::{Expr, ExprTrait as _, Query};

/// Event types of `bench` begin with this.
pub const BENCH_TYPES: &str = "postroom.bench.";
/// Routes of `bench` begin with this.
pub const BENCH_ROUTES: &str = "bench-";

/// Event types of `verify` and `bench` begin with these.
const TYPES: [&str; 2] = [BENCH_TYPES, "postroom.verify."];
/// Routes of `verify` and `bench` begin with these.
const ROUTES: [&str; 2] = [BENCH_ROUTES, "verify-"];

/// Refuses a store in which others work. `url` is its address without the password.
pub async fn refuse(store: &dyn Inspect, url: &str) -> Result<()> {
    match find(store).await? {
        Some(reason) => Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "{reason} on {url}: a trial would disturb it, and be disturbed. Name another --store, or take --force"
            ),
        )),
        None => Ok(()),
    }
}

/// Describes other work in a store. Leftovers of a killed run do not count.
async fn find(store: &dyn Inspect) -> Result<Option<String>> {
    store.pulse().await?;
    let status = operate::status(store).await?;
    for route in &status.routes {
        if route.is_leased {
            return Ok(Some(format!("a relay works the route {:?}", route.route)));
        }
        let is_of_a_trial = ROUTES.iter().any(|prefix| route.route.starts_with(prefix));
        if !is_of_a_trial {
            let events = operate::counted(route.backlog, "event waits", "events wait");
            let says = format!(
                "the route {:?} is registered, about {events} for it, and it would get the events of the trial",
                route.route
            );
            return Ok(Some(says));
        }
    }
    let has_unread = status.routes.is_empty() && has_events(store).await?;
    Ok(has_unread.then(|| "events wait that no route has read".to_owned()))
}

async fn has_events(store: &dyn Inspect) -> Result<bool> {
    let mut other = Query::select();
    other
        .column("id")
        .from(table::named(store.db(), Table::Outbox))
        .limit(1);
    for prefix in TYPES {
        other.and_where(Expr::col("event_type").not_like(format!("{prefix}%")));
    }
    let found = store.db().query_one(&other).await;
    let found = found.map_err(|source| Error::db("look for other events", source))?;
    Ok(found.is_some())
}
