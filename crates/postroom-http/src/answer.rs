//! From an HTTP answer to a receipt, or to a messenger's reply. Pure.

use std::time::Duration;

use postroom::Receipt;
use postroom::alert::Reply;
use reqwest::StatusCode;

/// How much of a body is kept with a refusal.
const BODY_CHARS_MAX: usize = 500;

/// Only 2xx is success. An answer that speaks of the whole endpoint makes it unavailable: nobody's fault, tried again with
/// patience. The rest may be about this event, also a gateway whose receiver it crashed: its policy decides how often it is
/// tried.
pub(crate) fn judge(status: StatusCode, body: &str) -> Receipt {
    let says = words(status, body);
    match status {
        _ if status.is_success() => Receipt::Delivered,
        _ if status.is_redirection() => Receipt::Refused(says),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Receipt::Unavailable(says),
        StatusCode::PAYLOAD_TOO_LARGE => Receipt::Rejected(says),
        _ => Receipt::Refused(says),
    }
}

/// What an answer to a notice means. Busy and broken servers are asked again; the rest would be said again.
pub(crate) fn reply(status: StatusCode, after: Option<Duration>, body: &str) -> Reply {
    let says = words(status, body);
    match status {
        _ if status.is_success() => Reply::Taken,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => Reply::Later { says, after },
        _ if status.is_server_error() => Reply::Later { says, after },
        _ => Reply::Refused(says),
    }
}

fn words(status: StatusCode, body: &str) -> String {
    let words: String = body.chars().take(BODY_CHARS_MAX).collect();
    match words.trim() {
        _ if status.is_redirection() => format!("{status}; redirects are not followed, set the new address"),
        "" => status.to_string(),
        _ => format!("{status}: {words}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_success_patience_or_a_refusal() {
        let check = |status: u16, expected: Receipt| {
            assert_eq!(judge(StatusCode::from_u16(status).unwrap(), " why "), expected);
        };
        check(200, Receipt::Delivered);
        check(204, Receipt::Delivered);
        check(
            302,
            Receipt::Refused("302 Found; redirects are not followed, set the new address".into()),
        );
        check(400, Receipt::Refused("400 Bad Request:  why ".into()));
        check(413, Receipt::Rejected("413 Payload Too Large:  why ".into()));
        check(429, Receipt::Unavailable("429 Too Many Requests:  why ".into()));
        check(500, Receipt::Refused("500 Internal Server Error:  why ".into()));
        check(502, Receipt::Refused("502 Bad Gateway:  why ".into()));
        check(503, Receipt::Unavailable("503 Service Unavailable:  why ".into()));
        let long = judge(StatusCode::IM_A_TEAPOT, &"é".repeat(9_000));
        assert!(matches!(long, Receipt::Refused(says) if says.chars().count() < 600));
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
