//! The HTTP API of chat, for members.

mod messages;
mod rooms;

use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Query};
use axum::http::StatusCode;
use axum::http::request::Parts;
use postroom_access::Member;
use postroom_host::{Access, Caller, Problem, Routes};

use super::domain::Refusal;
use super::pace::Pace;

/// Items in one page.
const PAGE: u64 = 50;
const PAGE_MAX: u64 = 200;

pub(crate) fn routes(pace: Pace) -> Routes {
    Routes::new(Access::Member)
        .post("/api/chat/rooms", rooms::create)
        .get("/api/chat/rooms", rooms::list)
        .get("/api/chat/rooms/{room_id}", rooms::show)
        .put("/api/chat/rooms/{room_id}/members/{member_id}", rooms::add)
        .delete("/api/chat/rooms/{room_id}/members/{member_id}", rooms::remove)
        .post("/api/chat/rooms/{room_id}/messages", messages::send)
        .patch("/api/chat/rooms/{room_id}/messages/{message_id}", messages::edit)
        .delete("/api/chat/rooms/{room_id}/messages/{message_id}", messages::delete)
        .extension(pace)
        .get("/api/chat/rooms/{room_id}/messages", messages::history)
}

/// The member who calls.
#[derive(Clone, Copy, Debug)]
struct Me(i64);

impl<S: Send + Sync> FromRequestParts<S> for Me {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        match parts.extensions.get() {
            Some(Caller::Member(member)) => number_of(member).map(Self),
            _ => Err(no_number()),
        }
    }
}

/// The number of a member.
pub(super) fn number_of(member: &Member) -> Result<i64, Problem> {
    let id: Option<i64> = member.id.parse().ok();
    id.filter(|id| *id > 0).ok_or_else(no_number)
}

fn no_number() -> Problem {
    let detail = "the subject of the token is not the number of a member";
    Problem::new(StatusCode::FORBIDDEN, "not_a_member", detail)
}

/// The id of a room in the path. If the text is not a number, the answer is that there is no such room.
fn room_id(text: &str) -> Result<i64, Problem> {
    text.parse().map_err(|_odd| Refusal::UnknownRoom.into())
}

fn message_id(text: &str) -> Result<i64, Problem> {
    text.parse().map_err(|_odd| Refusal::UnknownMessage.into())
}

fn member_id(text: &str) -> Result<i64, Problem> {
    text.parse()
        .map_err(|_odd| Problem::invalid(format!("{text:?} is not the number of a member")))
}

pub(super) fn asked<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, Problem> {
    match query {
        Ok(Query(query)) => Ok(query),
        Err(rejection) => Err(Problem::invalid(rejection.body_text())),
    }
}

fn limit(asked: Option<u64>) -> Result<u64, Problem> {
    match asked {
        None => Ok(PAGE),
        Some(limit @ 1..=PAGE_MAX) => Ok(limit),
        Some(odd) => Err(Problem::invalid(format!("limit is {odd}; it must be 1 to {PAGE_MAX}"))),
    }
}
