//! Names in requests: hosts and origins, as an operator writes them and as clients send them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use axum::http::uri::Authority;
use postroom::{Error, Result};

/// The longest name in DNS.
const NAME_BYTES_MAX: usize = 253;

/// A host without a port: a name, an IPv4 address, or an IPv6 address in brackets. In lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName(String);

impl HostName {
    /// The host as it stands in a header.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The host of `host` or `host:port`, as clients send it.
    pub(super) fn of_authority(text: &str) -> Option<Self> {
        let authority = text.parse::<Authority>().ok().filter(|_| !text.contains('@'))?;
        let host = authority.host().to_ascii_lowercase();
        let host = host.strip_suffix('.').unwrap_or(&host); // the root of DNS: `localhost.` is `localhost`
        let is_known = host.starts_with('[') == host.ends_with(']') && !host.is_empty() && host.len() <= NAME_BYTES_MAX;
        is_known.then(|| Self(host.to_owned()))
    }

    /// Whether it means this machine on every machine.
    pub(super) fn is_loopback(&self) -> bool {
        let bracketed = self.0.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        match bracketed {
            Some(v6) => v6
                .parse::<Ipv6Addr>()
                .is_ok_and(|address| IpAddr::V6(address).to_canonical().is_loopback()),
            None => {
                let is_v4 = self.0.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback());
                is_v4 || self.0 == "localhost" || self.0.ends_with(".localhost")
            }
        }
    }
}

impl FromStr for HostName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = || {
            let wanted = "a name without scheme and port such as app.example.com, 192.0.2.1 or [2001:db8::1]";
            Error::invalid(format!("{text:?} is not a host; give {wanted}"))
        };
        if let Ok(v6) = text.parse::<Ipv6Addr>() {
            return Ok(Self(format!("[{v6}]")));
        }
        let host = Self::of_authority(text).ok_or_else(refuse)?;
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-._[]:".contains(letter);
        let has_port = host.0.len() < text.trim_end_matches('.').len();
        match host.0.chars().all(is_plain) && !has_port {
            true => Ok(host),
            false => Err(refuse()),
        }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The origin of a web page: scheme, host and port, as a browser sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(String);

impl Origin {
    /// The origin as it stands in the header `Origin`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the page with this origin, as a browser has sent it, comes from this machine.
    pub(super) fn is_loopback(sent: &str) -> bool {
        Self::host(sent).is_some_and(|host| host.is_loopback())
    }

    /// Whether the page with this origin comes from this host, whatever its port.
    pub(super) fn is_of(sent: &str, host: &HostName) -> bool {
        Self::host(sent).as_ref() == Some(host)
    }

    fn host(sent: &str) -> Option<HostName> {
        let authority = sent.split_once("://").map(|(_, authority)| authority);
        authority.and_then(HostName::of_authority)
    }
}

impl FromStr for Origin {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = || {
            let wanted = "scheme and host, if needed with a port and without a path, such as https://app.example.com";
            Error::invalid(format!(
                "{text:?} is not an origin; give {wanted} (there is no wildcard)"
            ))
        };
        let lower = text.to_ascii_lowercase();
        let (scheme, authority) = lower.split_once("://").ok_or_else(refuse)?;
        let is_scheme = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if port.parse::<u16>().is_ok() => (host, Some(port)),
            _ => (authority, None),
        };
        let host: HostName = host.parse().map_err(|_error: Error| refuse())?;
        if scheme.is_empty() || !scheme.chars().all(is_scheme) {
            return Err(refuse());
        }
        // Browsers leave out the port that the scheme implies.
        let port = port.filter(|port| !matches!((scheme, *port), ("http", "80") | ("https", "443")));
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        Ok(Self(format!("{scheme}://{host}{port}")))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_of_a_request_has_no_port_and_is_in_lower_case() {
        let check = |sent: &str, expected: Option<&str>| {
            let host = HostName::of_authority(sent);
            assert_eq!(host.as_ref().map(HostName::as_str), expected, "{sent}");
        };
        check("App.Example.com:8080", Some("app.example.com"));
        check("localhost.", Some("localhost"));
        check("[::1]:8080", Some("[::1]"));
        check("127.0.0.1", Some("127.0.0.1"));
        for malformed in ["", ":80", "a b", "user@localhost", "localhost/x", "[::1", "a,b@c", "."] {
            check(malformed, None);
        }
        check(&"a".repeat(254), None);
    }

    #[test]
    fn loopback_names_are_those_that_no_other_machine_can_take() {
        let check = |sent: &str, expected: bool| {
            let is_loopback = HostName::of_authority(sent).is_some_and(|host| host.is_loopback());
            assert_eq!(is_loopback, expected, "{sent}");
        };
        for own in [
            "localhost:1",
            "LOCALHOST",
            "app.localhost",
            "127.0.0.1",
            "127.9.9.9:80",
            "[::1]:80",
            "[::ffff:127.0.0.1]",
        ] {
            check(own, true);
        }
        for other in [
            "localhost.example.com",
            "notlocalhost",
            "127.0.0.1.example.com",
            "127.1",
            "2130706433",
            "10.0.0.1",
            "0.0.0.0",
            "[::2]",
            "[::]",
        ] {
            check(other, false);
        }
    }

    #[test]
    fn a_configured_host_is_a_name_alone() {
        let check = |text: &str, expected: Option<&str>| {
            let host = text.parse::<HostName>().ok();
            assert_eq!(host.as_ref().map(HostName::as_str), expected, "{text}");
        };
        check("App.example.com", Some("app.example.com"));
        check("192.0.2.1", Some("192.0.2.1"));
        check("[2001:db8::1]", Some("[2001:db8::1]"));
        check("2001:db8::1", Some("[2001:db8::1]"));
        for wrong in [
            "",
            "https://app.example.com",
            "app.example.com:443",
            "[::1]:80",
            "*.example.com",
            "a/b",
            "a b",
        ] {
            check(wrong, None);
        }
    }

    #[test]
    fn an_origin_is_exact() {
        let check = |text: &str, expected: Option<&str>| {
            let origin = text.parse::<Origin>().ok();
            assert_eq!(origin.as_ref().map(Origin::as_str), expected, "{text}");
        };
        check("https://app.example.com", Some("https://app.example.com"));
        check("HTTPS://App.example.com:443", Some("https://app.example.com"));
        check("http://app.example.com:443", Some("http://app.example.com:443"));
        check("http://[::1]:3000", Some("http://[::1]:3000"));
        for wrong in [
            "*",
            "null",
            "app.example.com",
            "https://app.example.com/",
            "https://*.example.com",
            "https://",
            "://a",
        ] {
            check(wrong, None);
        }
    }
}
