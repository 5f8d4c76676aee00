//! The stream of a member over HTTP, and the connections that the member has.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use postroom_host::{Access, Caller, Host, Problem, Routes};
use postroom_realtime::{Client, Ticket};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Realtime;
use crate::domain::Refusal;
use crate::http::request::{Me, not_a_member, read_member};
use crate::stream::key;

/// The header in which a client says what it has seen last.
const LAST_EVENT_ID: &str = "last-event-id";

/// The stream. It is open, because a browser's `EventSource` sends no token; the handler asks for one, or for a ticket.
pub(super) fn streams(realtime: Realtime) -> Routes {
    Routes::new(Access::Open)
        .get("/api/notifications/stream", stream)
        .extension(realtime)
}

pub(super) fn own(realtime: Realtime) -> Routes {
    Routes::new(Access::Member)
        .post("/api/notifications/stream/ticket", ticket)
        .get("/api/notifications/connections", connections)
        .delete("/api/notifications/connections/{connection_id}", disconnect)
        .extension(realtime)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    ticket: Option<String>,
    /// For clients that can send no header, or have lost the one of their `EventSource`.
    last_event_id: Option<String>,
    tab: Option<String>,
    /// The connection that the client had before.
    connection: Option<Uuid>,
}

async fn stream(
    State(host): State<Host>,
    Extension(realtime): Extension<Realtime>,
    caller: Caller,
    headers: HeaderMap,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(asked) = asked.map_err(|rejection| Problem::invalid(rejection.body_text()))?;
    realtime.journal.read_from(&host.store);
    let client = match client(&realtime, &caller, asked.ticket.as_deref()).await {
        Ok(client) => client.tab(asked.tab.as_deref()).previously(asked.connection),
        Err(response) => return Ok(response),
    };
    let member = read_member(client.member()).ok_or_else(not_a_member)?;
    // The header is newer: a browser that reconnects by itself repeats the address of its first request.
    let header = headers
        .get(LAST_EVENT_ID)
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned);
    let cursor = header.or(asked.last_event_id).filter(|cursor| !cursor.is_empty());
    Ok(match realtime.hub.open(client, vec![(key(member), cursor)]).await {
        Ok(connection) => connection.sse(),
        Err(refused) => refused.into_response(),
    })
}

/// The member who opens the stream, by its token or by a ticket.
async fn client(realtime: &Realtime, caller: &Caller, ticket: Option<&str>) -> Result<Client, Response> {
    let unauthenticated = |detail: &str| {
        let problem = Problem::new(StatusCode::UNAUTHORIZED, "unauthenticated", detail);
        (
            [(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))],
            problem,
        )
            .into_response()
    };
    match (caller, ticket) {
        (Caller::Member(member), _) => Ok(Client::new(member.id.as_str()).until(member.expires_at)),
        (_, Some(ticket)) => match realtime.hub.redeem(ticket).await {
            Ok(Some(client)) => Ok(client),
            Ok(None) => Err(unauthenticated(
                "the ticket is unknown, spent or expired; ask for another one",
            )),
            Err(refused) => Err(refused.into_response()),
        },
        _ => Err(unauthenticated(
            "send the token of a member as `authorization: Bearer TOKEN`, or a ticket as ?ticket=",
        )),
    }
}

async fn ticket(Extension(realtime): Extension<Realtime>, Me(me): Me, caller: Caller) -> Result<Json<Ticket>, Problem> {
    let client = match &caller {
        Caller::Member(member) => Client::new(me.to_string()).until(member.expires_at),
        _ => return Err(not_a_member()),
    };
    Ok(Json(realtime.hub.ticket(&client).await?))
}

/// A connection in a list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Open {
    /// As in the header `x-connection-id` of its stream.
    id: Uuid,
    /// In milliseconds since 1970.
    connected_at: i64,
}

#[derive(Serialize)]
struct Connections {
    /// The oldest first: it gives way when the member opens too many.
    connections: Vec<Open>,
}

/// The open streams of the member, on all instances.
async fn connections(Extension(realtime): Extension<Realtime>, Me(me): Me) -> Result<Json<Connections>, Problem> {
    let open = realtime.hub.connections_of(&me.to_string()).await?;
    let connections = open.into_iter().map(|connection| Open {
        id: connection.id,
        connected_at: connection.since.unwrap_or_default(),
    });
    Ok(Json(Connections {
        connections: connections.collect(),
    }))
}

/// Ends a connection of the member, on whichever instance it is. Its client does not come back by itself.
async fn disconnect(
    Extension(realtime): Extension<Realtime>,
    Me(me): Me,
    Path(connection): Path<String>,
) -> Result<StatusCode, Problem> {
    let connection = Uuid::try_parse(&connection).map_err(|_odd| Refusal::Unknown("connection"))?;
    realtime.hub.disconnect(&me.to_string(), connection).await?;
    Ok(StatusCode::NO_CONTENT)
}
