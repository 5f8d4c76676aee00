//! Access: what a route asks of its callers, and who a caller is.

mod doors;
pub(crate) mod guard;
mod tokens;

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use postroom::operate::token::{Role, Scope, Token};
use postroom_access::Member;
use serde::Serialize;

use crate::platform::OWN;

pub(crate) use doors::Authenticator;
pub use doors::Doors;

/// The requirement of a route for its callers: a token, or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Nothing.
    Open,
    /// The token of a member of the application (a JWT).
    Member,
    /// The token of a service whose scope includes the module (for `/api/v1/events`: event types), or of an admin.
    Service,
    /// The token of a person.
    Viewer,
    /// The token of an operator or an admin.
    Operator,
    /// The token of an admin.
    Admin,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Member => "member",
            Self::Service => "service",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        })
    }
}

/// The caller of a request. A handler takes it as an argument.
#[derive(Clone, Debug)]
pub enum Caller {
    /// A caller that showed no token that is accepted, on an open route.
    Anonymous,
    /// A caller on this machine that showed no token, and needs none here.
    Local,
    /// The holder of a token: a service or a person.
    Holder(Arc<Token>),
    /// A member of the application.
    Member(Arc<Member>),
}

impl Caller {
    /// Whether it may use a route of this module with this requirement.
    pub(crate) fn may(&self, access: Access, module: &str) -> bool {
        match (access, self) {
            (Access::Open, _) | (Access::Member, Self::Member(_)) => true,
            (Access::Member, _) | (_, Self::Member(_) | Self::Anonymous) => false,
            (_, Self::Local) => true,
            (_, Self::Holder(token)) => match (access, token.role) {
                (_, Role::Admin)
                | (Access::Operator | Access::Viewer, Role::Operator)
                | (Access::Viewer, Role::Viewer) => true,
                (Access::Service, Role::Service) if module == OWN => !token.scope.emit.is_empty(),
                (Access::Service, Role::Service) => token.scope.includes_module(module),
                _ => false,
            },
        }
    }

    /// Whether it may see details of the process, as on a route for viewers.
    pub(crate) fn is_viewer(&self) -> bool {
        self.may(Access::Viewer, OWN)
    }

    /// The scope of a service.
    pub(crate) fn scope(&self) -> Option<&Scope> {
        match self {
            Self::Holder(token) if token.role == Role::Service => Some(&token.scope),
            _ => None,
        }
    }

    /// Its name for the operators' log.
    pub fn name(&self) -> String {
        match self {
            Self::Anonymous => "anonymous".to_owned(),
            Self::Local => "local".to_owned(),
            Self::Holder(token) => format!("token:{}", token.name),
            Self::Member(member) => format!("member:{}", member.id),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or(Self::Anonymous))
    }
}
