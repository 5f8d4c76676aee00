//! Votes, their options and ballots.

use std::collections::HashMap;

use postroom::{Result, Tx};
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict, Order, Query, SelectStatement};
use sea_orm::{ConnectionTrait, DbBackend, QueryResult, Statement};

use super::{Texts, insert_row, now_ms};
use crate::domain::NewVote;

/// A vote without its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Vote {
    pub(crate) vote_id: i64,
    pub(crate) author_id: i64,
    pub(crate) question: String,
    pub(crate) closes_ms: i64,
    pub(crate) closed_ms: Option<i64>,
    pub(crate) created_ms: i64,
}

/// An option with its ballots: those of the result, or those until now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) number: i32,
    pub(crate) label: String,
    pub(crate) ballots: i64,
}

pub(crate) async fn insert(tx: &Tx, author_id: i64, vote: &NewVote) -> Result<i64> {
    let mut insert = Query::insert();
    insert
        .into_table("community_vote")
        .columns(["author_id", "question", "closes_ms", "created_ms"])
        .values_panic([
            author_id.into(),
            vote.question.as_str().into(),
            vote.closes_ms.into(),
            now_ms().into(),
        ]);
    let vote_id = insert_row(tx, &mut insert, "vote_id").await?;
    let mut options = Query::insert();
    options
        .into_table("community_vote_option")
        .columns(["vote_id", "option_number", "label"]);
    for (number, label) in (1..).zip(&vote.options) {
        let number: i32 = number;
        options.values_panic([vote_id.into(), number.into(), label.as_str().into()]);
    }
    tx.execute(&options).await?;
    Ok(vote_id)
}

pub(crate) async fn find(db: &impl ConnectionTrait, vote_id: i64) -> Result<Option<Vote>> {
    let row = db.query_one(&select(vote_id)).await?;
    row.map(|row| read(&row)).transpose()
}

/// The vote, which does not close before the transaction ends. Voters do not wait for each other.
pub(crate) async fn find_kept_open(tx: &Tx, vote_id: i64) -> Result<Option<Vote>> {
    let backend = tx.get_database_backend();
    let Statement { mut sql, values, .. } = backend.build(&select(vote_id));
    // MariaDB does not know `for share`. SQLite has one writer at a time.
    sql.push_str(match backend {
        DbBackend::Postgres => " for share",
        DbBackend::MySql => " lock in share mode",
        _ => "",
    });
    let statement = Statement::from_sql_and_values(backend, sql, values.into_iter().flat_map(|values| values.0));
    let row = tx.query_one_raw(statement).await?;
    row.map(|row| read(&row)).transpose()
}

/// The vote, locked: every ballot that was taken is committed, and no other one is taken until the transaction ends.
pub(crate) async fn lock(tx: &Tx, vote_id: i64) -> Result<Option<Vote>> {
    let row = tx.query_one(select(vote_id).lock_exclusive()).await?;
    row.map(|row| read(&row)).transpose()
}

fn select(vote_id: i64) -> SelectStatement {
    let mut select = Query::select();
    select
        .columns([
            "vote_id",
            "author_id",
            "question",
            "closes_ms",
            "closed_ms",
            "created_ms",
        ])
        .from("community_vote")
        .and_where(Expr::col("vote_id").eq(vote_id));
    select
}

fn read(row: &QueryResult) -> Result<Vote> {
    Ok(Vote {
        vote_id: row.try_get("", "vote_id")?,
        author_id: row.try_get("", "author_id")?,
        question: row.try_get("", "question")?,
        closes_ms: row.try_get("", "closes_ms")?,
        closed_ms: row.try_get("", "closed_ms")?,
        created_ms: row.try_get("", "created_ms")?,
    })
}

/// The questions of these votes.
pub(crate) async fn questions(
    db: &impl ConnectionTrait,
    votes: impl IntoIterator<Item = i64>,
) -> Result<HashMap<i64, String>> {
    let questions = Texts {
        table: "community_vote",
        id: "vote_id",
        text: "question",
    };
    questions.of(db, votes).await
}

/// The number of options.
pub(crate) async fn option_count(db: &impl ConnectionTrait, vote_id: i64) -> Result<i32> {
    let mut select = Query::select();
    select
        .expr_as(Expr::col("option_number").max(), "last")
        .from("community_vote_option")
        .and_where(Expr::col("vote_id").eq(vote_id));
    let row = db.query_one(&select).await?;
    let last: Option<Option<i32>> = row.map(|row| row.try_get("", "last")).transpose()?;
    Ok(last.flatten().unwrap_or(0))
}

/// Casts a ballot, or changes one.
pub(crate) async fn cast(tx: &Tx, vote_id: i64, member_id: i64, option: i32) -> Result<()> {
    let mut insert = Query::insert();
    insert
        .into_table("community_ballot")
        .columns(["vote_id", "member_id", "option_number", "cast_ms"])
        .values_panic([vote_id.into(), member_id.into(), option.into(), now_ms().into()])
        .on_conflict(
            OnConflict::columns(["vote_id", "member_id"])
                .update_columns(["option_number", "cast_ms"])
                .to_owned(),
        );
    tx.execute(&insert).await?;
    Ok(())
}

