//! The counts in the rows of posts.

use std::collections::{BTreeMap, HashMap};

use postroom::{Result, Tx};
use sea_orm::sea_query::{CaseStatement, Expr, ExprTrait, JoinType, Order, Query, SelectStatement};
use sea_orm::{ConnectionTrait, DbBackend};

use super::read::Comments;

const TABLE: &str = "community_post";
/// Posts in one statement.
const POSTS_MAX: usize = 200;

/// A count, and whether the tally still has a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) comments: i64,
    /// The last batch that changed it.
    pub(super) batch_id: Option<i64>,
    /// Whether the tally is known to have none of that batch.
    pub(super) is_settled: bool,
}

/// Adds to a column of these posts, which are locked in the order of their ids.
pub(super) async fn add(tx: &Tx, column: &'static str, sums: &BTreeMap<i64, i64>, batch_id: Option<i64>) -> Result<()> {
    let posts: Vec<i64> = sums.keys().copied().collect();
    for posts in posts.chunks(POSTS_MAX) {
        let of_these = || Expr::col("post_id").is_in(posts.iter().copied());
        let mut lock = Query::select();
        lock.column("post_id")
            .from(TABLE)
            .and_where(of_these())
            .order_by("post_id", Order::Asc)
            .lock_exclusive();
        tx.query_all(&lock).await?;
        let deltas = posts.iter().filter_map(|post| Some((*post, *sums.get(post)?)));
        let by_post = deltas.fold(CaseStatement::new(), |case, (post, delta)| {
            case.case(Expr::col("post_id").eq(post), integer(tx.get_database_backend(), delta))
        });
        let mut update = Query::update();
        update
            .table(TABLE)
            .value(column, Expr::col(column).add(by_post.finally(0)))
            .and_where(of_these());
        if let Some(batch_id) = batch_id {
            update.value("batch_id", batch_id);
        }
        tx.execute(&update).await?;
    }
    Ok(())
}

/// PostgreSQL takes a bound value in a `case` for a text, if nothing says otherwise.
fn integer(backend: DbBackend, value: i64) -> Expr {
    match backend {
        DbBackend::Postgres => Expr::val(value).cast_as("bigint"),
        _ => Expr::val(value),
    }
}

/// The counts of the last flush.
pub(super) async fn counts(db: &impl ConnectionTrait, posts: &[i64]) -> Result<HashMap<i64, Count>> {
    let mut select = Query::select();
    select
        .column((TABLE, "post_id"))
        .column((TABLE, "comment_count"))
        .column((TABLE, "batch_id"))
        .expr_as(Expr::col(("count_batches", "batch_id")), "known_batch")
        .column(("count_batches", "settled_ms"))
        .from(TABLE)
        .join(
            JoinType::LeftJoin,
            "count_batches",
            Expr::col((TABLE, "batch_id")).equals(("count_batches", "batch_id")),
        )
        .and_where(Expr::col((TABLE, "post_id")).is_in(posts.iter().copied()));
    let rows = db.query_all(&select).await?;
    rows.iter()
        .map(|row| {
            // A batch that was pruned was settled long before.
            let known_batch: Option<i64> = row.try_get("", "known_batch")?;
            let settled_ms: Option<i64> = row.try_get("", "settled_ms")?;
            let count = Count {
                comments: row.try_get("", "comment_count")?,
                batch_id: row.try_get("", "batch_id")?,
                is_settled: known_batch.is_none() || settled_ms.is_some(),
            };
            Ok((row.try_get("", "post_id")?, count))
        })
        .collect()
}

/// The counts with the changes that no batch has yet, in one statement: the newest numbers, from the database alone.
pub(super) async fn newest(db: &impl ConnectionTrait, posts: &[i64]) -> Result<HashMap<i64, Comments>> {
    let mut pending = changes(db.get_database_backend());
    pending.and_where(Expr::col(("comment_change", "batch_id")).is_null());
    let mut select = Query::select();
    select
        .columns(["post_id", "comment_count"])
        .expr_as(sum_or_0(pending), "pending")
        .from(TABLE)
        .and_where(Expr::col("post_id").is_in(posts.iter().copied()));
    let rows = db.query_all(&select).await?;
    rows.iter()
        .map(|row| {
            let comments = Comments::of(row.try_get("", "comment_count")?, row.try_get("", "pending")?);
            Ok((row.try_get("", "post_id")?, comments))
        })
        .collect()
}

/// By how much the counts of these posts differ from the sums of their changes.
pub(super) async fn differences(db: &impl ConnectionTrait, posts: &[i64]) -> Result<Vec<(i64, i64)>> {
    let mut claimed = changes(db.get_database_backend());
    claimed.and_where(Expr::col(("comment_change", "batch_id")).is_not_null());
    let counted = Expr::col("comment_base").add(sum_or_0(claimed));
    let mut select = Query::select();
    select
        .column("post_id")
        .expr_as(Expr::col("comment_count").sub(counted), "difference")
        .from(TABLE)
        .and_where(Expr::col("post_id").is_in(posts.iter().copied()));
    let rows = db.query_all(&select).await?;
    rows.iter()
        .map(|row| Ok((row.try_get("", "post_id")?, row.try_get("", "difference")?)))
        .collect()
}

/// The sum of the changes of the post of the outer statement.
fn changes(backend: DbBackend) -> SelectStatement {
    let integer = match backend {
        DbBackend::MySql => "signed",
        _ => "bigint",
    };
    let mut select = Query::select();
    select
        .expr(Expr::col(("comment_change", "delta")).sum().cast_as(integer))
        .from("comment_change")
        .and_where(Expr::col(("comment_change", "post_id")).equals((TABLE, "post_id")));
    select
}

fn sum_or_0(sum: SelectStatement) -> Expr {
    Expr::from(sum).if_null(0)
}

/// Posts that were changed lately, at most `limit`.
pub(super) async fn changed_lately(db: &impl ConnectionTrait, limit: u64) -> Result<Vec<i64>> {
    let mut select = Query::select();
    select
        .column("post_id")
        .from("comment_change")
        .and_where(Expr::col("batch_id").is_not_null())
        .order_by("created_ms", Order::Desc)
        .limit(limit);
    ids(db, &select).await
}

/// Posts with greater ids, at most `limit`.
pub(super) async fn after(db: &impl ConnectionTrait, after: i64, limit: u64) -> Result<Vec<i64>> {
    let mut select = Query::select();
    select
        .column("post_id")
        .from(TABLE)
        .and_where(Expr::col("post_id").gt(after))
        .order_by("post_id", Order::Asc)
        .limit(limit);
    ids(db, &select).await
}

async fn ids(db: &impl ConnectionTrait, select: &SelectStatement) -> Result<Vec<i64>> {
    let rows = db.query_all(select).await?;
    rows.iter().map(|row| Ok(row.try_get("", "post_id")?)).collect()
}
