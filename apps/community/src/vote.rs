//! Votes: opened with the time at which they close, and closed by an event that is scheduled for that time.

use postroom::{Error, Result, Tx, emit, emit_at};
use postroom_host::Host;
use time::OffsetDateTime;

use crate::attempt::{Attempts, Failure};
use crate::domain::{Ballot, Limits, NewVote, Refusal};
use crate::events::{VoteClosed, VoteDue};
use crate::tables::{now_ms, vote};

/// Opens a vote; returns its id.
pub(crate) async fn open(host: &Host, limits: &Limits, me: i64, new: &NewVote) -> Result<i64, Failure> {
    new.check(limits, now_ms())?;
    let closes_at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(new.closes_ms) * 1_000_000);
    let closes_at = closes_at.map_err(|_odd| Error::invalid("closesAt is no time"))?;
    let tx = host.begin().await?;
    let vote_id = vote::insert(&tx, me, new).await?;
    emit_at(&tx, &VoteDue { vote_id }, closes_at).await?;
    tx.commit().await?;
    Ok(vote_id)
}

/// Casts a ballot, or replaces the one that the member has cast.
pub(crate) async fn cast(host: &Host, (me, vote_id): (i64, i64), option: i32) -> Result<(), Failure> {
    let mut attempts = Attempts::begin();
    loop {
        match try_cast(host, (me, vote_id), option).await {
            Err(failure) if attempts.again(&failure).await => {}
            ended => return ended,
        }
    }
}

async fn try_cast(host: &Host, (me, vote_id): (i64, i64), option: i32) -> Result<(), Failure> {
    let tx = host.begin().await?;
    let found = vote::find_kept_open(&tx, vote_id).await?;
    let vote = found.ok_or(Refusal::Unknown("vote"))?;
    let ballot = Ballot {
        closes_ms: vote.closes_ms,
        is_closed: vote.closed_ms.is_some(),
        options: vote::option_count(&tx, vote_id).await?,
    };
    ballot.check(option, now_ms())?;
    vote::cast(&tx, vote_id, me, option).await?;
    Ok(tx.commit().await?)
}

/// Closes a vote whose time has come: counts the ballots once and for all, and emits [`VoteClosed`]. A vote that is closed stays so.
pub(crate) async fn close(tx: &mut Tx, due: VoteDue) -> Result<()> {
    let Some(vote) = vote::lock(tx, due.vote_id).await? else {
        tracing::warn!(vote = due.vote_id, "a vote that is to close does not exist");
        return Ok(());
    };
    if vote.closed_ms.is_some() {
        return Ok(());
    }
    let closed = VoteClosed {
        vote_id: vote.vote_id,
        author_id: vote.author_id,
        ballots: vote::close(tx, vote.vote_id).await?,
    };
    emit(tx, &closed).await?;
    Ok(())
}
