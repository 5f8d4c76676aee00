//! Certificates for encrypted connections. Adapters pass them to their drivers; the caller reads the files.

use std::fmt;

/// Whom to trust and who we are, in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// The certificates of who vouches for the server; the system's own list, if none are given.
    pub authority: Option<String>,
    /// The client certificate, for servers that ask for one.
    pub identity: Option<Identity>,
}

/// A certificate and its private key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, with those that link it to an authority behind it.
    pub certificate: String,
    /// Its key; not part of what is printed.
    pub key: String,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}
