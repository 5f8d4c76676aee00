//! How a route is fed, as its cursor's row records it: by which broker, and how far that broker has brought everything.
//!
//! A route that changes its feed reads the log in between, from the first entry that it may not have handled to the end, so
//! that nothing is lost that one feed no longer brings and the other does not bring yet.

use sea_orm::sea_query::{Expr, ExprTrait, Query, UpdateStatement};
use sea_orm::{ConnectionTrait, QueryResult};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::event::entry::{Entry, Position};
use crate::route::{Route, Source};
use crate::state::cursor::{self, Shard};
use crate::store::outbox::Outbox;
use crate::store::table::{self, Table};
use crate::store::tx::Tx;

/// When a route is set back, its parked rows and letters get numbers below every number that comes later, in their old order. Each
/// time they move to a range of their own, above that of the time before.
const RANGE: i64 = 1 << 53;
/// Where the lowest range begins.
const LOWEST: i64 = -(1 << 62);

/// Stands before the mark while the group of a new route has not joined its broker yet.
const JOINS: &str = "joins ";

/// How a broker feeds a route.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Feeding {
    /// Changes whenever the broker, the topics, the types or the publishers change.
    pub(crate) mark: String,
    /// The routes of this relay that publish to the topics.
    pub(crate) publishers: Vec<String>,
}

impl Feeding {
    /// How this route is fed; `None` when it reads the log alone.
    pub(crate) fn of(route: &Route, routes: &[Route]) -> Option<Self> {
        let Source::Broker {
            broker, topics, brings, ..
        } = &route.from
        else {
            return None;
        };
        let mut publishers: Vec<String> = routes
            .iter()
            .filter(|other| other.awaits.contains(&route.name))
            .map(|other| other.name.clone())
            .collect();
        publishers.sort();
        let (name, types) = (broker.name(), brings.relevant_to(&route.filter));
        let all = [
            &[name.clone(), route.filter.to_string()],
            topics.as_slice(),
            &types,
            &publishers,
        ]
        .map(|part| part.join(" "))
        .join("\n");
        let digest = Uuid::new_v5(&Uuid::NAMESPACE_URL, all.as_bytes()).simple();
        let name: String = name.chars().take(100).collect();
        Some(Self {
            mark: format!("{name} {digest}"),
            publishers,
        })
    }
}

/// The feed of a route, as the cursor's row has it.
#[derive(Debug)]
pub(crate) struct Fed {
    /// The mark of the broker that feeds the route; `None` while it reads the log.
    pub(crate) by: Option<String>,
    /// While a broker feeds the route: everything that the route wants up to here is handled or kept by it. Otherwise: up to
    /// here the log may hold what a broker brought before.
    pub(crate) handled_to: Option<Position>,
}

impl Fed {
    /// Whether a broker with this mark feeds the route, or will as soon as its group has joined.
    pub(crate) fn is_by(&self, mark: &str) -> bool {
        let by = self.by.as_deref().unwrap_or_default();
        by.strip_prefix(JOINS).unwrap_or(by) == mark
    }
}

pub(crate) async fn read(tx: &Tx, shard: &Shard) -> Result<Fed> {
    let mut select = Query::select();
    select
        .columns(["fed_by", "handled_to"])
        .from(table::named(tx, Table::Cursor))
        .and_where(cursor::at(shard));
    let row = tx.query_one(&select).await;
    let row = row.map_err(|source| Error::db("read how a route is fed", source))?;
    let row = row.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("route {:?} has no cursor", shard.route)))?;
    let handled_to: Option<String> = row.try_get("", "handled_to")?;
    Ok(Fed {
        by: row.try_get("", "fed_by")?,
        handled_to: handled_to.map(|position| position.parse()).transpose()?,
    })
}

/// From where a route may still have to read the log for events that it has handled already.
#[derive(Debug)]
pub(crate) struct OpenPlace {
    pub(crate) route: String,
    pub(crate) position: Position,
    /// Whether a broker feeds the route now. Otherwise one fed it before.
    pub(crate) is_fed: bool,
}

