//! Members: who has a nickname here.

use std::collections::HashMap;

use postroom::{Result, Tx};
use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict, Query};

use super::{Texts, now_ms};

/// A member as others see them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) member_id: i64,
    pub(crate) nickname: String,
    pub(crate) joined_ms: i64,
}

/// Makes a member, or changes the nickname of one.
pub(crate) async fn upsert(tx: &Tx, member_id: i64, nickname: &str) -> Result<()> {
    let mut insert = Query::insert();
    insert
        .into_table("community_member")
        .columns(["member_id", "nickname", "joined_ms"])
        .values_panic([member_id.into(), nickname.into(), now_ms().into()])
        .on_conflict(OnConflict::column("member_id").update_column("nickname").to_owned());
    tx.execute(&insert).await?;
    Ok(())
}

pub(crate) async fn find(db: &impl ConnectionTrait, member_id: i64) -> Result<Option<Member>> {
    let mut select = Query::select();
    select
        .columns(["nickname", "joined_ms"])
        .from("community_member")
        .and_where(Expr::col("member_id").eq(member_id));
    let row = db.query_one(&select).await?;
    row.map(|row| {
        Ok(Member {
            member_id,
            nickname: row.try_get("", "nickname")?,
            joined_ms: row.try_get("", "joined_ms")?,
        })
    })
    .transpose()
}

/// The nicknames of those of these members who have one.
pub(crate) async fn nicknames(
    db: &impl ConnectionTrait,
    members: impl IntoIterator<Item = i64>,
) -> Result<HashMap<i64, String>> {
    let nicknames = Texts {
        table: "community_member",
        id: "member_id",
        text: "nickname",
    };
    nicknames.of(db, members).await
}
