//! From an HTTP answer to a receipt. Pure.

use postroom::Receipt;
use reqwest::StatusCode;

/// How much of a body is kept with a refusal.
const BODY_CHARS_MAX: usize = 500;

/// Only 2xx is success. An answer that speaks of the whole endpoint makes it unavailable: nobody's fault, tried again with
/// patience. The rest may be about this event, also a gateway whose receiver it crashed: its policy decides how often it is
/// tried.
pub(crate) fn judge(status: StatusCode, body: &str) -> Receipt {
    let words: String = body.chars().take(BODY_CHARS_MAX).collect();
    let says = if words.trim().is_empty() {
        status.to_string()
    } else {
        format!("{status}: {words}")
    };
    match status {
        _ if status.is_success() => Receipt::Delivered,
        _ if status.is_redirection() => {
            Receipt::Refused(format!("{status}; redirects are not followed, set the new address"))
        }
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Receipt::Unavailable(says),
        StatusCode::PAYLOAD_TOO_LARGE => Receipt::Rejected(says),
        _ => Receipt::Refused(says),
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
}
