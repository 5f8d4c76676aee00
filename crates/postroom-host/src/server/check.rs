//! Checks before a request reaches any route: the host that it asks for, and the origin of the web page that sends it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, Version, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};

use super::client_address::{self, ClientAddress};
use super::name::{HostName, Origin};
use super::network::Network;
use super::serving::{Hosts, Serving};
use crate::problem::Problem;

/// The checks of one listener.
#[derive(Clone, Debug)]
pub(super) struct Checks {
    hosts: Accepted,
    origins: Vec<Origin>,
    /// Whether pages from everywhere may open WebSockets.
    is_for_all_pages: bool,
    trusted_proxies: Vec<Network>,
}

/// The accepted hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Accepted {
    Any,
    /// Loopback names alone, and pages from elsewhere only if they are listed.
    Loopback,
    Only(Vec<HostName>),
}

impl Checks {
    /// The checks of a server that listens here.
    pub(super) fn new(serving: &Serving, listen: SocketAddr) -> Self {
        let hosts = match &serving.hosts {
            Hosts::ByListener if listen.ip().to_canonical().is_loopback() => Accepted::Loopback,
            Hosts::Any | Hosts::ByListener => Accepted::Any,
            Hosts::Only(names) => Accepted::Only(names.clone()),
        };
        Self {
            hosts,
            origins: serving.origins.clone(),
            is_for_all_pages: serving.hosts == Hosts::Any,
            trusted_proxies: serving.trusted_proxies.clone(),
        }
    }

    /// Whether the other end of a connection is a trusted proxy.
    pub(super) fn is_proxy(&self, peer: IpAddr) -> bool {
        self.trusted_proxies.iter().any(|network| network.contains(peer))
    }

    /// The routes behind these checks.
    pub(super) fn before(self, routes: Router) -> Router {
        routes.layer(middleware::from_fn_with_state(Arc::new(self), check))
    }

    /// The reason to refuse a request, if there is one.
    fn refusal(&self, request: &Request, client: IpAddr) -> Option<Problem> {
        let asked = asked_hosts(request.version(), request.uri(), request.headers());
        let hosts = match asked {
            Ok(hosts) => hosts,
            Err(problem) => return Some(problem),
        };
        // Behind a proxy on this machine every client may seem to be here.
        let is_here = client.is_loopback() && !client_address::is_forwarded(request.headers());
        if let Some(host) = hosts.iter().find(|host| !self.hosts.accept(host, is_here)) {
            return Some(misdirected(&format!("the host {host}")));
        }
        if hosts.is_empty() && matches!(self.hosts, Accepted::Only(_)) && !is_here {
            return Some(misdirected("requests without a host"));
        }
        let mut origins = request.headers().get_all(header::ORIGIN).iter();
        let is_refused = |sent: &HeaderValue| {
            let sent = sent.to_str().ok();
            !sent.is_some_and(|origin| self.accepts_page(origin, &hosts, request.headers()))
        };
        origins.any(is_refused).then(foreign_page)
    }

    /// Whether a web page with this origin may send this request. The answers to plain requests have CORS; nothing keeps a page from
    /// opening a WebSocket, so the server does.
    fn accepts_page(&self, sent: &str, hosts: &[HostName], headers: &HeaderMap) -> bool {
        match self.hosts {
            Accepted::Loopback => self.accepts_origin(sent),
            Accepted::Any | Accepted::Only(_) if self.is_for_all_pages || !is_websocket(headers) => true,
            Accepted::Any | Accepted::Only(_) => self.lists(sent) || hosts.iter().any(|host| Origin::is_of(sent, host)),
        }
    }

    /// Whether a web page with this origin may use a server on a loopback address.
    fn accepts_origin(&self, sent: &str) -> bool {
        Origin::is_loopback(sent) || self.lists(sent)
    }

    fn lists(&self, sent: &str) -> bool {
        self.origins.iter().any(|origin| origin.as_str() == sent)
    }
}

impl Accepted {
    fn accept(&self, host: &HostName, is_here: bool) -> bool {
        match self {
            Self::Any => true,
            Self::Loopback => host.is_loopback(),
            Self::Only(names) => names.contains(host) || (host.is_loopback() && is_here),
        }
    }
}

/// Whether a request asks for a WebSocket.
fn is_websocket(headers: &HeaderMap) -> bool {
    let upgrades = headers.get_all(header::UPGRADE).iter();
    let mut protocols = upgrades
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    protocols.any(|protocol| protocol.trim().eq_ignore_ascii_case("websocket"))
}

