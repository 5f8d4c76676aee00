//! The body of a request: its media type, its encoding, its size, and the events in it.

use std::io::Read as _;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequest as _, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flate2::read::MultiGzDecoder;
use postroom_host::Problem;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The largest body, as it is sent and after decompression.
const BODY_BYTES_MAX: usize = 1 << 20;

/// How the body is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Plain,
    Gzip,
}

/// Reads the whole body, decompressed.
pub(super) async fn read(mut request: Request) -> Result<Bytes, Response> {
    check_media_type(request.headers()).map_err(IntoResponse::into_response)?;
    let encoding = encoding(request.headers()).map_err(|problem| {
        let accepted = [(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"))];
        (accepted, problem).into_response()
    })?;
    DefaultBodyLimit::max(BODY_BYTES_MAX).apply(&mut request);
    let body = Bytes::from_request(request, &()).await;
    let body = body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => too_large().into_response(),
        status => Problem::new(status, "malformed", "the body could not be read").into_response(),
    })?;
    match encoding {
        Encoding::Plain => Ok(body),
        Encoding::Gzip => unzip(&body).map(Bytes::from).map_err(IntoResponse::into_response),
    }
}

/// The events of a body, each as JSON.
pub(super) fn split(body: &[u8], events_max: usize) -> Result<Vec<&str>, Problem> {
    #[derive(Deserialize)]
    struct Batch<'a> {
        #[serde(borrow)]
        events: Vec<&'a RawValue>,
    }
    let malformed = |says: String| Problem::new(StatusCode::BAD_REQUEST, "malformed", says);
    let text = std::str::from_utf8(body).map_err(|error| malformed(format!("the body is not UTF-8: {error}")))?;
    let batch: Batch<'_> = serde_json::from_str(text)
        .map_err(|error| malformed(format!("the body must be {{\"events\":[…]}}: {error}")))?;
    let count = batch.events.len();
    if count > events_max {
        let detail = format!(
            "the request has {count} events, the limit is {events_max} (ingest_max_batch_size); send several requests"
        );
        return Err(Problem::new(StatusCode::BAD_REQUEST, "too_many_events", detail));
    }
    Ok(batch.events.into_iter().map(RawValue::get).collect())
}

/// JSON, or the text that a browser sends without asking first (`navigator.sendBeacon`, requests without a CORS preflight).
fn check_media_type(headers: &HeaderMap) -> Result<(), Problem> {
    let value = text(headers, &header::CONTENT_TYPE);
    let kind = value.split(';').next().unwrap_or_default().trim();
    if ["application/json", "text/plain"]
        .iter()
        .any(|known| kind.eq_ignore_ascii_case(known))
    {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "media_type",
        format!("the content-type is {kind:?}; send application/json, or text/plain with JSON in it"),
    ))
}

fn encoding(headers: &HeaderMap) -> Result<Encoding, Problem> {
    match text(headers, &header::CONTENT_ENCODING).to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(Encoding::Plain),
        "gzip" | "x-gzip" => Ok(Encoding::Gzip),
        other => Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "encoding",
            format!("the content-encoding is {other:?}; send gzip, or none"),
        )),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    let value = headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    value.unwrap_or_default().trim()
}

/// Decompresses up to the limit, and no byte more.
fn unzip(body: &[u8]) -> Result<Vec<u8>, Problem> {
    let mut plain = Vec::new();
    let mut limited = MultiGzDecoder::new(body).take(BODY_BYTES_MAX as u64 + 1);
    match limited.read_to_end(&mut plain) {
        Ok(read) if read > BODY_BYTES_MAX => Err(too_large()),
        Ok(_) => Ok(plain),
        Err(error) => Err(Problem::new(
            StatusCode::BAD_REQUEST,
            "malformed",
            format!("the body is not gzip: {error}"),
        )),
    }
}

fn too_large() -> Problem {
    let detail = format!("the body has more than {BODY_BYTES_MAX} bytes (decompressed); send several requests");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn zip(plain: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn gzip_is_decompressed_up_to_the_limit() {
        assert_eq!(unzip(&zip(b"{}")).unwrap(), b"{}");
        assert_eq!(unzip(&zip(&vec![b' '; BODY_BYTES_MAX])).unwrap().len(), BODY_BYTES_MAX);
        let bomb = zip(&vec![0; 200 << 20]);
        assert!(bomb.len() < BODY_BYTES_MAX);
        assert_eq!(unzip(&bomb).unwrap_err().code(), "too_large");
        let parts = [zip(b"{"), zip(b"}")].concat();
        assert_eq!(unzip(&parts).unwrap(), b"{}", "several members");
        assert_eq!(unzip(b"{}").unwrap_err().code(), "malformed");
        let whole = zip(b"{}");
        assert_eq!(
            unzip(&whole[..whole.len() - 1]).unwrap_err().code(),
            "malformed",
            "cut off"
        );
    }

    #[test]
    fn media_types_and_encodings_are_told_apart() {
        let headers =
            |name: HeaderName, value: &'static str| HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
        for (kind, is_accepted) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("text/plain;charset=UTF-8", true),
            ("text/html", false),
            ("", false),
        ] {
            let checked = check_media_type(&headers(header::CONTENT_TYPE, kind));
            assert_eq!(checked.is_ok(), is_accepted, "{kind}");
        }
        for (value, expected) in [
            ("", Some(Encoding::Plain)),
            ("GZIP", Some(Encoding::Gzip)),
            ("br", None),
            ("gzip, gzip", None),
        ] {
            let found = encoding(&headers(header::CONTENT_ENCODING, value));
            assert_eq!(found.ok(), expected, "{value}");
        }
    }

    #[test]
    fn a_batch_has_a_list_of_events_and_a_limit() {
        let codes = |body: &[u8]| split(body, 2).map_or_else(|problem| problem.code(), |_| "read");
        assert_eq!(
            split(br#"{"events":[{"a":1},2],"sentAt":"x"}"#, 2).unwrap(),
            [r#"{"a":1}"#, "2"]
        );
        assert_eq!(codes(br#"{"events":[1,2,3]}"#), "too_many_events");
        for body in [
            b"".as_slice(),
            b"[]",
            b"{}",
            br#"{"events":{}}"#,
            b"\xff",
            br#"{"events":[]} x"#,
        ] {
            assert_eq!(codes(body), "malformed", "{body:?}");
        }
        assert_eq!(
            split(br#"{"events":["\ud800",1]}"#, 2).unwrap().len(),
            2,
            "one bad event costs no other"
        );
    }
}