pub(crate) async fn open_places(tx: &Tx) -> Result<Vec<OpenPlace>> {
    let mut select = Query::select();
    select
        .columns(["route", "position", "handled_to", "fed_by"])
        .from(table::named(tx, Table::Cursor))
        .and_where(Expr::col("handled_to").is_not_null());
    let rows = tx.query_all(&select).await;
    let rows = rows.map_err(|source| Error::db("read from where routes may read the log again", source))?;
    let place = |row: &QueryResult| {
        let is_fed = row.try_get::<Option<String>>("", "fed_by")?.is_some();
        let column = if is_fed { "handled_to" } else { "position" };
        Ok(OpenPlace {
            route: row.try_get("", "route")?,
            position: row.try_get::<String>("", column)?.parse()?,
            is_fed,
        })
    };
    rows.iter().map(place).collect()
}

/// The first entry after a position.
pub(crate) async fn first_after(outbox: &dyn Outbox, mut after: Position) -> Result<Option<Entry>> {
    loop {
        let page = outbox.read(after, 1).await?;
        match page.entries.first() {
            Some(entry) => return Ok(Some(entry.clone())),
            None if page.next == after => return Ok(None),
            None => after = page.next,
        }
    }
}

/// When the first entry was written that a route may still have to read in the log. All entries behind it were handled later than
/// that, because they could be read only after it.
pub(crate) async fn oldest_open(outbox: &dyn Outbox) -> Result<Option<OffsetDateTime>> {
    let tx = table::look(outbox.db()).await?;
    let places = open_places(&tx).await?;
    tx.commit().await?;
    let mut oldest: Option<OffsetDateTime> = None;
    for place in places {
        let first = first_after(outbox, place.position).await?;
        oldest = oldest.into_iter().chain(first.map(|entry| entry.created_at)).min();
    }
    Ok(oldest)
}

/// Lets a broker feed a route that is new, as are the routes that publish to it: there is nothing to read in the log. They wait
/// for its group to join.
pub(crate) async fn begin(tx: &Tx, route: &str, mark: &str) -> Result<()> {
    let mut update = changing(tx, &first_shard(route));
    update
        .value("fed_by", format!("{JOINS}{mark}"))
        .value("handled_to", Expr::col("position"))
        .and_where(Expr::col("epoch").eq(0));
    run(tx, &update).await?;
    Ok(())
}

/// Notes that the group of a route has joined its broker, which keeps everything for it from now on.
pub(crate) async fn joined(tx: &Tx, shard: &Shard, mark: &str) -> Result<()> {
    let mut update = changing(tx, shard);
    update
        .value("fed_by", mark)
        .and_where(Expr::col("fed_by").eq(format!("{JOINS}{mark}")));
    run(tx, &update).await?;
    Ok(())
}

/// Whether the group of a route may not have joined its broker yet, which keeps nothing for it until then.
pub(crate) async fn is_joining(tx: &Tx, route: &str) -> Result<bool> {
    let fed = read(tx, &first_shard(route)).await?;
    Ok(fed.by.is_none_or(|by| by.starts_with(JOINS)))
}

/// Lets a route whose group has not joined yet read the log from its beginning, until its group can join: then nobody has to
/// wait for the group.
pub(crate) async fn read_the_log_meanwhile(tx: &Tx, route: &str) -> Result<()> {
    let mut update = changing(tx, &first_shard(route));
    update
        .value("position", Expr::col("handled_to"))
        .value("handled_to", Option::<String>::None)
        .value("fed_by", Option::<String>::None)
        .and_where(Expr::col("fed_by").like(format!("{JOINS}%")));
    run(tx, &update).await?;
    cursor::signal(tx, route).await
}

/// A route that a broker feeds has one shard.
fn first_shard(route: &str) -> Shard {
    Shard {
        route: route.to_owned(),
        number: 0,
    }
}

/// Lets a broker feed a route from now on. The caller holds the lease and has written the cursor in this transaction.
pub(crate) async fn hand_over(tx: &Tx, shard: &Shard, mark: &str, position: Position) -> Result<()> {
    let mut update = changing(tx, shard);
    update.value("fed_by", mark).value("handled_to", position.to_string());
    run(tx, &update).await?;
    cursor::signal(tx, &shard.route).await
}

