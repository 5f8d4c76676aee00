//! The address of a client, also behind reverse proxies.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderName, header};

use super::network::Network;
use crate::problem::Problem;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The address of the client that has sent a request: the other end of the connection or, if that is a trusted proxy, the address
/// that the proxy names. The server puts it into the extensions of every request; handlers can take it as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientAddress(pub IpAddr);

impl ClientAddress {
    /// The address in the extensions of a request. With a server of your own, it is that of axum's `ConnectInfo<SocketAddr>`.
    pub fn of(extensions: &Extensions) -> Option<Self> {
        let known = extensions.get::<Self>().copied();
        known.or_else(|| peer(extensions).map(Self))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ClientAddress {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        Self::of(&parts.extensions).ok_or_else(|| {
            tracing::error!("the server does not tell the address of its clients; give it ConnectInfo<SocketAddr>");
            Problem::failed()
        })
    }
}

/// Whether a proxy has passed the request on: then its client may be anywhere.
pub(crate) fn is_forwarded(headers: &HeaderMap) -> bool {
    let names = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"];
    names.iter().any(|name| headers.contains_key(*name))
}

/// The other end of the connection.
pub(super) fn peer(extensions: &Extensions) -> Option<IpAddr> {
    let info = extensions.get::<ConnectInfo<SocketAddr>>();
    info.map(|ConnectInfo(address)| address.ip().to_canonical())
}

/// The client: `peer`, unless it is a trusted proxy that names another. Proxies append what they see, and everything to the left of
/// the first address that no trusted proxy has is the client's own claim.
pub(super) fn decide(peer: IpAddr, headers: &HeaderMap, trusted: &[Network]) -> IpAddr {
    if !is_trusted(peer, trusted) {
        return peer;
    }
    let common = named(headers, &X_FORWARDED_FOR).map(|list| furthest(peer, list.split(',').map(address), trusted));
    let standard =
        named(headers, &header::FORWARDED).map(|list| furthest(peer, list.split(',').map(forwarded_for), trusted));
    match (common, standard) {
        // The proxy writes one of them; the other one is the client's, and nothing tells which.
        (Some(one), Some(other)) if one != other => peer,
        (Some(one), _) | (None, Some(one)) => one,
        (None, None) => peer,
    }
}

/// Reads the list from right to left while the entries are trusted proxies. At an entry that is not an IP address it stops, and the
/// last trusted proxy counts as the client.
fn furthest(peer: IpAddr, hops: impl DoubleEndedIterator<Item = Option<IpAddr>>, trusted: &[Network]) -> IpAddr {
    let walk = hops.rev().try_fold(peer, |nearer, hop| match hop {
        Some(hop) if is_trusted(hop, trusted) => Ok(hop),
        Some(hop) => Err(hop),
        None => Err(nearer),
    });
    walk.unwrap_or_else(|client| client)
}

fn is_trusted(address: IpAddr, trusted: &[Network]) -> bool {
    trusted.iter().any(|network| network.contains(address))
}

/// All values of a header as one list; none if it is absent.
fn named(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let values = headers.get_all(name).iter();
    let texts: Vec<&str> = values.map(|value| value.to_str().unwrap_or("?")).collect();
    (!texts.is_empty()).then(|| texts.join(","))
}

/// The address of `for=` in one element of `Forwarded`.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let pairs = element.split(';').filter_map(|pair| pair.split_once('='));
    let mut named = pairs.filter(|(name, _)| name.trim().eq_ignore_ascii_case("for"));
    let (_, node) = named.next()?;
    address(node.trim().trim_matches('"'))
}

