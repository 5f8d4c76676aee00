//! The HTTP API of operators: stored events by member, name and time, and sending them to a sink again.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use postroom_host::{Access, Body, Caller, Host, Problem, Routes};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::event::Source;
use crate::query::{self, EventFilter, PAGE_MAX, StoredEvent};
use crate::redispatch::{self, Redispatch};
use crate::reprocess::{self, Range, Reprocess};

/// Events of one page, unless the request says.
const PAGE: u64 = 100;

pub(crate) fn routes() -> Routes {
    Routes::new(Access::Viewer)
        .get("/api/v1/activity/admin/events", list)
        .get("/api/v1/activity/admin/redispatches", list_redispatches)
        .get("/api/v1/activity/admin/reprocesses", list_reprocesses)
}

/// Routes for operators.
pub(crate) fn acts() -> Routes {
    Routes::new(Access::Operator)
        .post("/api/v1/activity/admin/redispatches", begin_redispatch)
        .delete("/api/v1/activity/admin/redispatches/{redispatch_id}", cancel_redispatch)
        .post("/api/v1/activity/admin/reprocesses", begin_reprocess)
        .delete("/api/v1/activity/admin/reprocesses/{reprocess_id}", cancel_reprocess)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewRedispatch {
    sink_type: String,
    #[serde(default)]
    filter: EventFilter,
    #[serde(default = "per_second")]
    per_second: u32,
}

fn per_second() -> u32 {
    100
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Begun {
    redispatch_id: String,
}

async fn begin_redispatch(
    State(host): State<Host>,
    caller: Caller,
    Body(new): Body<NewRedispatch>,
) -> Result<(StatusCode, Json<Begun>), Problem> {
    let which = (new.sink_type.as_str(), &new.filter);
    let redispatch_id = redispatch::begin(host.store.db(), which, new.per_second, &caller.name()).await?;
    Ok((StatusCode::CREATED, Json(Begun { redispatch_id })))
}

async fn cancel_redispatch(
    State(host): State<Host>,
    caller: Caller,
    Path(redispatch_id): Path<String>,
) -> Result<StatusCode, Problem> {
    redispatch::cancel(host.store.db(), &redispatch_id, &caller.name()).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn list_redispatches(State(host): State<Host>) -> Result<Json<Vec<Redispatch>>, Problem> {
    Ok(Json(redispatch::list(host.store.db()).await?))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReprocessBegun {
    reprocess_id: String,
}

async fn begin_reprocess(
    State(host): State<Host>,
    caller: Caller,
    Body(range): Body<Range>,
) -> Result<(StatusCode, Json<ReprocessBegun>), Problem> {
    let reprocess_id = reprocess::begin(&*host.store, &range, &caller.name()).await?;
    Ok((StatusCode::CREATED, Json(ReprocessBegun { reprocess_id })))
}

async fn cancel_reprocess(
    State(host): State<Host>,
    caller: Caller,
    Path(reprocess_id): Path<String>,
) -> Result<StatusCode, Problem> {
    reprocess::cancel(host.store.db(), &reprocess_id, &caller.name()).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn list_reprocesses(State(host): State<Host>) -> Result<Json<Vec<Reprocess>>, Problem> {
    Ok(Json(reprocess::list(host.store.db()).await?))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wanted {
    member_id: Option<i64>,
    event_name: Option<String>,
    source: Option<Source>,
    from: Option<String>,
    until: Option<String>,
    after: Option<String>,
    limit: Option<u64>,
}

#[derive(Serialize)]
struct Listed {
    events: Vec<StoredEvent>,
    /// The next page begins after this; `null` on the last page.
    next: Option<String>,
}

async fn list(
    State(host): State<Host>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<Json<Listed>, Problem> {
    let Query(wanted) = wanted.map_err(|rejection| Problem::invalid(rejection.body_text()))?;
    let limit = wanted.limit.unwrap_or(PAGE);
    if !(1..=PAGE_MAX).contains(&limit) {
        return Err(Problem::invalid(format!("limit is {limit}; give 1 to {PAGE_MAX}")));
    }
    let filter = EventFilter {
        member_id: wanted.member_id,
        event_name: wanted.event_name,
        source: wanted.source,
        from: wanted.from.as_deref().map(|text| time("from", text)).transpose()?,
        until: wanted.until.as_deref().map(|text| time("until", text)).transpose()?,
    };
    let after = wanted.after.as_deref().map(str::parse).transpose();
    let after = after.map_err(|error: postroom::Error| Problem::invalid(format!("after: {}", error.report())))?;
    let page = query::find(host.store.db(), &filter, after, limit).await?;
    Ok(Json(Listed {
        events: page.events,
        next: page.next.map(|next| next.to_string()),
    }))
}

fn time(field: &str, text: &str) -> Result<OffsetDateTime, Problem> {
    let problem = |_| {
        Problem::invalid(format!(
            "{field} is {text:?}; give a time such as 2026-02-18T10:00:00Z (in a URL, write + as %2B)"
        ))
    };
    OffsetDateTime::parse(text, &Rfc3339).map_err(problem)
}