/// The hosts that a request names: in `Host`, and in its first line if a proxy or HTTP/2 has put it there.
fn asked_hosts(version: Version, uri: &Uri, headers: &HeaderMap) -> Result<Vec<HostName>, Problem> {
    let malformed = |detail: &str| Problem::new(StatusCode::BAD_REQUEST, "host", detail);
    let sent: Vec<_> = headers.get_all(header::HOST).iter().collect();
    if sent.len() > 1 {
        return Err(malformed("the request has more than one header Host; send one"));
    }
    if sent.is_empty() && version == Version::HTTP_11 {
        return Err(malformed("the request has no header Host; HTTP/1.1 needs it"));
    }
    let in_header = sent.into_iter().map(|value| value.to_str().ok());
    let in_line = uri.authority().map(|authority| Some(authority.as_str()));
    let host = |text: Option<&str>| text.and_then(HostName::of_authority);
    let hosts: Option<Vec<HostName>> = in_header.chain(in_line).map(host).collect();
    hosts.ok_or_else(|| {
        malformed("the host of the request is malformed; send a name or an address, and a port if needed")
    })
}

fn misdirected(what: &str) -> Problem {
    let detail = format!("this server does not answer {what}; its configuration lists the hosts that it answers");
    Problem::new(StatusCode::MISDIRECTED_REQUEST, "misdirected", detail)
}

fn foreign_page() -> Problem {
    let detail = "web pages of this origin may not use this server; its configuration lists the origins that may";
    Problem::new(StatusCode::FORBIDDEN, "origin", detail)
}

