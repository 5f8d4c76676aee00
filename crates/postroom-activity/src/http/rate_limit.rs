//! The rate limit in headers, as the IETF draft `draft-ietf-httpapi-ratelimit-headers-11` has them.

use std::num::NonZeroU32;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use postroom_host::Problem;
use postroom_shared::Taken;

use crate::ingest::WINDOW;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// The name of the policy in both headers.
const NAME: &str = "client";

/// The answer to a request above the limit.
pub(super) fn refusal(taken: Taken) -> Response {
    let seconds = whole_seconds(taken.resets_in);
    let detail = format!("too many requests of this client; keep the events and send them again in {seconds} s");
    let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", detail);
    ([(header::RETRY_AFTER, HeaderValue::from(seconds))], problem).into_response()
}

/// The response with the limit, and what is left of it.
pub(super) fn with_headers(mut response: Response, limit: NonZeroU32, taken: Taken) -> Response {
    let policy = format!("\"{NAME}\";q={limit};w={}", WINDOW.as_secs());
    let left = format!("\"{NAME}\";r={};t={}", taken.remaining, whole_seconds(taken.resets_in));
    for (name, text) in [(POLICY, policy), (LIMIT, left)] {
        if let Ok(value) = HeaderValue::try_from(text) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// Rounded up, so that a client that waits this long is allowed.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_says_what_is_left() {
        let taken = Taken {
            is_allowed: false,
            remaining: 0,
            resets_in: Duration::from_millis(1_001),
        };
        let response = with_headers(refusal(taken), const { NonZeroU32::new(120).unwrap() }, taken);
        let header = |name: HeaderName| response.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(header(header::RETRY_AFTER), "2");
        assert_eq!(header(POLICY), "\"client\";q=120;w=60");
        assert_eq!(header(LIMIT), "\"client\";r=0;t=2");
    }
}
