//! The demonstration at `/community/demo`: a page with two members side by side, and switches that break what is between them.
//!
//! It exists only in a process that was given a [`Demo`]. Its routes admit a caller on this machine that needs no token here, and
//! nobody else: with locked doors, behind a proxy, or with a token of any kind they refuse.

mod faults;
mod numbers;
mod page;

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Extension, FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use postroom::operate;
use postroom_access::MemberKeys;
use postroom_host::{Access, Body, Caller, Host, Module, Problem, Routes};
use postroom_shared::SharedState;
use serde::{Deserialize, Serialize};

use faults::{Faults, LossyFanOut};

/// The members of the demonstration.
const MEMBERS: [i64; 2] = [1, 2];
/// Short, so that the page shows how tokens are replaced.
const TOKEN_LIFETIME: Duration = Duration::from_mins(10);
/// Frames that one call may lose.
const FRAMES_MAX: u32 = 100;
/// The routes that the page may pause.
const ROUTES: [&str; 2] = [crate::NOTIFICATION, "chat_persist"];

/// A demonstration: the tokens of its members, and its faults. Cloning it is cheap.
#[derive(Clone, Debug)]
pub struct Demo {
    keys: MemberKeys,
    faults: Arc<Faults>,
}

impl Demo {
    /// A demonstration whose process checks tokens of members with these keys. They must be a secret: others make no tokens.
    pub fn new(keys: MemberKeys) -> Self {
        Self {
            keys,
            faults: Arc::default(),
        }
    }

    /// The same state, with a fan-out that loses frames when the page asks for it.
    #[must_use]
    pub fn shared(&self, state: SharedState) -> SharedState {
        let fan_out = LossyFanOut::new(Arc::clone(&state.fan_out), Arc::clone(&self.faults));
        SharedState {
            fan_out: Arc::new(fan_out),
            ..state
        }
    }

    /// Adds the page and its switches to the module.
    #[must_use]
    pub fn join(&self, module: Module) -> Module {
        let routes = page::routes(Routes::new(Access::Viewer))
            .get("/community/demo/numbers", numbers::show)
            .post("/community/demo/token", token)
            .post("/community/demo/lose", lose)
            .post("/community/demo/pause", pause)
            .extension(self.clone());
        module.http(routes)
    }
}

/// A caller on this machine, at a server that asks for no token.
#[derive(Clone, Copy, Debug)]
struct Here;

impl<S: Send + Sync> FromRequestParts<S> for Here {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        match parts.extensions.get() {
            Some(Caller::Local) => Ok(Self),
            _ => {
                let detail = "the demonstration is for callers on this machine, at a server that asks for no token";
                Err(Problem::new(StatusCode::FORBIDDEN, "demo_only_here", detail))
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Wanted {
    member_id: i64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Minted {
    member_id: i64,
    token: String,
    expires_in_seconds: u64,
}

/// A token for a member of the demonstration.
async fn token(
    Here: Here,
    Extension(demo): Extension<Demo>,
    Body(wanted): Body<Wanted>,
) -> Result<Json<Minted>, Problem> {
    let member_id = wanted.member_id;
    if !MEMBERS.contains(&member_id) {
        return Err(Problem::invalid(format!(
            "member {member_id} is not in the demonstration; its members are 1 and 2"
        )));
    }
    Ok(Json(Minted {
        member_id,
        token: demo.keys.mint(&member_id.to_string(), TOKEN_LIFETIME)?,
        expires_in_seconds: TOKEN_LIFETIME.as_secs(),
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Loss {
    frames: u32,
}

/// Loses the next frames on their way from the database to the connections.
async fn lose(Here: Here, Extension(demo): Extension<Demo>, Body(loss): Body<Loss>) -> Result<StatusCode, Problem> {
    if loss.frames > FRAMES_MAX {
        return Err(Problem::invalid(format!(
            "frames is {}; it must be 0 to {FRAMES_MAX}",
            loss.frames
        )));
    }
    match demo.faults.lose(loss.frames) {
        true => Ok(StatusCode::NO_CONTENT),
        false => {
            let detail = "frames are lost on purpose only where no other process gets them: without Redis";
            Err(Problem::new(StatusCode::CONFLICT, "shared", detail))
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Pause {
    route: String,
    is_paused: bool,
}

/// Pauses a worker or lets it go on, as an operator does.
async fn pause(Here: Here, State(host): State<Host>, Body(pause): Body<Pause>) -> Result<StatusCode, Problem> {
    if !ROUTES.contains(&pause.route.as_str()) {
        return Err(Problem::invalid(format!(
            "the page pauses {} only",
            ROUTES.join(" and ")
        )));
    }
    operate::set_paused(&*host.store, &pause.route, pause.is_paused, "demo").await?;
    Ok(StatusCode::NO_CONTENT)
}
