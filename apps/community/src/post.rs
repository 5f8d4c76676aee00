//! Posts and their likes.

use postroom::{ErrorKind, emit};
use postroom_host::Host;

use crate::attempt::{Attempts, Failure};
use crate::domain::{Limits, Refusal, check_text};
use crate::events::PostLiked;
use crate::tables::post;

/// Writes a post; returns its id.
pub(crate) async fn write(host: &Host, limits: &Limits, me: i64, (title, body): (&str, &str)) -> Result<i64, Failure> {
    check_text("title", title, limits.title)?;
    check_text("body", body, limits.post)?;
    let tx = host.begin().await?;
    let post_id = post::insert(&tx, me, title, body).await?;
    tx.commit().await?;
    Ok(post_id)
}

/// Makes a member like a post; whoever likes it already goes on.
pub(crate) async fn like(host: &Host, me: i64, post_id: i64) -> Result<(), Failure> {
    let mut attempts = Attempts::begin();
    loop {
        match try_like(host, me, post_id).await {
            Err(failure) if attempts.again(&failure).await => {}
            ended => return ended,
        }
    }
}

async fn try_like(host: &Host, me: i64, post_id: i64) -> Result<(), Failure> {
    let tx = host.begin().await?;
    let Some(post_author_id) = post::author(&tx, post_id).await? else {
        return Err(Refusal::Unknown("post").into());
    };
    if post::is_liked(&tx, post_id, me).await? {
        return Ok(tx.rollback().await?);
    }
    match post::insert_like(&tx, post_id, me).await {
        Err(error) if error.kind() == ErrorKind::Conflict => return Ok(tx.rollback().await?),
        inserted => inserted?,
    }
    let liked = PostLiked {
        post_id,
        member_id: me,
        post_author_id,
    };
    emit(&tx, &liked).await?;
    post::add_likes(&tx, post_id, 1).await?;
    Ok(tx.commit().await?)
}

/// Makes a member like a post no longer.
pub(crate) async fn unlike(host: &Host, me: i64, post_id: i64) -> Result<(), Failure> {
    let mut attempts = Attempts::begin();
    loop {
        match try_unlike(host, me, post_id).await {
            Err(failure) if attempts.again(&failure).await => {}
            ended => return ended,
        }
    }
}

async fn try_unlike(host: &Host, me: i64, post_id: i64) -> Result<(), Failure> {
    let tx = host.begin().await?;
    if post::delete_like(&tx, post_id, me).await? {
        post::add_likes(&tx, post_id, -1).await?;
    }
    Ok(tx.commit().await?)
}