/// The option that a member chose.
pub(crate) async fn ballot_of(db: &impl ConnectionTrait, vote_id: i64, member_id: i64) -> Result<Option<i32>> {
    let mut select = Query::select();
    select
        .column("option_number")
        .from("community_ballot")
        .and_where(Expr::col("vote_id").eq(vote_id))
        .and_where(Expr::col("member_id").eq(member_id));
    let row = db.query_one(&select).await?;
    Ok(row.map(|row| row.try_get("", "option_number")).transpose()?)
}

/// The options with their ballots: the result of a closed vote, the ballots until now of an open one.
pub(crate) async fn choices(db: &impl ConnectionTrait, vote: &Vote) -> Result<Vec<Choice>> {
    let mut select = Query::select();
    select
        .columns(["option_number", "label", "ballots"])
        .from("community_vote_option")
        .and_where(Expr::col("vote_id").eq(vote.vote_id))
        .order_by("option_number", Order::Asc);
    let rows = db.query_all(&select).await?;
    let counted = match vote.closed_ms {
        Some(_) => Vec::new(),
        None => count(db, vote.vote_id).await?,
    };
    let ballots = |number| {
        counted
            .iter()
            .find(|(known, _)| *known == number)
            .map_or(0, |(_, count)| *count)
    };
    rows.iter()
        .map(|row| {
            let number = row.try_get("", "option_number")?;
            let result: Option<i64> = row.try_get("", "ballots")?;
            Ok(Choice {
                number,
                label: row.try_get("", "label")?,
                ballots: result.unwrap_or_else(|| ballots(number)),
            })
        })
        .collect()
}

/// The options that were chosen, with the number of their ballots.
async fn count(db: &impl ConnectionTrait, vote_id: i64) -> Result<Vec<(i32, i64)>> {
    let mut select = Query::select();
    select
        .column("option_number")
        .expr_as(Expr::col("member_id").count(), "ballots")
        .from("community_ballot")
        .and_where(Expr::col("vote_id").eq(vote_id))
        .group_by_col("option_number");
    let rows = db.query_all(&select).await?;
    rows.iter()
        .map(|row| Ok((row.try_get("", "option_number")?, row.try_get("", "ballots")?)))
        .collect()
}

/// Closes a vote that is locked, and stores its result. Returns the number of ballots.
pub(crate) async fn close(tx: &Tx, vote_id: i64) -> Result<i64> {
    let counted = count(tx, vote_id).await?;
    let mut options = Query::update();
    options
        .table("community_vote_option")
        .value("ballots", 0)
        .and_where(Expr::col("vote_id").eq(vote_id));
    tx.execute(&options).await?;
    for (number, ballots) in &counted {
        let mut option = Query::update();
        option
            .table("community_vote_option")
            .value("ballots", *ballots)
            .and_where(Expr::col("vote_id").eq(vote_id))
            .and_where(Expr::col("option_number").eq(*number));
        tx.execute(&option).await?;
    }
    let mut vote = Query::update();
    vote.table("community_vote")
        .value("closed_ms", now_ms())
        .and_where(Expr::col("vote_id").eq(vote_id));
    tx.execute(&vote).await?;
    Ok(counted.iter().map(|(_, ballots)| ballots).sum())
}

/// Voters with ids in this range, in the order of their ids.
pub(crate) async fn voters(tx: &Tx, vote_id: i64, (after, until): (i64, Option<i64>)) -> Result<Vec<i64>> {
    let mut select = Query::select();
    select
        .column("member_id")
        .from("community_ballot")
        .and_where(Expr::col("vote_id").eq(vote_id))
        .and_where(Expr::col("member_id").gt(after))
        .and_where_option(until.map(|until| Expr::col("member_id").lte(until)))
        .order_by("member_id", Order::Asc);
    let rows = tx.query_all(&select).await?;
    rows.iter().map(|row| Ok(row.try_get("", "member_id")?)).collect()
}

/// Every so many voters, in the order of their ids, the id of one.
pub(crate) async fn every_nth_voter(tx: &Tx, vote_id: i64, n: i64) -> Result<Vec<i64>> {
    let mut numbered = Query::select();
    numbered
        .column("member_id")
        .expr_as(Expr::cust("row_number() over (order by member_id)"), "place")
        .from("community_ballot")
        .and_where(Expr::col("vote_id").eq(vote_id));
    let mut select = Query::select();
    select
        .column("member_id")
        .from_subquery(numbered, "numbered")
        .and_where(Expr::col("place").modulo(n).eq(0))
        .order_by("member_id", Order::Asc);
    let rows = tx.query_all(&select).await?;
    rows.iter().map(|row| Ok(row.try_get("", "member_id")?)).collect()
}
