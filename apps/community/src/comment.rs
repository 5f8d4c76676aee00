//! Comments: written, and deleted by their authors.

use postroom::emit;
use postroom_host::Host;

use crate::attempt::{Attempts, Failure};
use crate::counter;
use crate::domain::{Limits, Refusal, check_text};
use crate::events::{CommentCountDelta, CommentCreated};
use crate::tables::{comment, post};

/// Writes a comment on a post; returns its id. The row of the post is not touched, so writers do not wait for each other.
pub(crate) async fn write(host: &Host, limits: &Limits, (me, post_id): (i64, i64), body: &str) -> Result<i64, Failure> {
    check_text("body", body, limits.comment)?;
    let mut attempts = Attempts::begin();
    loop {
        match try_write(host, me, post_id, body).await {
            Err(failure) if attempts.again(&failure).await => {}
            ended => return ended,
        }
    }
}

async fn try_write(host: &Host, me: i64, post_id: i64, body: &str) -> Result<i64, Failure> {
    let tx = host.begin().await?;
    let Some(post_author_id) = post::author(&tx, post_id).await? else {
        return Err(Refusal::Unknown("post").into());
    };
    let comment_id = comment::insert(&tx, post_id, me, body).await?;
    let written = CommentCountDelta {
        post_id,
        comment_id,
        member_id: me,
        delta: 1,
    };
    counter::change(&tx, &written).await?;
    let created = CommentCreated {
        comment_id,
        post_id,
        member_id: me,
        post_author_id,
    };
    emit(&tx, &created).await?;
    tx.commit().await?;
    Ok(comment_id)
}

/// Deletes a comment of this member; one that was deleted stays so. Its row stays, and is shown no more.
pub(crate) async fn delete(host: &Host, me: i64, comment_id: i64) -> Result<(), Failure> {
    let mut attempts = Attempts::begin();
    loop {
        match try_delete(host, me, comment_id).await {
            Err(failure) if attempts.again(&failure).await => {}
            ended => return ended,
        }
    }
}

async fn try_delete(host: &Host, me: i64, comment_id: i64) -> Result<(), Failure> {
    let tx = host.begin().await?;
    let found = comment::ownership(&tx, comment_id).await?;
    let comment = found.ok_or(Refusal::Unknown("comment"))?;
    if comment.author_id != me {
        return Err(Refusal::NotYourComment.into());
    }
    // Of two requests at once, one deletes it and counts it.
    if comment.is_deleted || !comment::delete(&tx, comment_id).await? {
        return Ok(tx.rollback().await?);
    }
    let deleted = CommentCountDelta {
        post_id: comment.post_id,
        comment_id,
        member_id: me,
        delta: -1,
    };
    counter::change(&tx, &deleted).await?;
    Ok(tx.commit().await?)
}
