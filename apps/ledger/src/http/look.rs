//! Read requests: the ledger, the read models, and the state of the events.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use postroom_host::{Host, Problem};
use serde::Deserialize;
use uuid::Uuid;

use crate::command::Shown;
use crate::domain::{AccountId, Refusal, check_owner};
use crate::idempotency::problem;
use crate::state::{self, EventState};
use crate::tables::account;
use crate::tables::audit::{self, Audited};
use crate::tables::balance::{self, Balance};
use crate::tables::journal::{self, Line, Record};
use crate::tables::portfolio::{self, Portfolio};
use crate::tables::sequence::{self, Anomaly};

const LIMIT: u64 = 100;

/// The requested page of a list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Part<T: Default = i64> {
    /// Return items with a greater sequence number or id.
    #[serde(default)]
    after: T,
    /// Maximum number of items.
    limit: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    state: Option<state::State>,
    limit: Option<u64>,
}

type Asked<T> = Result<Query<T>, QueryRejection>;

pub(super) async fn account(State(host): State<Host>, Path(id): Path<String>) -> Result<Json<Shown>, Problem> {
    let found = account::find(host.store.db(), &parse(&id)?).await?;
    found
        .map(|account| Json(account.into()))
        .ok_or_else(|| problem(&Refusal::UnknownAccount))
}

pub(super) async fn entries(
    State(host): State<Host>,
    Path(id): Path<String>,
    part: Asked<Part>,
) -> Result<Json<Vec<Line>>, Problem> {
    let (id, part) = (parse(&id)?, asked(part)?);
    if account::find(host.store.db(), &id).await?.is_none() {
        return Err(problem(&Refusal::UnknownAccount));
    }
    Ok(Json(
        journal::entries(host.store.db(), &id, part.after, limit(part.limit)?).await?,
    ))
}

pub(super) async fn transaction(State(host): State<Host>, Path(id): Path<String>) -> Result<Json<Record>, Problem> {
    let unknown = || problem(&Refusal::UnknownTransaction);
    let id = Uuid::try_parse(&id).map_err(|_not_an_id| unknown())?;
    let found = journal::find(host.store.db(), id).await?;
    found.map(Json).ok_or_else(unknown)
}

pub(super) async fn balance(State(host): State<Host>, Path(id): Path<String>) -> Result<Json<Balance>, Problem> {
    let found = balance::find(host.store.db(), &parse(&id)?).await?;
    found.map(Json).ok_or_else(|| problem(&Refusal::UnknownAccount))
}

pub(super) async fn portfolio(
    State(host): State<Host>,
    Path(owner): Path<String>,
    part: Asked<Part<String>>,
) -> Result<Json<Portfolio>, Problem> {
    check_owner(&owner).map_err(|refusal| problem(&refusal))?;
    let part = asked(part)?;
    let after = match part.after.as_str() {
        "" => None,
        id => Some(parse(id)?),
    };
    let found = portfolio::find(host.store.db(), &owner, after.as_ref(), limit(part.limit)?).await?;
    Ok(Json(found))
}

pub(super) async fn audit(
    State(host): State<Host>,
    Path(id): Path<String>,
    part: Asked<Part>,
) -> Result<Json<Vec<Audited>>, Problem> {
    let (id, part) = (parse(&id)?, asked(part)?);
    let rows = audit::of_account(host.store.db(), &id, part.after, limit(part.limit)?).await?;
    Ok(Json(rows))
}

pub(super) async fn anomalies(State(host): State<Host>) -> Result<Json<Vec<Anomaly>>, Problem> {
    Ok(Json(sequence::anomalies(host.store.db(), LIMIT).await?))
}

pub(super) async fn events(State(host): State<Host>, wanted: Asked<Wanted>) -> Result<Json<Vec<EventState>>, Problem> {
    let wanted = asked(wanted)?;
    let limit = usize::try_from(limit(wanted.limit)?).unwrap_or_default();
    Ok(Json(state::list(&host, wanted.state, limit).await?))
}

fn parse(account_id: &str) -> Result<AccountId, Problem> {
    AccountId::parse(account_id).map_err(|refusal| problem(&refusal))
}

fn asked<T>(asked: Asked<T>) -> Result<T, Problem> {
    let Query(wanted) = asked.map_err(|rejection| Problem::invalid(rejection.body_text()))?;
    Ok(wanted)
}

/// The limit of a page. One that is out of range would otherwise end a list early without a word.
fn limit(wanted: Option<u64>) -> Result<u64, Problem> {
    match wanted.unwrap_or(LIMIT) {
        limit @ 1..=LIMIT => Ok(limit),
        limit => Err(Problem::invalid(format!("limit is {limit}; give 1 to {LIMIT}"))),
    }
}
