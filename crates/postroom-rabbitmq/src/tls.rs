//! TLS below AMQP: the reactor encrypts every connection before the driver gets it, and the driver uses plain AMQP on it.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_rs::traits::Reactor;
use async_rs::util::RuntimeParts;
use async_rs::{Runtime, Tokio};
use futures::Stream;
use futures::io::{AsyncRead, AsyncWrite};
use postroom::{Error, ErrorKind, Result, Tls};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt as _};

/// TLS configuration for connections to one server.
#[derive(Clone)]
pub(crate) struct TlsConfig {
    config: Arc<ClientConfig>,
    server: ServerName<'static>,
}

/// The driver's runtime with encrypted connections.
pub(crate) type TlsRuntime = Runtime<RuntimeParts<Tokio, TlsReactor>>;

impl TlsConfig {
    /// Configuration for this host with these certificates.
    pub(crate) fn new(host: &str, tls: &Tls) -> Result<Self> {
        let server = ServerName::try_from(host.to_owned()).map_err(|source| {
            Error::caused(ErrorKind::Invalid, format!("{host} is not a valid server name"), source)
        })?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let trusting = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|source| invalid("configure the TLS versions", source))?
            .with_root_certificates(roots(tls)?);
        let config = match &tls.identity {
            None => trusting.with_no_client_auth(),
            Some(identity) => {
                let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes());
                let key = key.map_err(|source| invalid("read the client key", source))?;
                trusting
                    .with_client_auth_cert(certificates("the client certificate", &identity.certificate)?, key)
                    .map_err(|source| invalid("use the client certificate with its key", source))?
            }
        };
        Ok(Self {
            config: Arc::new(config),
            server,
        })
    }

    /// The runtime for the driver. Must be called inside a tokio runtime.
    pub(crate) fn runtime(&self) -> TlsRuntime {
        let tokio = Tokio::current();
        let reactor = TlsReactor {
            tokio: tokio.clone(),
            tls: self.clone(),
        };
        Runtime::new(RuntimeParts::new(tokio, reactor))
    }
}

fn roots(tls: &Tls) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    match &tls.authority {
        Some(authority) => {
            for certificate in certificates("the authority", authority)? {
                roots
                    .add(certificate)
                    .map_err(|source| invalid("trust the authority", source))?;
            }
        }
        None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
    }
    Ok(roots)
}

fn certificates(source_name: &str, pem: &str) -> Result<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match found {
        Ok(none) if none.is_empty() => Err(Error::invalid(format!("{source_name} contains no PEM certificate"))),
        Ok(some) => Ok(some),
        Err(source) => Err(invalid(&format!("read {source_name}"), source)),
    }
}

fn invalid(doing: &str, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::caused(ErrorKind::Invalid, doing, source)
}

/// Tokio's reactor, except that TCP connections are encrypted.
#[derive(Clone, Debug)]
pub(crate) struct TlsReactor {
    tokio: Tokio,
    tls: TlsConfig,
}

impl Reactor for TlsReactor {
    type TcpStream = Compat<TlsStream<TcpStream>>;
    type Sleep = <Tokio as Reactor>::Sleep;

    fn register<H: Read + Write + AsFd + AsRawFd + Send + 'static>(
        &self,
        socket: H,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static> {
        self.tokio.register(socket)
    }

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        self.tokio.sleep(duration)
    }

    fn interval(&self, duration: Duration) -> impl Stream<Item = Instant> + Send + 'static {
        self.tokio.interval(duration)
    }

    fn tcp_connect_addr(
        &self,
        address: SocketAddr,
    ) -> impl Future<Output = io::Result<Self::TcpStream>> + Send + 'static {
        let (plain, tls) = (self.tokio.tcp_connect_addr(address), self.tls.clone());
        async move {
            let plain = plain.await?.into_inner();
            let encrypted = TlsConnector::from(tls.config).connect(tls.server, plain).await?;
            Ok(encrypted.compat())
        }
    }
}

impl fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsConfig")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}