/// An address, with or without a port: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80`.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let alone = bare.unwrap_or(text).parse::<IpAddr>();
    let with_port = || text.parse::<SocketAddr>().map(|address| address.ip());
    Some(alone.or_else(|_error| with_port()).ok()?.to_canonical())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const TRUSTED: [&str; 3] = ["10.0.0.0/8", "::1", "2001:db8:aaaa::/48"];

    /// The client behind `peer`, which has sent these headers.
    fn check(peer: &str, sent: &[(&'static str, &'static str)], expected: &str) {
        let trusted: Vec<Network> = TRUSTED.iter().map(|network| network.parse().unwrap()).collect();
        let mut headers = HeaderMap::new();
        for (name, value) in sent {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let client = decide(peer.parse().unwrap(), &headers, &trusted);
        assert_eq!(client, expected.parse::<IpAddr>().unwrap(), "{peer} with {sent:?}");
    }

    const XFF: &str = "x-forwarded-for";
    const FORWARDED: &str = "forwarded";

    #[test]
    fn only_a_trusted_proxy_names_another_client() {
        check("203.0.113.9", &[], "203.0.113.9");
        check("203.0.113.9", &[(XFF, "127.0.0.1")], "203.0.113.9");
        check("203.0.113.9", &[(FORWARDED, "for=127.0.0.1")], "203.0.113.9");
        check("10.0.0.1", &[], "10.0.0.1");
        check("10.0.0.1", &[(XFF, "203.0.113.9")], "203.0.113.9");
        check("::1", &[(XFF, "203.0.113.9")], "203.0.113.9");
        check(
            "10.0.0.1",
            &[(FORWARDED, "for=203.0.113.9;proto=https;by=10.0.0.1")],
            "203.0.113.9",
        );
    }

    #[test]
    fn of_several_entries_the_right_most_untrusted_one_counts() {
        check("10.0.0.1", &[(XFF, "127.0.0.1, 203.0.113.9")], "203.0.113.9");
        check(
            "10.0.0.1",
            &[(XFF, "127.0.0.1, 203.0.113.9, 10.0.0.2,10.0.0.3")],
            "203.0.113.9",
        );
        check("10.0.0.1", &[(XFF, "127.0.0.1"), (XFF, "203.0.113.9")], "203.0.113.9");
        check("10.0.0.1", &[(XFF, "10.0.0.7, 10.0.0.8")], "10.0.0.7");
        check(
            "10.0.0.1",
            &[(FORWARDED, "for=1.1.1.1, For=\"203.0.113.9:80\", for=10.0.0.2")],
            "203.0.113.9",
        );
    }

    #[test]
    fn addresses_come_in_every_notation() {
        check("10.0.0.1", &[(XFF, "203.0.113.9:4711")], "203.0.113.9");
        check("10.0.0.1", &[(XFF, "2001:db8::9")], "2001:db8::9");
        check("10.0.0.1", &[(XFF, "[2001:db8::9]")], "2001:db8::9");
        check("10.0.0.1", &[(XFF, "[2001:db8::9]:4711")], "2001:db8::9");
        check(
            "2001:db8:aaaa::5",
            &[(XFF, "2001:db8::9, 2001:db8:aaaa::6")],
            "2001:db8::9",
        );
        check("::ffff:10.0.0.1", &[(XFF, "::ffff:203.0.113.9")], "203.0.113.9");
        check("10.0.0.1", &[(FORWARDED, "for=\"[2001:db8::9]:4711\"")], "2001:db8::9");
    }

    #[test]
    fn garbage_ends_at_the_proxy_that_passed_it_on() {
        check("10.0.0.1", &[(XFF, "")], "10.0.0.1");
        check("10.0.0.1", &[(XFF, "unknown")], "10.0.0.1");
        check("10.0.0.1", &[(XFF, "127.0.0.1, garbage")], "10.0.0.1");
        check("10.0.0.1", &[(XFF, "127.0.0.1, garbage, 10.0.0.2")], "10.0.0.2");
        check("10.0.0.1", &[(XFF, "127.0.0.1,")], "10.0.0.1");
        check("10.0.0.1", &[(FORWARDED, "for=_hidden")], "10.0.0.1");
        check("10.0.0.1", &[(FORWARDED, "proto=https")], "10.0.0.1");
        check("10.0.0.1", &[(XFF, "\u{e9}")], "10.0.0.1");
    }

    #[test]
    fn two_headers_that_disagree_name_nobody() {
        check(
            "10.0.0.1",
            &[(XFF, "203.0.113.9"), (FORWARDED, "for=127.0.0.1")],
            "10.0.0.1",
        );
        check(
            "10.0.0.1",
            &[(XFF, "203.0.113.9"), (FORWARDED, "for=203.0.113.9")],
            "203.0.113.9",
        );
    }
}
