//! The doors of a process: whether callers need a token here, and how a token is checked.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use postroom::Inspect;
use postroom_access::{FailedTries, Member, MemberKeys, Refused, RetryAfter};

use super::tokens::Tokens;
use super::{Access, Caller};
use crate::platform::OWN;
use crate::problem::Problem;
use crate::server::is_forwarded;

/// How the callers of HTTP routes are checked: the doors are locked if a caller needs a token. The default is
/// [`Doors::unlocked`].
#[derive(Clone, Debug, Default)]
pub struct Doors {
    is_locked: bool,
    members: Option<MemberKeys>,
    metrics: Option<Access>,
}

impl Doors {
    /// Every route but those that are [`Access::Open`] needs a token.
    pub fn locked() -> Self {
        Self {
            is_locked: true,
            ..Self::default()
        }
    }

    /// No token is needed, except that of a member on a route for members. For a server that only this machine can reach.
    pub fn unlocked() -> Self {
        Self::default()
    }

    /// Sets the keys with which tokens of members are checked.
    #[must_use]
    pub fn members(mut self, keys: MemberKeys) -> Self {
        self.members = Some(keys);
        self
    }

    /// Sets what `/metrics` asks of its callers, if not [`Access::Viewer`].
    #[must_use]
    pub fn metrics(mut self, access: Access) -> Self {
        self.metrics = Some(access);
        self
    }

    pub(crate) fn metrics_access(&self) -> Access {
        self.metrics.unwrap_or(Access::Viewer)
    }

    /// Whether callers need a token.
    pub fn is_locked(&self) -> bool {
        self.is_locked
    }

    pub(crate) fn authenticator(&self, store: &dyn Inspect) -> Authenticator {
        Authenticator {
            is_locked: self.is_locked,
            members: self.members.clone(),
            tokens: Tokens::new(store),
            tries: FailedTries::default(),
        }
    }
}

/// Checks the callers of one process.
#[derive(Debug)]
pub(crate) struct Authenticator {
    is_locked: bool,
    members: Option<MemberKeys>,
    tokens: Tokens,
    tries: FailedTries,
}

/// Why a caller is refused.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The route needs a token, and there is none.
    NoToken(Access),
    /// The token is not accepted.
    BadToken(String),
    /// Too many tries with bad tokens.
    TooMany(RetryAfter),
    /// The token is accepted, and does not suffice.
    Forbidden(String),
    /// The request came through a proxy, and the doors are unlocked for this machine only.
    Forwarded,
    /// The token could not be checked.
    Unchecked,
}

impl Authenticator {
    /// The caller of a request that comes to a route of this module which asks this.
    pub(crate) async fn admit(
        &self,
        (access, module): (Access, &str),
        headers: &HeaderMap,
        client: Option<IpAddr>,
    ) -> Result<Caller, Refusal> {
        let caller = match self.caller(headers, client).await {
            // An open route does not depend on tokens, nor on the store that has them.
            Err(_) if access == Access::Open => Caller::Anonymous,
            caller => caller?,
        };
        match &caller {
            _ if caller.may(access, module) => Ok(caller),
            Caller::Anonymous | Caller::Local => Err(Refusal::NoToken(access)),
            _ => Err(Refusal::Forbidden(forbidden(&caller, access, module))),
        }
    }

    async fn caller(&self, headers: &HeaderMap, client: Option<IpAddr>) -> Result<Caller, Refusal> {
        match bearer(headers)? {
            Some(token) => self.identify(token, client).await,
            None if self.is_locked => Ok(Caller::Anonymous),
            None if is_forwarded(headers) => Err(Refusal::Forwarded),
            None => Ok(Caller::Local),
        }
    }

    /// The member whose token this is.
    pub(crate) async fn member(&self, token: &str, client: Option<IpAddr>) -> Result<Arc<Member>, Problem> {
        match self.identify(token, client).await {
            Ok(Caller::Member(member)) => Ok(member),
            Ok(other) => Err(Refusal::Forbidden(forbidden(&other, Access::Member, OWN)).problem()),
            Err(refusal) => Err(refusal.problem()),
        }
    }

