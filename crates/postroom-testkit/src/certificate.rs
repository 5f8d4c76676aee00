//! Certificates of a test's own, for servers that speak TLS: an authority that nobody knows, and who it vouches for.
//!
//! Made with the program `openssl`, which every system with these servers has.

#![expect(clippy::panic, reason = "a test harness: a test without its certificates has failed")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use postroom::{Identity, Result, Tls};
use postroom_proof::process::failed;
use uuid::Uuid;

use crate::fresh::variable;
use crate::home::{output, user};

/// An authority, and a certificate for `localhost` and 127.0.0.1. Dropping it removes the files.
#[derive(Debug)]
pub struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    /// Makes them. The key is this account's alone, as servers want it.
    pub fn of(account: &str) -> Self {
        let folder = Path::new(&variable("POSTROOM_TEST_SERVICES_DIR")).join(Uuid::now_v7().simple().to_string());
        let made = Self { folder };
        if let Err(error) = made.make(account) {
            panic!("make certificates for a test: {}", error.report());
        }
        made
    }

    /// The file with the authority's certificate.
    pub fn authority(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// The file with the certificate.
    pub fn certificate(&self) -> PathBuf {
        self.folder.join("server.pem")
    }

    /// The file with the certificate's key.
    pub fn key(&self) -> PathBuf {
        self.folder.join("server.key")
    }

    /// Trusts the authority alone.
    pub fn trusted(&self) -> Tls {
        Tls {
            authority: Some(read(&self.authority())),
            identity: None,
        }
    }

    /// Trusts the authority, and shows the certificate.
    pub fn mutual(&self) -> Tls {
        let identity = Identity {
            certificate: read(&self.certificate()),
            key: read(&self.key()),
        };
        Tls {
            identity: Some(identity),
            ..self.trusted()
        }
    }

    fn make(&self, account: &str) -> Result<()> {
        fs::create_dir_all(&self.folder).map_err(|source| failed("make a folder", source))?;
        let name = format!("/CN=authority {}", Uuid::now_v7());
        self.request(&["-subj", &name, "-keyout", "ca.key", "-out", "ca.pem"])?;
        let names = "subjectAltName=DNS:localhost,IP:127.0.0.1";
        let issued = ["-subj", "/CN=localhost", "-keyout", "server.key", "-out", "server.pem"];
        let by = ["-CA", "ca.pem", "-CAkey", "ca.key", "-addext", names];
        let is_end = ["-addext", "basicConstraints=critical,CA:FALSE"];
        self.request(&[&issued[..], &by, &is_end].concat())?;
        fs::set_permissions(self.key(), fs::Permissions::from_mode(0o600))
            .map_err(|source| failed("keep the key secret", source))?;
        if let Some((uid, gid)) = user(account)? {
            chown(self.key(), Some(uid), Some(gid)).map_err(|source| failed("give the key to the server", source))?;
        }
        Ok(())
    }

    /// A new key, and a certificate for it.
    fn request(&self, arguments: &[&str]) -> Result<()> {
        let mut openssl = Command::new("openssl");
        openssl.current_dir(&self.folder);
        openssl.args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
        ]);
        openssl.args(["-nodes", "-days", "2"]).args(arguments);
        output(&mut openssl).map(drop)
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::warn!(folder = %self.folder.display(), %error, "left certificates behind");
        }
    }
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("read {}: {error}", file.display()))
}
