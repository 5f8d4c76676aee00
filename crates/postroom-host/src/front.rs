//! The front page: what runs here, until there is a console.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Json;
use axum::http::{HeaderMap, header};
use axum::response::{Html, IntoResponse, Response};
use postroom::{EventType, Screen, WorkerHealth};
use serde::Serialize;

use crate::host::Host;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:3rem auto;max-width:46rem;padding:0 1rem;\
    color-scheme:light dark}table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.2rem 1rem .2rem 0;\
    border-bottom:1px solid #8884}td.n,th.n{text-align:right}code{font-size:.9em}";

/// A module as the front page shows it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Mounted {
    pub(crate) name: &'static str,
    pub(crate) events: Vec<EventType>,
    #[serde(skip)]
    pub(crate) screen: Option<Arc<dyn Screen>>,
}

#[derive(Serialize)]
struct Front<'a> {
    name: &'static str,
    version: &'static str,
    modules: &'a [Mounted],
    lines: Vec<WorkerHealth>,
}

/// A page for a browser, JSON for everybody else.
pub(crate) fn page(host: &Host, headers: &HeaderMap, modules: &[Mounted]) -> Response {
    let front = Front {
        name: "postroom",
        version: env!("CARGO_PKG_VERSION"),
        modules,
        lines: host.health.working(),
    };
    let accepts = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    if accepts.is_some_and(|accept| accept.contains("text/html")) {
        let policy = [(
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'",
        )];
        (policy, Html(html(&front))).into_response()
    } else {
        Json(front).into_response()
    }
}

fn html(front: &Front<'_>) -> String {
    let mut lines = String::new();
    for line in &front.lines {
        let state = match (&line.down, line.behind_s) {
            (Some(reason), _) => escape(reason),
            (None, Some(behind)) => format!("behind for {behind:.0} s"),
            (None, None) => "up to date".to_owned(),
        };
        let row = (escape(&line.name), line.delivered, state);
        // Writing to a string cannot fail.
        write!(lines, "<tr><td>{}<td class=n>{}<td>{}", row.0, row.1, row.2).unwrap_or_default();
    }
    let mut modules = String::new();
    for module in front.modules {
        let events: Vec<&str> = module.events.iter().map(|event| event.name).collect();
        write!(
            modules,
            "<li>{}: <code>{}</code>",
            module.name,
            events.join("</code>, <code>")
        )
        .unwrap_or_default();
    }
    format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>\
         <title>Postroom</title><style>{STYLE}</style><h1>Postroom {}</h1>\
         <table><tr><th>route<th class=n>delivered since start<th>state{lines}</table>\
         <p>Modules:<ul>{modules}</ul>\
         <p>Health: <a href=/health/live>/health/live</a>, <a href=/health/ready>/health/ready</a>; <a href=/alerts>/alerts</a>, \
         <a href=/metrics>/metrics</a>. \
         On the command line: <code>postroom status</code>, <code>postroom tail --follow</code>, <code>postroom why</code>.",
        front.version
    )
}

/// Route names come from a configuration and reasons from other systems.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