    /// The holder of a token.
    async fn identify(&self, token: &str, client: Option<IpAddr>) -> Result<Caller, Refusal> {
        // A token that is known costs no try: a client behind the same address as a guesser is served.
        if token.starts_with("postroom_") {
            let found = self.tokens.find(token).await.map_err(|_logged| Refusal::Unchecked)?;
            return match found {
                Some(token) => Ok(Caller::Holder(token)),
                None => Err(self.failed(client, "it is unknown, expired or revoked".to_owned())),
            };
        }
        let Some(keys) = &self.members else {
            return Err(self.failed(
                client,
                "it is not a token of Postroom, and this server has no keys to check the tokens of members".to_owned(),
            ));
        };
        match keys.verify(token).await {
            Ok(member) => Ok(Caller::Member(Arc::new(member))),
            Err(Refused::KeysUnavailable) => Err(Refusal::Unchecked),
            Err(
                refused @ (Refused::Malformed | Refused::WrongAlgorithm | Refused::UnknownKey | Refused::BadSignature),
            ) => Err(self.failed(client, refused.to_string())),
            // Its signature is right, so it is no guess.
            Err(refused) => Err(Refusal::BadToken(refused.to_string())),
        }
    }

    fn failed(&self, client: Option<IpAddr>, why: String) -> Refusal {
        let now = Instant::now();
        let Some(client) = client else {
            return Refusal::BadToken(why);
        };
        match self.tries.check(client, now) {
            Err(wait) => Refusal::TooMany(wait),
            Ok(()) => {
                self.tries.failed(client, now);
                Refusal::BadToken(why)
            }
        }
    }
}

/// The token of the header `authorization: Bearer …`. An empty one counts as none, so that one command line works with doors that
/// are locked and with doors that are not.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = match (values.next(), values.next()) {
        (None, _) => return Ok(None),
        (Some(value), None) => value,
        (Some(_), Some(_)) => {
            let says = "the request has several headers authorization; send one";
            return Err(Refusal::BadToken(says.to_owned()));
        }
    };
    let text = value.to_str().unwrap_or_default().trim();
    let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
    match (scheme.eq_ignore_ascii_case("bearer"), token.trim()) {
        (true, "") => Ok(None),
        (true, token) => Ok(Some(token)),
        (false, _) => Err(Refusal::BadToken(
            "the header authorization must be `Bearer`, a space and the token".to_owned(),
        )),
    }
}

fn forbidden(caller: &Caller, access: Access, module: &str) -> String {
    let holder = match caller {
        Caller::Holder(token) => format!("the token {:?} has the role {}", token.name, token.role),
        Caller::Member(_) | Caller::Anonymous | Caller::Local => "this is the token of a member".to_owned(),
    };
    let needed = match access {
        Access::Member => "the token of a member of the application".to_owned(),
        Access::Service if module == OWN => "the token of a service with --emit, or of an admin".to_owned(),
        Access::Service => format!("the token of a service with --module {module}, or of an admin"),
        _ => format!("a token with the role {access}"),
    };
    format!("{holder}; this route needs {needed}")
}

impl Refusal {
    fn problem(&self) -> Problem {
        let unauthenticated = |detail: &str| Problem::new(StatusCode::UNAUTHORIZED, "unauthenticated", detail);
        match self {
            Self::NoToken(Access::Member) => {
                unauthenticated("send the token of a member as `authorization: Bearer TOKEN`")
            }
            Self::NoToken(_) => {
                unauthenticated("send a token as `authorization: Bearer TOKEN`; `postroom token create` makes one")
            }
            Self::BadToken(why) => unauthenticated(&format!("the token is not accepted: {why}")),
            Self::TooMany(wait) => {
                let seconds = wait.seconds();
                let detail = format!("too many tokens of this client were refused; try again in {seconds} s");
                Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_tries", detail)
            }
            Self::Forbidden(why) => Problem::new(StatusCode::FORBIDDEN, "forbidden", why),
            Self::Forwarded => {
                let detail = "this request came through a proxy, and without a token this server admits only callers on its own \
                              machine; send a token, or set access.locked = true";
                Problem::new(StatusCode::FORBIDDEN, "forwarded", detail)
            }
            Self::Unchecked => Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "unavailable",
                "the token cannot be checked now; try again later",
            ),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let problem = self.problem();
        match self {
            Self::NoToken(_) | Self::BadToken(_) => {
                let bearer = HeaderValue::from_static("Bearer");
                ([(header::WWW_AUTHENTICATE, bearer)], problem).into_response()
            }
            Self::TooMany(wait) => {
                let seconds = HeaderValue::from(wait.seconds());
                ([(header::RETRY_AFTER, seconds)], problem).into_response()
            }
            Self::Forbidden(_) | Self::Forwarded | Self::Unchecked => problem.into_response(),
        }
    }
}
