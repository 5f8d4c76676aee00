//! `[server]`: where HTTP is served, encrypted or not, and who may reach it.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;

use postroom_host::{HostName, Hosts, Network, Origin, Serving, TlsFiles};

use super::section::Section;
use super::value;

/// `[server]`
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Server {
    pub(crate) listen: SocketAddr,
    /// Empty: by the address.
    pub(crate) hosts: Vec<HostName>,
    pub(crate) origins: Vec<Origin>,
    pub(crate) trusted_proxies: Vec<Network>,
    /// Absent: by the files that the process may open.
    pub(crate) connections_max: Option<NonZeroUsize>,
    /// A proxy in front ends TLS, so plain HTTP is served on purpose.
    pub(crate) plain_http: bool,
    pub(crate) tls: Option<TlsFiles>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            hosts: Vec::new(),
            origins: Vec::new(),
            trusted_proxies: Vec::new(),
            connections_max: None,
            plain_http: false,
            tls: None,
        }
    }
}

impl Server {
    /// The settings of the HTTP server.
    pub(crate) fn serving(&self) -> Serving {
        Serving {
            tls: self.tls.clone(),
            hosts: match self.hosts.as_slice() {
                [] => Hosts::ByListener,
                names => Hosts::Only(names.to_vec()),
            },
            origins: self.origins.clone(),
            trusted_proxies: self.trusted_proxies.clone(),
            connections_max: self.connections_max,
        }
    }

    /// Whether clients on other machines can reach a server that listens here: by its address, or through a proxy, if `hosts`,
    /// `origins`, `trusted_proxies` or `plain_http` show that there is one.
    pub(crate) fn is_reachable(&self, bound: SocketAddr) -> bool {
        !bound.ip().is_loopback() || self.plain_http || self.serving().is_for_others()
    }

    /// The address of a server that listens here, as clients write it.
    pub(crate) fn url(&self, bound: SocketAddr) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{bound}")
    }
}

pub(super) fn read(section: &mut Section<'_>) -> Server {
    let default = Server::default();
    let server = Server {
        listen: section.take("listen", value::address).unwrap_or(default.listen),
        hosts: section.take("hosts", value::list).unwrap_or_default(),
        origins: section.take("origins", value::list).unwrap_or_default(),
        trusted_proxies: section.take("trusted_proxies", value::list).unwrap_or_default(),
        connections_max: section
            .take("connections_max", value::number(1..=1_000_000))
            .and_then(NonZeroUsize::new),
        plain_http: section.take("plain_http", value::flag).unwrap_or(default.plain_http),
        tls: section.section_if_any("tls", read_tls).flatten(),
    };
    if server.plain_http && server.tls.is_some() {
        section.wrong(
            "plain_http",
            "is for a proxy in front that ends TLS; remove it, or [server.tls]",
        );
    }
    server
}

/// The files are read when the server starts, and again when they change.
fn read_tls(section: &mut Section<'_>) -> Option<TlsFiles> {
    let certificate = section.require("certificate", value::text);
    let key = section.require("key", value::text);
    Some(TlsFiles {
        certificate: certificate?.into(),
        key: key?.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn read(toml: &str) -> anyhow::Result<Server> {
        Config::read(toml, []).map(|config| config.server)
    }

    #[test]
    fn every_setting_is_read() {
        let server = read(
            r#"
            [server]
            listen = "127.0.0.1:8443"
            hosts = ["App.example.com", "192.0.2.7"]
            origins = ["https://app.example.com"]
            trusted_proxies = ["10.0.0.0/8", "::1"]
            connections_max = 100000
            [server.tls]
            certificate = "tls/server.pem"
            key = "tls/server.key"
            "#,
        )
        .unwrap();
        let expected = Serving {
            tls: Some(TlsFiles {
                certificate: "tls/server.pem".into(),
                key: "tls/server.key".into(),
            }),
            hosts: Hosts::Only(vec!["app.example.com".parse().unwrap(), "192.0.2.7".parse().unwrap()]),
            origins: vec!["https://app.example.com".parse().unwrap()],
            trusted_proxies: vec!["10.0.0.0/8".parse().unwrap(), "::1".parse().unwrap()],
            connections_max: NonZeroUsize::new(100_000),
        };
        assert_eq!(server.serving(), expected);
        assert_eq!(server.url(server.listen), "https://127.0.0.1:8443");
        assert_eq!(Server::default().serving(), Serving::default());
        assert!(read("[server]\nplain_http = true").unwrap().plain_http);
    }

    #[test]
    fn every_mistake_names_its_key() {
        let said = |toml: &str| read(toml).unwrap_err().to_string();
        let check = |toml: &str, expected: &str| {
            let said = said(&format!("[server]\n{toml}"));
            assert!(said.contains(expected), "{expected}: {said}");
        };
        check("hosts = \"app.example.com\"", "server.hosts: must be a list of texts");
        check(
            "hosts = [\"https://a\"]",
            "server.hosts: \"https://a\" is not a host; give a name without scheme",
        );
        check(
            "origins = [\"*\"]",
            "server.origins: \"*\" is not an origin; give scheme and host",
        );
        check(
            "trusted_proxies = [\"10.0.0.1/8\"]",
            "server.trusted_proxies: \"10.0.0.1/8\" has bits behind its prefix",
        );
        check(
            "connections_max = 0",
            "server.connections_max: must be a number from 1 to 1000000",
        );
        check("tls = { certificate = \"a.pem\" }", "server.tls.key: is required");
        check(
            "tls = { key = \"a.key\", ca = \"b\" }",
            "server.tls.ca: unknown key; known here: certificate, key",
        );
        check(
            "plain_http = true\ntls = { certificate = \"a.pem\", key = \"a.key\" }",
            "server.plain_http: is for a proxy in front that ends TLS",
        );
    }
}
