//! The certificate of the server: read from files, and read again when they change.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use postroom::{CancellationToken, Error, ErrorKind, Result};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use tokio::sync::watch;

use super::serving::TlsFiles;

/// A chain of certificates and a key are a few KiB; what is larger is another file.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The protocol that is spoken in the encrypted connection.
const ALPN: &[u8] = b"http/1.1";

/// The certificate in service, and the files that it comes from.
#[derive(Debug)]
pub(super) struct Certificate {
    files: TlsFiles,
    /// The last content of the files, or why they could not be read.
    seen: Result<Pair, String>,
    served: watch::Sender<Arc<ServerConfig>>,
}

/// The content of both files.
#[derive(Clone, PartialEq, Eq)]
struct Pair {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pair") // the key is a secret
    }
}

impl Certificate {
    /// Reads the files. The error names the file and what is wrong with it.
    pub(super) fn load(files: TlsFiles) -> Result<Self> {
        let pair = Pair::read(&files)?;
        let config = pair.config(&files)?;
        warn_if_others_read(&files.key);
        Ok(Self {
            files,
            seen: Ok(pair),
            served: watch::Sender::new(Arc::new(config)),
        })
    }

    /// The certificate in service, now and later.
    pub(super) fn served(&self) -> watch::Receiver<Arc<ServerConfig>> {
        self.served.subscribe()
    }

    /// Looks at the files until `stop`.
    pub(super) async fn run(mut self, every: Duration, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(every)).await.is_some() {
            self.look().await;
        }
    }

    /// Serves what the files contain now, if it is new and can be used.
    pub(super) async fn look(&mut self) {
        let files = self.files.clone();
        let read = move || Pair::read(&files).map_err(|error| error.report());
        let Ok(found) = tokio::task::spawn_blocking(read).await else {
            return; // the process ends
        };
        if found == self.seen {
            return;
        }
        let config = found
            .clone()
            .and_then(|pair| pair.config(&self.files).map_err(|error| error.report()));
        let certificate = self.files.certificate.display();
        match config {
            Ok(config) => {
                self.served.send_replace(Arc::new(config));
                tracing::info!(%certificate, "a new certificate is in service");
                warn_if_others_read(&self.files.key);
            }
            Err(error) => {
                tracing::warn!(%certificate, error, "the new certificate cannot be used; the old one stays in service");
            }
        }
        self.seen = found;
    }
}

impl Pair {
    fn read(files: &TlsFiles) -> Result<Self> {
        Ok(Self {
            certificate: read(&files.certificate, "certificate")?,
            key: read(&files.key, "key")?,
        })
    }

    /// The settings of TLS with this certificate; an error if the two do not belong together.
    fn config(&self, files: &TlsFiles) -> Result<ServerConfig> {
        let (chain, key) = (self.chain(&files.certificate)?, self.private_key(&files.key)?);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13, &TLS12]);
        let built = versions.and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key));
        let mut config = built.map_err(|source| {
            let (certificate, key) = (files.certificate.display(), files.key.display());
            let doing = match source {
                rustls::Error::InconsistentKeys(_) => format!(
                    "the key {key} does not belong to the first certificate in {certificate}; the server's own certificate \
                     must be the first"
                ),
                _ => format!("use the certificate {certificate} with the key {key}"),
            };
            Error::caused(ErrorKind::Invalid, doing, source)
        })?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(config)
    }

    fn chain(&self, file: &Path) -> Result<Vec<CertificateDer<'static>>> {
        let file = file.display();
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.certificate).collect();
        let chain = chain.map_err(|source| {
            Error::caused(
                ErrorKind::Invalid,
                format!("the certificate {file} is broken PEM"),
                source,
            )
        })?;
        if chain.is_empty() {
            return Err(Error::invalid(format!(
                "{file} contains no certificate; it must be PEM with a part that begins with -----BEGIN CERTIFICATE-----"
            )));
        }
        Ok(chain)
    }

    /// The error tells nothing of the content.
    fn private_key(&self, file: &Path) -> Result<PrivateKeyDer<'static>> {
        let is_encrypted = || {
            let begin = b"-----BEGIN ENCRYPTED PRIVATE KEY-----";
            self.key.windows(begin.len()).any(|part| part == begin)
        };
        PrivateKeyDer::from_pem_slice(&self.key).map_err(|_source| {
            let file = file.display();
            Error::invalid(match is_encrypted() {
                true => format!("the key {file} is encrypted; give a key without a password (openssl pkey -in {file})"),
                false => format!(
                    "{file} contains no private key; it must be PEM with a part that begins with -----BEGIN PRIVATE KEY-----"
                ),
            })
        })
    }
}

fn read(file: &Path, what: &str) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    let opened = File::open(file);
    let read = opened.and_then(|opened| opened.take(FILE_BYTES_MAX + 1).read_to_end(&mut content));
    match read {
        Err(source) => {
            let doing = format!("read the {what} {}", file.display());
            Err(Error::caused(ErrorKind::Invalid, doing, source))
        }
        Ok(bytes) if bytes as u64 > FILE_BYTES_MAX => Err(Error::invalid(format!(
            "the {what} {} is larger than {FILE_BYTES_MAX} bytes; it is another file",
            file.display()
        ))),
        Ok(_) => Ok(content),
    }
}

fn warn_if_others_read(key: &Path) {
    if others_read(key) {
        tracing::warn!(key = %key.display(), "every user of this machine can read the key of the certificate; run chmod o-rwx on it");
    }
}

/// Whether users outside the file's group can read it. An administrator lets a group read a key on purpose.
#[cfg(unix)]
fn others_read(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;

    let mode = std::fs::metadata(file).map(|metadata| metadata.permissions().mode());
    mode.is_ok_and(|mode| mode & 0o004 != 0)
}

#[cfg(not(unix))]
fn others_read(_file: &Path) -> bool {
    false
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_that_every_user_can_read_is_noticed() {
        let key = tempfile::NamedTempFile::new().unwrap();
        let check = |mode: u32, expected: bool| {
            std::fs::set_permissions(key.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(others_read(key.path()), expected, "{mode:o}");
        };
        check(0o600, false);
        check(0o640, false);
        check(0o644, true);
        check(0o604, true);
    }
}
