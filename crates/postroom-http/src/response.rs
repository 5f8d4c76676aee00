//! Pure functions that map an HTTP response to a receipt, or to a messenger's reply.

use std::time::{Duration, SystemTime};

use postroom::alert::Reply;
use postroom::{Receipt, clock};
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use reqwest::{Response, StatusCode};

/// Length of the response body in an error text.
const BODY_CHARS_MAX: usize = 500;

/// The receipt of an event. Only 2xx is success. A status that concerns the whole endpoint means that it is unavailable, which
/// is no failure of the event. Any other status may concern the event, also that of a gateway whose backend the event crashed:
/// the retry policy decides.
pub(crate) fn receipt(status: StatusCode, after: Option<Duration>, body: &str) -> Receipt {
    let text = text(status, body);
    match status {
        _ if status.is_success() => Receipt::Delivered,
        _ if status.is_redirection() => Receipt::Refused(text),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Receipt::Unavailable { says: text, after },
        StatusCode::PAYLOAD_TOO_LARGE => Receipt::Rejected(text),
        _ => Receipt::Refused(text),
    }
}

/// The reply to a notice. A retry is useful for busy and failing servers; other statuses would repeat.
pub(crate) fn reply(status: StatusCode, after: Option<Duration>, body: &str) -> Reply {
    let text = text(status, body);
    match status {
        _ if status.is_success() => Reply::Taken,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => Reply::Later { says: text, after },
        _ if status.is_server_error() => Reply::Later { says: text, after },
        _ => Reply::Refused(text),
    }
}

/// The delay in the header `Retry-After` of a response.
pub(crate) fn read_retry_after(response: &Response) -> Option<Duration> {
    retry_after(response.headers(), clock::now().into())
}

/// The delay in the header `Retry-After`: seconds, or a date. A date is compared with the clock of the server if the response tells
/// it (`Date`), else with `now`.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name| headers.get(name)?.to_str().ok().map(str::trim);
    let after = text(RETRY_AFTER)?;
    if let Ok(seconds) = after.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(after).ok()?;
    let now = text(DATE)
        .and_then(|date| httpdate::parse_http_date(date).ok())
        .unwrap_or(now);
    Some(date.duration_since(now).unwrap_or_default())
}

fn text(status: StatusCode, body: &str) -> String {
    let start: String = body.chars().take(BODY_CHARS_MAX).collect();
    match start.trim() {
        _ if status.is_redirection() => format!("{status}; redirects are not followed, set the new address"),
        "" => status.to_string(),
        _ => format!("{status}: {start}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_success_unavailability_or_a_refusal() {
        let check = |status: u16, expected: Receipt| {
            let after = Some(Duration::from_secs(7));
            assert_eq!(receipt(StatusCode::from_u16(status).unwrap(), after, " why "), expected);
        };
        let unavailable = |says: &str| Receipt::Unavailable {
            says: says.to_owned(),
            after: Some(Duration::from_secs(7)),
        };
        check(200, Receipt::Delivered);
        check(204, Receipt::Delivered);
        check(
            302,
            Receipt::Refused("302 Found; redirects are not followed, set the new address".into()),
        );
        check(400, Receipt::Refused("400 Bad Request:  why ".into()));
        check(413, Receipt::Rejected("413 Payload Too Large:  why ".into()));
        check(429, unavailable("429 Too Many Requests:  why "));
        check(500, Receipt::Refused("500 Internal Server Error:  why ".into()));
        check(502, Receipt::Refused("502 Bad Gateway:  why ".into()));
        check(503, unavailable("503 Service Unavailable:  why "));
        let long = receipt(StatusCode::IM_A_TEAPOT, None, &"é".repeat(9_000));
        assert!(matches!(long, Receipt::Refused(text) if text.chars().count() < 600));
    }

    #[test]
    fn retry_after_is_a_number_of_seconds_or_a_date() {
        let now = httpdate::parse_http_date("Wed, 18 Nov 2026 06:00:00 GMT").unwrap();
        let check = |after: &str, date: Option<&'static str>, expected: Option<u64>| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, after.parse().unwrap());
            headers.extend(date.map(|date| (DATE, date.parse().unwrap())));
            let expected = expected.map(Duration::from_secs);
            assert_eq!(retry_after(&headers, now), expected, "{after:?} at {date:?}");
        };
        check("120", None, Some(120));
        check(" 0 ", None, Some(0));
        check("Wed, 18 Nov 2026 06:01:30 GMT", None, Some(90));
        check("Wed, 18 Nov 2026 05:59:00 GMT", None, Some(0));
        let server = Some("Wed, 18 Nov 2026 06:01:00 GMT");
        check("Wed, 18 Nov 2026 06:01:30 GMT", server, Some(30));
        check("Wed, 18 Nov 2026 06:01:30 GMT", Some("today"), Some(90));
        for wrong in ["", "soon", "-1", "1.5", "99999999999999999999"] {
            check(wrong, None, None);
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }

    #[test]
    fn a_notice_is_taken_tried_again_or_refused_for_good() {
        let after = Some(Duration::from_secs(7));
        let check = |status: u16, body: &str, expected: Reply| {
            assert_eq!(reply(StatusCode::from_u16(status).unwrap(), after, body), expected);
        };
        let later = |says: &str| Reply::Later {
            says: says.to_owned(),
            after,
        };
        check(200, "ok", Reply::Taken);
        check(202, r#"{"status":"success"}"#, Reply::Taken);
        check(
            400,
            "invalid_payload",
            Reply::Refused("400 Bad Request: invalid_payload".into()),
        );
        check(
            403,
            "action_prohibited",
            Reply::Refused("403 Forbidden: action_prohibited".into()),
        );
        check(404, "no_service", Reply::Refused("404 Not Found: no_service".into()));
        check(
            301,
            "moved",
            Reply::Refused("301 Moved Permanently; redirects are not followed, set the new address".into()),
        );
        check(408, "", later("408 Request Timeout"));
        check(429, "rate_limited", later("429 Too Many Requests: rate_limited"));
        check(500, "rollup_error", later("500 Internal Server Error: rollup_error"));
        check(503, "", later("503 Service Unavailable"));
    }
}
