//! Requests about notifications. A member sees its own; another member's is one that does not exist.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use postroom_host::{Access, Body, Host, Problem, Routes};
use serde::{Deserialize, Serialize};

use crate::http::request::{Me, Page, id};
use crate::stream;
use crate::tables::notification::{self, Notification};

pub(crate) fn routes() -> Routes {
    Routes::new(Access::Member)
        .get("/api/notifications", list)
        .get("/api/notifications/unread", unread)
        .post("/api/notifications/{notification_id}/read", read_one)
        .post("/api/notifications/read-all", read_all)
        .get("/api/notifications/settings", settings)
        .put("/api/notifications/settings", set)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    id: i64,
    event_id: String,
    #[serde(rename = "type")]
    kind: String,
    message: String,
    ref_id: i64,
    actor_id: i64,
    /// In milliseconds since 1970.
    created_at: i64,
    /// Null: unread.
    read_at: Option<i64>,
}

impl From<Notification> for Shown {
    fn from(notification: Notification) -> Self {
        Self {
            id: notification.notification_id,
            event_id: notification.event_id,
            kind: notification.kind,
            message: notification.message,
            ref_id: notification.ref_id,
            actor_id: notification.actor_id,
            created_at: notification.created_ms,
            read_at: notification.read_ms,
        }
    }
}

#[derive(Serialize)]
struct Inbox {
    /// Newest first.
    notifications: Vec<Shown>,
    /// Pass it as `before` for the next page. Null on the last page.
    next: Option<i64>,
}

async fn list(
    State(host): State<Host>,
    Me(me): Me,
    page: Result<Query<Page>, QueryRejection>,
) -> Result<Json<Inbox>, Problem> {
    let page = Page::of(page)?;
    let found = notification::list(host.store.db(), me, page.before, page.limit()).await?;
    Ok(Json(Inbox {
        next: page.next(&found, |last| last.notification_id),
        notifications: found.into_iter().map(Shown::from).collect(),
    }))
}

#[derive(Serialize)]
struct Unread {
    unread: i64,
}

async fn unread(State(host): State<Host>, Me(me): Me) -> Result<Json<Unread>, Problem> {
    let position = stream::look_one(host.store.db(), me).await?;
    Ok(Json(Unread {
        unread: position.unread,
    }))
}

async fn read_one(
    State(host): State<Host>,
    Me(me): Me,
    Path(notification): Path<String>,
) -> Result<Json<Unread>, Problem> {
    let unread = super::read_one(&host, me, id(&notification, "notification")?).await?;
    Ok(Json(Unread { unread }))
}

async fn read_all(State(host): State<Host>, Me(me): Me) -> Result<Json<Unread>, Problem> {
    let unread = super::read_all(&host, me).await?;
    Ok(Json(Unread { unread }))
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Muting {
    muted: bool,
}

async fn settings(State(host): State<Host>, Me(me): Me) -> Result<Json<Muting>, Problem> {
    let position = stream::look_one(host.store.db(), me).await?;
    Ok(Json(Muting {
        muted: position.is_muted,
    }))
}

async fn set(State(host): State<Host>, Me(me): Me, Body(wanted): Body<Muting>) -> Result<StatusCode, Problem> {
    super::set_muted(&host, me, wanted.muted).await?;
    Ok(StatusCode::NO_CONTENT)
}
