//! The HTTP API for paying users: cards, and the start, change and end of subscriptions.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use postroom_host::{Access, Body, Host, Problem, Routes};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::charge::Till;
use super::domain::{Status, Subscription};
use super::{handlers, tables};
use crate::door::{Id, commit};
use crate::guild::tables::check_installed;
use crate::identity::tables::check_registered;
use crate::plan::Plan;
use crate::refusal::{check_id, check_text};

pub(crate) fn routes(till: Till) -> Routes {
    Routes::new(Access::Service)
        .post("/umbra/users/{user_id}/billing-keys", issue_key)
        .delete("/umbra/billing-keys/{billing_key_id}", delete_key)
        .post("/umbra/subscriptions", start)
        .get("/umbra/subscriptions/{subscription_id}", show)
        .post("/umbra/subscriptions/{subscription_id}/upgrade", upgrade)
        .post("/umbra/subscriptions/{subscription_id}/downgrade", downgrade)
        .post("/umbra/subscriptions/{subscription_id}/cancel", cancel)
        .get("/umbra/guilds/{guild_id}/subscription", show_of_guild)
        .extension(till)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IssueKey {
    card_token: String,
}

#[derive(Serialize)]
struct Issued {
    billing_key_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Start {
    guild_id: String,
    user_id: String,
    plan_code: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangePlan {
    plan_code: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cancel {
    cancel_at_period_end: bool,
}

#[derive(Serialize)]
struct Shown {
    subscription_id: String,
    guild_id: String,
    user_id: String,
    plan_code: &'static str,
    next_plan_code: Option<&'static str>,
    status: &'static str,
    cancel_at_period_end: bool,
    #[serde(with = "time::serde::rfc3339::option")]
    period_end: Option<OffsetDateTime>,
    retry_count: u32,
}

impl From<Subscription> for Json<Shown> {
    fn from(subscription: Subscription) -> Self {
        Self(Shown {
            subscription_id: subscription.subscription_id,
            guild_id: subscription.guild_id,
            user_id: subscription.user_id,
            plan_code: subscription.plan.code(),
            next_plan_code: subscription.next_plan.map(|(plan, _)| plan.code()),
            status: subscription.status.name(),
            cancel_at_period_end: subscription.cancel_at_period_end,
            period_end: subscription.period_end,
            retry_count: subscription.failures,
        })
    }
}

async fn issue_key(
    State(host): State<Host>,
    Id(user_id): Id,
    Body(wanted): Body<IssueKey>,
) -> Result<(StatusCode, Json<Issued>), Problem> {
    check_text("card_token", &wanted.card_token, 100)?;
    let tx = host.begin().await?;
    check_registered(&tx, &user_id).await?;
    let key = handlers::issue_key(&tx, &user_id, &wanted.card_token).await?;
    commit(tx).await?;
    let issued = Issued {
        billing_key_id: key.billing_key_id,
    };
    Ok((StatusCode::CREATED, Json(issued)))
}

async fn delete_key(State(host): State<Host>, Id(billing_key_id): Id) -> Result<StatusCode, Problem> {
    let tx = host.begin().await?;
    handlers::delete_key(&tx, &billing_key_id).await?;
    commit(tx).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns 201 when the charge succeeded, and 202 when its outcome is not known yet. If the subscription was suspended or
/// ended before the answer, the request is a conflict and the payment is refunded.
async fn start(
    State(host): State<Host>,
    Extension(till): Extension<Till>,
    Body(wanted): Body<Start>,
) -> Result<(StatusCode, Json<Shown>), Problem> {
    let plan = Plan::paid(&wanted.plan_code)?;
    check_id("guild_id", &wanted.guild_id)?;
    check_id("user_id", &wanted.user_id)?;
    let tx = host.begin().await?;
    let guild_version = check_installed(&tx, &wanted.guild_id).await?;
    let wanted = (wanted.guild_id.as_str(), wanted.user_id.as_str(), plan);
    let charge = handlers::open(&tx, &till, wanted, guild_version).await?;
    commit(tx).await?;
    let subscription = handlers::charge_first(host.store.db(), &till, charge).await?;
    let code = match subscription.status {
        Status::Pending => StatusCode::ACCEPTED,
        Status::Active | Status::PastDue => StatusCode::CREATED,
        Status::Suspended | Status::Canceled | Status::Declined => return Err(subscription.not_active().into()),
    };
    Ok((code, subscription.into()))
}

async fn upgrade(
    State(host): State<Host>,
    Id(subscription_id): Id,
    Body(wanted): Body<ChangePlan>,
) -> Result<Json<Shown>, Problem> {
    let plan = Plan::paid(&wanted.plan_code)?;
    let tx = host.begin().await?;
    let subscription = handlers::upgrade(&tx, &subscription_id, plan).await?;
    commit(tx).await?;
    Ok(subscription.into())
}

async fn downgrade(
    State(host): State<Host>,
    Extension(till): Extension<Till>,
    Id(subscription_id): Id,
    Body(wanted): Body<ChangePlan>,
) -> Result<Json<Shown>, Problem> {
    let plan = Plan::paid(&wanted.plan_code)?;
    let tx = host.begin().await?;
    let subscription = handlers::downgrade(&tx, &till, (&subscription_id, plan)).await?;
    commit(tx).await?;
    Ok(subscription.into())
}

async fn cancel(
    State(host): State<Host>,
    Id(subscription_id): Id,
    Body(wanted): Body<Cancel>,
) -> Result<Json<Shown>, Problem> {
    let tx = host.begin().await?;
    let subscription = handlers::cancel(&tx, &subscription_id, wanted.cancel_at_period_end).await?;
    commit(tx).await?;
    Ok(subscription.into())
}

async fn show(State(host): State<Host>, Id(subscription_id): Id) -> Result<Json<Shown>, Problem> {
    let tx = host.begin().await?;
    let subscription = tables::find(&tx, &subscription_id)
        .await?
        .ok_or_else(handlers::unknown)?;
    commit(tx).await?;
    Ok(subscription.into())
}

/// The newest subscription of the guild.
async fn show_of_guild(State(host): State<Host>, Id(guild_id): Id) -> Result<Json<Shown>, Problem> {
    let tx = host.begin().await?;
    let newest = tables::of_guild(&tx, &guild_id).await?.pop();
    commit(tx).await?;
    Ok(newest.ok_or_else(handlers::unknown)?.into())
}
