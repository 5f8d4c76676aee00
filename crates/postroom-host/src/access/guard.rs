//! The layer before the routes of a module: it admits a caller, or answers why not.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::doors::Authenticator;
use super::{Access, Caller};
use crate::server::ClientAddress;

/// The state of the layer.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) access: Access,
    pub(crate) module: &'static str,
}

/// Admits the caller of a request. Handlers find it as [`Caller`].
pub(crate) async fn admit(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let client = ClientAddress::of(request.extensions()).map(|client| client.0);
    let admitted = guard
        .authenticator
        .admit((guard.access, guard.module), request.headers(), client)
        .await;
    match admitted {
        Ok(caller) => {
            request.extensions_mut().insert::<Caller>(caller);
            next.run(request).await
        }
        Err(refusal) => refusal.into_response(),
    }
}
