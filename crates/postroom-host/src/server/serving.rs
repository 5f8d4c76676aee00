//! Settings of the HTTP server: who may reach it, and how.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use super::name::{HostName, Origin};
use super::network::Network;

/// How HTTP is served. The default is plain HTTP with [`Hosts::ByListener`], for a server on a loopback address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Serving {
    /// Serves HTTPS alone, with this certificate. Absent: plain HTTP.
    pub tls: Option<TlsFiles>,
    /// The names under which clients may reach the server.
    pub hosts: Hosts,
    /// Web pages of these origins may call the server and read its responses (CORS). Every other page may not.
    pub origins: Vec<Origin>,
    /// Reverse proxies in front of the server. Only they may name the client, in `X-Forwarded-For` or `Forwarded`.
    pub trusted_proxies: Vec<Network>,
    /// Open connections; further ones wait. Streams keep theirs for minutes, so a server with many streams needs more. Absent: 10,000,
    /// but at most half of the files that the process may open.
    pub connections_max: Option<NonZeroUsize>,
}

impl Serving {
    /// Whether some setting is for clients on other machines: then a proxy or a tunnel brings them, if the server listens on a
    /// loopback address.
    pub fn is_for_others(&self) -> bool {
        let has_names = match &self.hosts {
            Hosts::Any | Hosts::ByListener => false,
            Hosts::Only(names) => names.iter().any(|name| !name.is_loopback()),
        };
        has_names || !self.origins.is_empty() || !self.trusted_proxies.is_empty()
    }
}

/// The names under which clients may reach the server: the values of `Host` that it accepts, with any port. A request for another
/// name gets 421. Without this check, a web page could reach a local server through a name of its own (DNS rebinding).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Hosts {
    /// Every name, and requests of web pages from everywhere.
    Any,
    /// On a loopback address only loopback names (`localhost`, `*.localhost`, `127.0.0.0/8`, `[::1]`), and of web pages only those
    /// that are loopback too or listed in [`Serving::origins`]; on other addresses every name.
    #[default]
    ByListener,
    /// Only these; and loopback names for clients on the same machine, such as health checks.
    Only(Vec<HostName>),
}

/// The files with a certificate and its key, in PEM. They are read again every few seconds: a new pair is served without a
/// restart, and a pair that cannot be used leaves the old one in service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate first, then those of the intermediate authorities.
    pub certificate: PathBuf,
    /// The private key of the first certificate.
    pub key: PathBuf,
}
