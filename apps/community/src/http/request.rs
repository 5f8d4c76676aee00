//! Parts that requests share: the member who asks, the page of a list, and the ids in paths.

use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Query};
use axum::http::StatusCode;
use axum::http::request::Parts;
use postroom_host::{Caller, Problem};
use serde::Deserialize;

use crate::domain::Refusal;

/// Items in one page.
const PAGE: u64 = 20;
const PAGE_MAX: u64 = 100;

/// The member who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Me(pub(crate) i64);

impl<S: Send + Sync> FromRequestParts<S> for Me {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let member = match parts.extensions.get() {
            Some(Caller::Member(member)) => read_member(&member.id),
            _ => None,
        };
        member.map(Self).ok_or_else(not_a_member)
    }
}

/// The id of a member, from the subject of a token.
pub(crate) fn read_member(subject: &str) -> Option<i64> {
    subject.parse().ok().filter(|id| *id > 0)
}

pub(crate) fn not_a_member() -> Problem {
    let detail = "the subject of the token is not the number of a member";
    Problem::new(StatusCode::FORBIDDEN, "not_a_member", detail)
}

/// An id in a path. If the text is not a positive number, the answer is that there is no such thing.
pub(crate) fn id(text: &str, thing: &'static str) -> Result<i64, Problem> {
    let number = text.parse().ok().filter(|id| *id > 0);
    number.ok_or_else(|| Refusal::Unknown(thing).into())
}

/// The requested page of a list, newest first.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Page {
    /// Items with smaller ids.
    pub(crate) before: Option<i64>,
    limit: Option<u64>,
}

impl Page {
    pub(crate) fn of(asked: Result<Query<Self>, QueryRejection>) -> Result<Self, Problem> {
        let Query(page) = asked.map_err(|rejection| Problem::invalid(rejection.body_text()))?;
        match page.limit {
            None | Some(1..=PAGE_MAX) => Ok(page),
            Some(odd) => Err(Problem::invalid(format!("limit is {odd}; it must be 1 to {PAGE_MAX}"))),
        }
    }

    pub(crate) fn limit(self) -> u64 {
        self.limit.unwrap_or(PAGE)
    }

    /// The `before` of the next page: the id of the last item of a full page.
    pub(crate) fn next<T>(self, items: &[T], id: impl FnOnce(&T) -> i64) -> Option<i64> {
        let is_full = items.len() as u64 == self.limit();
        items.last().filter(|_| is_full).map(id)
    }
}
