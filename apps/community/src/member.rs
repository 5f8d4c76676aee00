//! Members, and who follows them.

use postroom::{ErrorKind, emit};
use postroom_host::Host;

use crate::attempt::{Attempts, Failure};
use crate::domain::{Limits, Refusal, check_text};
use crate::events::MemberFollowed;
use crate::tables::{follow, member};

/// Gives a member a nickname, or another one.
pub(crate) async fn rename(host: &Host, limits: &Limits, me: i64, nickname: &str) -> Result<(), Failure> {
    check_text("nickname", nickname, limits.nickname)?;
    let mut attempts = Attempts::begin();
    loop {
        match try_rename(host, me, nickname).await {
            Err(failure) if attempts.again(&failure).await => {}
            ended => return ended,
        }
    }
}

async fn try_rename(host: &Host, me: i64, nickname: &str) -> Result<(), Failure> {
    let tx = host.begin().await?;
    member::upsert(&tx, me, nickname).await?;
    Ok(tx.commit().await?)
}

/// Makes a member follow another one; whoever follows already goes on.
pub(crate) async fn follow(host: &Host, me: i64, followee: i64) -> Result<(), Failure> {
    if me == followee {
        return Err(Refusal::OwnFollow.into());
    }
    let mut attempts = Attempts::begin();
    loop {
        match try_follow(host, me, followee).await {
            Err(failure) if attempts.again(&failure).await => {}
            ended => return ended,
        }
    }
}

async fn try_follow(host: &Host, me: i64, followee: i64) -> Result<(), Failure> {
    let tx = host.begin().await?;
    if member::find(&tx, followee).await?.is_none() {
        return Err(Refusal::Unknown("member").into());
    }
    if follow::exists(&tx, me, followee).await? {
        return Ok(tx.rollback().await?);
    }
    match follow::insert(&tx, me, followee).await {
        Err(error) if error.kind() == ErrorKind::Conflict => return Ok(tx.rollback().await?),
        inserted => inserted?,
    }
    let followed = MemberFollowed {
        follower_id: me,
        followee_id: followee,
    };
    emit(&tx, &followed).await?;
    Ok(tx.commit().await?)
}

/// Makes a member follow another one no longer.
pub(crate) async fn unfollow(host: &Host, me: i64, followee: i64) -> Result<(), Failure> {
    let tx = host.begin().await?;
    follow::delete(&tx, me, followee).await?;
    Ok(tx.commit().await?)
}
