//! The client for browsers: an ES module, served as it is.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use postroom_host::{Access, Routes};

/// The address of the module.
const PATH: &str = "/realtime/client.js";

/// The files of one module: one download, and never files of two versions.
const MODULE: &str = concat!(
    include_str!("../browser/realtime.js"),
    include_str!("../browser/sse.js"),
    include_str!("../browser/tabs.js"),
    include_str!("../browser/event_log.js"),
    include_str!("../browser/outbox.js"),
    include_str!("../browser/notifications.js"),
    include_str!("../browser/event_source.js"),
    include_str!("../browser/chat.js"),
);

/// It may be a few minutes old in a browser.
const CACHE_CONTROL: &str = "public, max-age=300";

/// Serves the client for browsers at `/realtime/client.js`: `connectNotifications`, `openEventSource` and `connectChat`.
/// `docs/guide/realtime-browser.md` describes them. A process needs these routes once.
pub fn browser_client() -> Routes {
    Routes::new(Access::Open).get(PATH, show)
}

async fn show(headers: HeaderMap) -> Response {
    let tag = tag();
    let cached = [
        (header::CACHE_CONTROL, HeaderValue::from_static(CACHE_CONTROL)),
        (header::ETAG, tag.clone()),
    ];
    if is_known(&headers, &tag) {
        return (StatusCode::NOT_MODIFIED, cached).into_response();
    }
    let kind = [(header::CONTENT_TYPE, "text/javascript; charset=utf-8")];
    (cached, kind, MODULE).into_response()
}

/// The same for the same text.
fn tag() -> HeaderValue {
    let mut hasher = DefaultHasher::new();
    MODULE.hash(&mut hasher);
    // Digits and quotes are valid in a header.
    HeaderValue::from_str(&format!("\"{:016x}\"", hasher.finish())).unwrap_or(HeaderValue::from_static("\"\""))
}

/// Whether the browser has this version.
fn is_known(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let known = headers.get_all(header::IF_NONE_MATCH).iter();
    let mut tags = known
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    // A proxy that compresses makes the tag a weak one.
    tags.any(|known| known.trim().trim_start_matches("W/").as_bytes() == tag.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_browser_that_has_the_module_does_not_load_it_again() {
        let first = show(HeaderMap::new()).await;
        assert_eq!(first.status(), StatusCode::OK);
        assert_eq!(first.headers()[header::CONTENT_TYPE], "text/javascript; charset=utf-8");
        let tag = first.headers()[header::ETAG].to_str().unwrap().to_owned();
        for (known, expected) in [
            (tag.clone(), StatusCode::NOT_MODIFIED),
            (format!("\"old\", W/{tag}"), StatusCode::NOT_MODIFIED),
            ("\"old\"".to_owned(), StatusCode::OK),
        ] {
            let headers = HeaderMap::from_iter([(header::IF_NONE_MATCH, known.parse().unwrap())]);
            let again = show(headers).await;
            assert_eq!(again.status(), expected, "{known}");
            assert_eq!(again.headers()[header::ETAG], tag);
        }
    }

    #[test]
    fn the_module_needs_no_other_file() {
        let exported: Vec<&str> = MODULE.lines().filter(|line| line.starts_with("export ")).collect();
        assert_eq!(exported.len(), 3, "{exported:?}");
        assert!(!MODULE.contains("import"), "an import");
        assert!(!MODULE.contains("\r"));
    }
}
