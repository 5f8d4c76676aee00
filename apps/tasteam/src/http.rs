//! The HTTP API of the service.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use postroom::{clock, emit};
use postroom_host::{Access, Body, Host, Problem, Routes};
use serde::{Deserialize, Serialize};

use crate::events::{GroupJoined, JoinType, ReviewCreated};
use crate::search::{SearchExecuted, SearchObserver};
use crate::tables::{self, Found, Named};

/// The longest name of a restaurant or group, in characters.
const NAME_MAX: usize = 100;
/// The longest text of a review, in characters.
const CONTENT_MAX: usize = 2_000;
/// The longest searched text, in characters.
const QUERY_MAX: usize = 100;
/// The most results of one kind.
const RESULTS_MAX: u64 = 20;

/// Those that observe searches.
type Observers = Arc<[Arc<dyn SearchObserver>]>;

pub(crate) fn routes(observers: Observers) -> Routes {
    Routes::new(Access::Service)
        .get("/tasteam/search", search)
        .extension(observers)
        .post("/tasteam/restaurants", add_restaurant)
        .post("/tasteam/groups", add_group)
        .put("/tasteam/groups/{group_id}/members/{member_id}", join)
        .post("/tasteam/reviews", write_review)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewNamed {
    name: String,
}

async fn add_restaurant(
    State(host): State<Host>,
    Body(new): Body<NewNamed>,
) -> Result<(StatusCode, Json<Found>), Problem> {
    add(&host, Named::Restaurant, new).await
}

async fn add_group(State(host): State<Host>, Body(new): Body<NewNamed>) -> Result<(StatusCode, Json<Found>), Problem> {
    add(&host, Named::Group, new).await
}

async fn add(host: &Host, named: Named, new: NewNamed) -> Result<(StatusCode, Json<Found>), Problem> {
    check_length("name", &new.name, NAME_MAX)?;
    let tx = host.begin().await?;
    let id = tables::insert_named(&tx, named, &new.name).await?;
    tx.commit().await?;
    Ok((StatusCode::CREATED, Json(Found { id, name: new.name })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Join {
    join_type: JoinType,
}

/// Idempotent: a member who is in the group stays there, and no second event is emitted.
async fn join(
    State(host): State<Host>,
    Path((group_id, member_id)): Path<(String, String)>,
    Body(Join { join_type }): Body<Join>,
) -> Result<StatusCode, Problem> {
    let joined = GroupJoined {
        group_id: number(&group_id, "group")?,
        member_id: number(&member_id, "member")?,
        join_type,
        joined_at: clock::now(),
    };
    let tx = host.begin().await?;
    check_exists(&tx, Named::Group, joined.group_id).await?;
    let name = match join_type {
        JoinType::Email => "EMAIL",
        JoinType::Password => "PASSWORD",
    };
    let is_new = tables::join(&tx, &joined, name).await?;
    if is_new {
        emit(&tx, &joined).await?;
    }
    tx.commit().await?;
    Ok(if is_new {
        StatusCode::CREATED
    } else {
        StatusCode::NO_CONTENT
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct NewReview {
    member_id: i64,
    restaurant_id: i64,
    group_id: Option<i64>,
    subgroup_id: Option<i64>,
    content: String,
    #[serde(default)]
    has_image: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    review_id: i64,
}

async fn write_review(
    State(host): State<Host>,
    Body(new): Body<NewReview>,
) -> Result<(StatusCode, Json<Written>), Problem> {
    check_length("content", &new.content, CONTENT_MAX)?;
    let tx = host.begin().await?;
    check_exists(&tx, Named::Restaurant, new.restaurant_id).await?;
    if let Some(group_id) = new.group_id {
        check_exists(&tx, Named::Group, group_id).await?;
    }
    let review = ReviewCreated {
        review_id: tables::next_id(&tx, "review").await?,
        restaurant_id: new.restaurant_id,
        group_id: new.group_id,
        subgroup_id: new.subgroup_id,
        member_id: new.member_id,
        has_image: new.has_image,
    };
    tables::insert_review(&tx, &review, &new.content).await?;
    emit(&tx, &review).await?;
    tx.commit().await?;
    let written = Written {
        review_id: review.review_id,
    };
    Ok((StatusCode::CREATED, Json(written)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Search {
    q: String,
    member_id: Option<i64>,
    latitude: Option<f64>,
    longitude: Option<f64>,
}

#[derive(Serialize)]
struct Results {
    groups: Vec<Found>,
    restaurants: Vec<Found>,
}

/// Searches by name. The observers hear of the search when it is answered.
async fn search(
    State(host): State<Host>,
    Extension(observers): Extension<Observers>,
    search: Result<Query<Search>, QueryRejection>,
) -> Result<Json<Results>, Problem> {
    let Query(search) = search.map_err(|rejection| Problem::invalid(rejection.body_text()))?;
    check_length("q", &search.q, QUERY_MAX)?;
    let tx = host.begin().await?;
    let groups = tables::search(&tx, Named::Group, &search.q, RESULTS_MAX).await?;
    let restaurants = tables::search(&tx, Named::Restaurant, &search.q, RESULTS_MAX).await?;
    tx.commit().await?;
    let executed = SearchExecuted {
        member_id: search.member_id,
        has_location: search.latitude.is_some() && search.longitude.is_some(),
        query: search.q,
        result_group_count: groups.len() as u64,
        result_restaurant_count: restaurants.len() as u64,
        occurred_at: clock::now(),
    };
    for observer in &*observers {
        observer.searched(&executed);
    }
    Ok(Json(Results { groups, restaurants }))
}

async fn check_exists(tx: &postroom::Tx, named: Named, id: i64) -> Result<(), Problem> {
    match tables::exists(tx, named, id).await? {
        true => Ok(()),
        false => {
            let (kind, code) = match named {
                Named::Restaurant => ("restaurant", "unknown_restaurant"),
                Named::Group => ("group", "unknown_group"),
            };
            Err(Problem::new(
                StatusCode::NOT_FOUND,
                code,
                format!("there is no {kind} {id}"),
            ))
        }
    }
}

fn check_length(field: &str, text: &str, max: usize) -> Result<(), Problem> {
    match text.chars().count() {
        _ if text.trim().is_empty() => Err(Problem::invalid(format!("{field} is empty"))),
        length if length > max => Err(Problem::invalid(format!(
            "{field} has {length} characters, the limit is {max}"
        ))),
        _ => Ok(()),
    }
}

fn number(text: &str, what: &str) -> Result<i64, Problem> {
    let problem = |_| Problem::invalid(format!("{text:?} is not the number of a {what}"));
    text.parse().map_err(problem)
}