/// Lets a route read the log again, from the first entry that its broker may not have brought; `head` is the end of the log now.
/// Parked rows of the route come before that. The caller has locked the row under its lease.
pub(crate) async fn set_back(tx: &Tx, shard: &Shard, from: Position, head: Position) -> Result<()> {
    let mut update = changing(tx, shard);
    update
        .value("position", from.to_string())
        .value("handled_to", head.to_string())
        .value("fed_by", Option::<String>::None);
    run(tx, &update).await?;
    let by = next_range(tx, &shard.route).await?;
    for table in [Table::Parked, Table::Failed] {
        let mut renumber = Query::update();
        renumber
            .table(table::named(tx, table))
            .value("id", Expr::col("id").add(by))
            .and_where(Expr::col("route").eq(shard.route.as_str()))
            .and_where(Expr::col("id").gte(0));
        run(tx, &renumber).await?;
    }
    cursor::signal(tx, &shard.route).await
}

/// The beginning of the first range above those that rows of the route have been moved to.
async fn next_range(tx: &Tx, route: &str) -> Result<i64> {
    let mut next = LOWEST;
    for table in [Table::Parked, Table::Failed] {
        let mut select = Query::select();
        select
            .expr_as(Expr::cust("max(id)"), "last")
            .from(table::named(tx, table))
            .and_where(Expr::col("route").eq(route))
            .and_where(Expr::col("id").lt(LOWEST / 2)); // above are rows that made room for others
        let row = tx.query_one(&select).await;
        let row = row.map_err(|source| Error::db("look which numbers are taken", source))?;
        let last: Option<i64> = row.map(|row| row.try_get("", "last")).transpose()?.flatten();
        if let Some(last) = last {
            next = Ord::max(next, last - (last - LOWEST) % RANGE + RANGE);
        }
    }
    Ok(next)
}

/// The writer of `handled_to`: its lease, and the server that it read the log from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder<'a> {
    pub(crate) epoch: i64,
    pub(crate) server: &'a str,
}

/// Notes that everything up to `to` is handled or kept, if this lease still holds the route on the same server.
pub(crate) async fn note_handled(
    tx: &Tx,
    shard: &Shard,
    (holder, mark): (Holder<'_>, &str),
    (from, to): (Position, Position),
) -> Result<()> {
    let mut update = held(tx, shard, holder);
    update
        .value("handled_to", to.to_string())
        .and_where(Expr::col("handled_to").eq(from.to_string()))
        .and_where(Expr::col("fed_by").is_in([mark.to_owned(), format!("{JOINS}{mark}")]));
    must_run(tx, shard, &update).await
}

/// Notes that the log holds nothing any more that a broker brought before.
pub(crate) async fn forget_before(tx: &Tx, shard: &Shard, holder: Holder<'_>) -> Result<()> {
    let mut update = held(tx, shard, holder);
    update
        .value("handled_to", Option::<String>::None)
        .and_where(Expr::col("fed_by").is_null());
    must_run(tx, shard, &update).await
}

fn held(tx: &Tx, shard: &Shard, holder: Holder<'_>) -> UpdateStatement {
    let mut update = changing(tx, shard);
    update
        .and_where(Expr::col("epoch").eq(holder.epoch))
        .and_where(table::server(tx.get_database_backend()).eq(holder.server));
    update
}

/// Runs an update that finds its row unless the lease, the feed or the server has changed.
async fn must_run(tx: &Tx, shard: &Shard, update: &UpdateStatement) -> Result<()> {
    match run(tx, update).await? {
        0 => Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "how route {:?} is fed has changed; loading its state again",
                shard.route
            ),
        )),
        _ => Ok(()),
    }
}

/// Counts what a broker has brought, and fences the transaction: it fails when the route is fed in another way by now.
pub(crate) async fn count(tx: &Tx, shard: &Shard, mark: &str, delivered: u64) -> Result<()> {
    let mut update = changing(tx, shard);
    update
        .value("delivered", cursor::plus(delivered))
        .and_where(Expr::col("fed_by").eq(mark));
    match run(tx, &update).await? {
        0 => Err(Error::new(
            ErrorKind::Deposed,
            format!(
                "route {:?} is not fed by this broker any more: another process has changed that",
                shard.route
            ),
        )),
        _ => Ok(()),
    }
}

fn changing(tx: &Tx, shard: &Shard) -> UpdateStatement {
    let mut update = Query::update();
    update
        .table(table::named(tx, Table::Cursor))
        .and_where(cursor::at(shard));
    update
}

async fn run(tx: &Tx, update: &UpdateStatement) -> Result<u64> {
    let done = tx.execute(update).await;
    let done = done.map_err(|source| Error::db("write how a route is fed", source))?;
    Ok(done.rows_affected())
}
