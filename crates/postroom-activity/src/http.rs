//! The HTTP API for clients: `POST /api/v1/activity/events`, and the browser module that uses it.

mod answer;
mod body;
mod rate_limit;

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use postroom_host::{Access, Caller, ClientAddress, Host, Problem, Routes};

use crate::NAME;
use crate::ingest::Ingest;
use crate::policy::Sender;

use answer::Results;

const EVENTS: &str = "/api/v1/activity/events";
const BROWSER_MODULE: &str = "/api/v1/activity/client.js";

/// The browser module may be a few minutes old in a browser.
const BROWSER_MODULE_AGE: &str = "public, max-age=300";

/// The routes. They answer 404 while client ingest is switched off.
pub(crate) fn routes(ingest: Arc<Ingest>) -> Routes {
    Routes::new(Access::Open)
        .post(EVENTS, post)
        .get(BROWSER_MODULE, show_browser_module)
        .extension(ingest)
}

async fn post(
    State(host): State<Host>,
    Extension(ingest): Extension<Arc<Ingest>>,
    caller: Caller,
    client: ClientAddress,
    request: Request,
) -> Result<Response, Problem> {
    check_enabled(&ingest)?;
    let taken = ingest.count_request(&host, &client_name(&caller, client)).await;
    let response = if taken.is_allowed {
        handle(&host, &ingest, (&caller, client), request).await.into_response()
    } else {
        rate_limit::refusal(taken)
    };
    let limit = ingest.settings.ingest_rate_limit_per_minute;
    Ok(rate_limit::with_headers(response, limit, taken))
}

async fn handle(
    host: &Host,
    ingest: &Ingest,
    (caller, ClientAddress(address)): (&Caller, ClientAddress),
    request: Request,
) -> Result<Response, Response> {
    let sender = sender(caller, request.headers()).map_err(IntoResponse::into_response)?;
    let user_agent = request.headers().get(header::USER_AGENT);
    let user_agent = user_agent.map(|value| String::from_utf8_lossy(value.as_bytes()));
    let trace = ingest
        .privacy
        .trace(&address.to_canonical().to_string(), user_agent.as_deref());
    let body = body::read(request).await?;
    let events =
        body::split(&body, ingest.settings.ingest_max_batch_size.get()).map_err(IntoResponse::into_response)?;
    let answers = ingest.handle(host, &events, (sender, &trace)).await;
    Ok(Results::of(answers).into_response())
}

async fn show_browser_module(Extension(ingest): Extension<Arc<Ingest>>) -> Result<Response, Problem> {
    check_enabled(&ingest)?;
    let headers = [
        (header::CONTENT_TYPE, "text/javascript; charset=utf-8"),
        (header::CACHE_CONTROL, BROWSER_MODULE_AGE),
    ];
    Ok((headers, include_str!("browser/activity.js")).into_response())
}

fn check_enabled(ingest: &Ingest) -> Result<(), Problem> {
    if ingest.settings.client_ingest_enabled {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::NOT_FOUND,
        "client_ingest_disabled",
        format!("clients may not send activity events here; set client_ingest_enabled = true in [modules.{NAME}]"),
    ))
}

/// The sender of the events. A token that is not accepted is an error, not an anonymous request: the client gets a new token and sends
/// its events again.
fn sender(caller: &Caller, headers: &HeaderMap) -> Result<Sender, Problem> {
    match caller {
        Caller::Member(member) => match member.id.parse() {
            Ok(id) => Ok(Sender::Member(id)),
            Err(_not_a_number) => Err(Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "member_id",
                "the subject of this token is not a whole number; activity events have numbers of members",
            )),
        },
        Caller::Anonymous if has_token(headers) => Err(Problem::new(
            StatusCode::UNAUTHORIZED,
            "unauthenticated",
            "the token is not accepted; send a new one, or none",
        )),
        Caller::Anonymous | Caller::Local | Caller::Holder(_) => Ok(Sender::Anonymous),
    }
}

fn has_token(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::AUTHORIZATION).iter();
    let mut texts = values.map(|value| value.to_str().unwrap_or("?").trim());
    // An empty bearer token counts as none.
    texts.any(|text| !text.is_empty() && !text.eq_ignore_ascii_case("bearer"))
}

/// The client as the rate limit counts it: a member, or an address. IPv6 addresses count per /64: one client has at least that.
fn client_name(caller: &Caller, ClientAddress(address): ClientAddress) -> String {
    match (caller, address) {
        (Caller::Member(member), _) => format!("{NAME}/member/{}", member.id),
        (_, IpAddr::V4(address)) => format!("{NAME}/address/{address}"),
        (_, IpAddr::V6(address)) => {
            let network = Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX));
            format!("{NAME}/address/{network}")
        }
    }
}