/// Notes down the client's address, and lets the request pass if nothing is wrong with it.
async fn check(State(checks): State<Arc<Checks>>, mut request: Request, next: Next) -> Response {
    let Some(peer) = client_address::peer(request.extensions()) else {
        tracing::error!("a request came without the address of its connection");
        return super::with_safe_headers(Problem::failed().into_response());
    };
    let client = client_address::decide(peer, request.headers(), &checks.trusted_proxies);
    match checks.refusal(&request, client) {
        Some(problem) => {
            tracing::debug!(%client, %problem, "request refused");
            super::with_safe_headers(problem.into_response())
        }
        None => {
            request.extensions_mut().insert(ClientAddress(client));
            next.run(request).await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOPBACK: &str = "127.0.0.1:8080";
    const PUBLIC: &str = "0.0.0.0:8080";

    fn only(names: &[&str]) -> Hosts {
        Hosts::Only(names.iter().map(|name| name.parse().unwrap()).collect())
    }

    fn checks(hosts: Hosts, listen: &str) -> Checks {
        let serving = Serving {
            hosts,
            origins: vec!["https://app.example.com".parse().unwrap()],
            ..Serving::default()
        };
        Checks::new(&serving, listen.parse().unwrap())
    }

    fn request(uri: &str, headers: &[(&str, &str)]) -> Request {
        let start = Request::builder().uri(uri);
        let built = headers
            .iter()
            .fold(start, |built, (name, value)| built.header(*name, *value));
        built.body(axum::body::Body::empty()).unwrap()
    }

    /// The code of the refusal; empty if there is none.
    fn code(checks: &Checks, request: &Request, client: &str) -> &'static str {
        let refusal = checks.refusal(request, client.parse().unwrap());
        refusal.map_or("", |problem| problem.code())
    }

    #[test]
    fn a_server_accepts_its_hosts_alone() {
        let check = |hosts: Hosts, listen: &str, sent: &str, client: &str, expected: &str| {
            let found = code(&checks(hosts.clone(), listen), &request("/", &[("host", sent)]), client);
            assert_eq!(found, expected, "{hosts:?} on {listen}: {sent} from {client}");
        };
        for own in [
            "localhost",
            "localhost:8080",
            "app.localhost",
            "127.0.0.1:1",
            "[::1]:8080",
        ] {
            check(Hosts::ByListener, LOOPBACK, own, "127.0.0.1", "");
        }
        for foreign in [
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "10.0.0.1",
            "0.0.0.0",
        ] {
            check(Hosts::ByListener, LOOPBACK, foreign, "127.0.0.1", "misdirected");
            check(Hosts::ByListener, "[::1]:8080", foreign, "::1", "misdirected");
            check(Hosts::ByListener, PUBLIC, foreign, "192.0.2.1", "");
            check(Hosts::Any, LOOPBACK, foreign, "127.0.0.1", "");
        }
        let named = only(&["app.example.com", "192.0.2.7"]);
        check(named.clone(), PUBLIC, "App.example.com:443", "203.0.113.9", "");
        check(named.clone(), PUBLIC, "192.0.2.7", "203.0.113.9", "");
        check(named.clone(), PUBLIC, "www.example.com", "203.0.113.9", "misdirected");
        check(named.clone(), PUBLIC, "localhost:8080", "127.0.0.1", "");
        check(named.clone(), PUBLIC, "localhost:8080", "203.0.113.9", "misdirected");
        check(named, LOOPBACK, "evil.example", "127.0.0.1", "misdirected");
    }

    #[test]
    fn a_request_names_one_host() {
        let loopback = checks(Hosts::ByListener, LOOPBACK);
        let check = |request: Request, expected: &str| {
            assert_eq!(code(&loopback, &request, "127.0.0.1"), expected, "{request:?}");
        };
        check(request("/", &[]), "host");
        check(request("/", &[("host", "localhost"), ("host", "localhost")]), "host");
        check(request("/", &[("host", "")]), "host");
        check(request("/", &[("host", "me@localhost")]), "host");
        check(request("http://localhost/", &[("host", "localhost")]), "");
        check(request("http://evil.example/", &[("host", "localhost")]), "misdirected");
        check(request("http://localhost/", &[("host", "evil.example")]), "misdirected");
    }

    #[test]
    fn before_http_1_1_a_request_may_name_no_host() {
        let mut old = request("/", &[]);
        *old.version_mut() = Version::HTTP_10;
        let named = checks(only(&["app.example.com"]), PUBLIC);
        assert_eq!(code(&checks(Hosts::ByListener, LOOPBACK), &old, "127.0.0.1"), "");
        assert_eq!(code(&named, &old, "127.0.0.1"), "", "a health check");
        assert_eq!(code(&named, &old, "203.0.113.9"), "misdirected");
    }

    #[test]
    fn a_page_from_elsewhere_does_not_use_a_local_server() {
        let check = |hosts: Hosts, origins: &[&str], expected: &str| {
            let sent = origins.iter().map(|origin| ("origin", *origin));
            let sent: Vec<_> = sent.chain([("host", "localhost:8080")]).collect();
            let found = code(&checks(hosts, LOOPBACK), &request("/", &sent), "127.0.0.1");
            assert_eq!(found, expected, "{origins:?}");
        };
        for own in [
            "http://localhost:3000",
            "https://127.0.0.1",
            "http://[::1]:8080",
            "https://app.example.com",
        ] {
            check(Hosts::ByListener, &[own], "");
        }
        for foreign in [
            "https://evil.example",
            "http://app.example.com",
            "https://app.example.com:8443",
            "null",
            "",
            "https://localhost.evil.example",
        ] {
            check(Hosts::ByListener, &[foreign], "origin");
            check(Hosts::Any, &[foreign], "");
        }
        check(
            Hosts::ByListener,
            &["http://localhost", "https://evil.example"],
            "origin",
        );
    }

    #[test]
    fn a_page_opens_a_websocket_to_its_own_server() {
        let check = |hosts: Hosts, origin: &str, expected: &str| {
            let sent = [
                ("host", "app.example.com"),
                ("upgrade", "WebSocket"),
                ("origin", origin),
            ];
            let found = code(&checks(hosts.clone(), PUBLIC), &request("/", &sent), "203.0.113.9");
            assert_eq!(found, expected, "{origin:?} with {hosts:?}");
        };
        for hosts in [Hosts::ByListener, only(&["app.example.com"])] {
            check(hosts.clone(), "https://app.example.com", "");
            check(hosts.clone(), "https://app.example.com:8443", "");
            for foreign in [
                "https://evil.example",
                "null",
                "",
                "http://localhost",
                "https://app.example.com.evil.example",
            ] {
                check(hosts.clone(), foreign, "origin");
            }
        }
        check(Hosts::Any, "https://evil.example", "");
        let plain = request("/", &[("host", "app.example.com"), ("origin", "https://evil.example")]);
        let public = checks(Hosts::ByListener, PUBLIC);
        assert_eq!(
            code(&public, &plain, "203.0.113.9"),
            "",
            "the browser keeps the answer from the page"
        );
        let listed = [
            ("host", "192.0.2.7"),
            ("upgrade", "websocket"),
            ("origin", "https://app.example.com"),
        ];
        assert_eq!(code(&public, &request("/", &listed), "203.0.113.9"), "");
        let none = [("host", "app.example.com"), ("upgrade", "websocket")];
        assert_eq!(code(&public, &request("/", &none), "203.0.113.9"), "", "no page");
    }
}
