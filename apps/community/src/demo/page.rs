//! The files of the page. They load nothing from elsewhere.

use axum::extract::Path;
use axum::http::{HeaderName, header};
use axum::response::{IntoResponse, Response};
use postroom_host::{Problem, Routes};

use super::Here;

/// No script and no style in the page itself, nothing from another server, and in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

/// A file: its name, its kind and its text.
type File = (&'static str, &'static str, &'static str);

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

const PAGE: &str = include_str!("../../demo/index.html");
const FILES: [File; 12] = [
    ("style.css", CSS, include_str!("../../demo/style.css")),
    ("main.js", SCRIPT, include_str!("../../demo/main.js")),
    ("api.js", SCRIPT, include_str!("../../demo/api.js")),
    ("breaks.js", SCRIPT, include_str!("../../demo/breaks.js")),
    ("log.js", SCRIPT, include_str!("../../demo/log.js")),
    ("member.js", SCRIPT, include_str!("../../demo/member.js")),
    ("numbers.js", SCRIPT, include_str!("../../demo/numbers.js")),
    ("page.js", SCRIPT, include_str!("../../demo/page.js")),
    ("phone.js", SCRIPT, include_str!("../../demo/phone.js")),
    ("post.js", SCRIPT, include_str!("../../demo/post.js")),
    ("received.js", SCRIPT, include_str!("../../demo/received.js")),
    ("text.js", SCRIPT, include_str!("../../demo/text.js")),
];

pub(super) fn routes(routes: Routes) -> Routes {
    routes.get("/community/demo", page).get("/community/demo/{file}", file)
}

async fn page(Here: Here) -> Response {
    response(HTML, PAGE)
}

async fn file(Here: Here, Path(name): Path<String>) -> Result<Response, Problem> {
    let found = FILES.iter().find(|(known, ..)| *known == name);
    let (_, kind, text) = found.ok_or_else(|| Problem::not_found("the page has no such file"))?;
    Ok(response(kind, text))
}

fn response(kind: &'static str, text: &'static str) -> Response {
    let headers: [(HeaderName, &str); 3] = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (headers, text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_no_script_of_its_own_and_names_only_files_that_exist() {
        let is_handler = |word: &str| word.starts_with("on") && word.contains('=');
        assert!(!PAGE.split_whitespace().any(is_handler), "a handler in the page");
        assert!(!PAGE.contains("<style") && !PAGE.contains("style="));
        assert_eq!(
            PAGE.matches("<script").count(),
            PAGE.matches("<script type=\"module\" src=").count()
        );
        let texts = FILES.iter().map(|(_, _, text)| *text).chain([PAGE]);
        for text in texts {
            let elsewhere: Vec<&str> = text
                .lines()
                .filter(|line| line.contains("http://") || line.contains("https://"))
                .collect();
            let named = elsewhere.iter().all(|line| line.contains("www.w3.org/2000/svg"));
            assert!(named, "{elsewhere:?}");
            for imported in text.split("from \"./").skip(1) {
                let name = imported.split('"').next().unwrap();
                assert!(FILES.iter().any(|(known, ..)| *known == name), "{name}");
            }
        }
    }
}
