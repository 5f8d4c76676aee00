//! Cross-origin requests (CORS): web pages of the listed origins may call the server and read its responses.

use std::time::Duration;

use axum::Router;
use axum::http::{HeaderName, HeaderValue, Method, header};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use super::name::Origin;

/// How long a browser may remember the answer to a preflight request.
const PREFLIGHT_AGE_MAX: Duration = Duration::from_secs(60 * 60);

/// How much a client may still ask, and the rule behind it: a page can slow down before it is refused.
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The routes, for pages of these origins too. Cookies and passwords of the browser are never sent along: clients show who they
/// are in `Authorization`, which a page must have itself. A listed origin may send any header: CloudEvents have headers with names
/// of their own (`ce-…`), and CORS has no wildcard for a part of a name.
pub(super) fn allow(origins: &[Origin], routes: Router) -> Router {
    let origins: Vec<HeaderValue> = origins
        .iter()
        .filter_map(|origin| origin.as_str().parse().ok())
        .collect();
    if origins.is_empty() {
        return routes;
    }
    let methods = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
    ];
    let layer = CorsLayer::new()
        .allow_origin(AllowOrigin::list(origins))
        .allow_methods(methods)
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([header::LOCATION, header::RETRY_AFTER, RATE_LIMIT, RATE_LIMIT_POLICY])
        .max_age(PREFLIGHT_AGE_MAX);
    routes.layer(layer)
}
