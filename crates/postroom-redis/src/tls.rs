//! Creates the driver's client for an address, with TLS for `rediss://`.

use postroom::{Error, ErrorKind, Result, Tls};
use redis::{Client, ClientTlsConfig, IntoConnectionInfo as _, RedisError, TlsCertificates};

/// A client that has not connected yet.
pub(crate) fn client(url: &str, tls: &Tls) -> Result<Client> {
    let info = url
        .into_connection_info()
        .map_err(|error| invalid("write redis://host:port/db", error))?;
    if !url.starts_with("rediss:") {
        return Client::open(info).map_err(|error| invalid("write redis://host:port/db", error));
    }
    // The driver uses the process-wide crypto provider. This keeps a provider that is already installed.
    drop(rustls::crypto::ring::default_provider().install_default());
    let certificates = TlsCertificates {
        client_tls: tls.identity.as_ref().map(|identity| ClientTlsConfig {
            client_cert: identity.certificate.clone().into_bytes(),
            client_key: identity.key.clone().into_bytes(),
        }),
        root_cert: tls.authority.clone().map(String::into_bytes),
    };
    Client::build_with_tls(info, certificates).map_err(|error| invalid("give certificates and keys as PEM", error))
}

fn invalid(way_out: &str, error: RedisError) -> Error {
    let doing = format!("invalid Redis address or TLS options; {way_out}");
    Error::caused(ErrorKind::Invalid, doing, error)
}
