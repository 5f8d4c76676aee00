//! Requests about votes.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use postroom_host::{Body, Host, Problem};
use serde::{Deserialize, Serialize};

use super::request::{Me, id};
use crate::Settings;
use crate::domain::{NewVote, Refusal};
use crate::tables;
use crate::vote;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Opening {
    question: String,
    options: Vec<String>,
    /// In milliseconds since 1970.
    closes_at: i64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Opened {
    vote_id: i64,
}

pub(super) async fn open(
    State(host): State<Host>,
    Extension(settings): Extension<Arc<Settings>>,
    Me(me): Me,
    Body(opening): Body<Opening>,
) -> Result<(StatusCode, Json<Opened>), Problem> {
    let new = NewVote {
        question: opening.question,
        options: opening.options,
        closes_ms: opening.closes_at,
    };
    let vote_id = vote::open(&host, &settings.limits, me, &new).await?;
    Ok((StatusCode::CREATED, Json(Opened { vote_id })))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shown {
    vote_id: i64,
    author_id: i64,
    question: String,
    options: Vec<Choice>,
    /// All ballots.
    ballots: i64,
    created_at: i64,
    closes_at: i64,
    /// Null as long as the result is not final.
    closed_at: Option<i64>,
    /// The option that the reader chose.
    my_option: Option<i32>,
}

#[derive(Serialize)]
struct Choice {
    option: i32,
    label: String,
    ballots: i64,
}

pub(super) async fn show(
    State(host): State<Host>,
    Me(me): Me,
    Path(vote): Path<String>,
) -> Result<Json<Shown>, Problem> {
    let (db, vote_id) = (host.store.db(), id(&vote, "vote")?);
    let found = tables::vote::find(db, vote_id).await?;
    let vote = found.ok_or(Refusal::Unknown("vote"))?;
    let choices = tables::vote::choices(db, &vote).await?;
    let choice = |choice: tables::vote::Choice| Choice {
        option: choice.number,
        label: choice.label,
        ballots: choice.ballots,
    };
    Ok(Json(Shown {
        vote_id,
        author_id: vote.author_id,
        question: vote.question,
        ballots: choices.iter().map(|choice| choice.ballots).sum(),
        options: choices.into_iter().map(choice).collect(),
        created_at: vote.created_ms,
        closes_at: vote.closes_ms,
        closed_at: vote.closed_ms,
        my_option: tables::vote::ballot_of(db, vote_id, me).await?,
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ballot {
    /// The number of the option, from 1.
    option: i32,
}

/// Idempotent. Another option replaces the one that was chosen before.
pub(super) async fn cast(
    State(host): State<Host>,
    Me(me): Me,
    Path(vote): Path<String>,
    Body(ballot): Body<Ballot>,
) -> Result<StatusCode, Problem> {
    vote::cast(&host, (me, id(&vote, "vote")?), ballot.option).await?;
    Ok(StatusCode::NO_CONTENT)
}
