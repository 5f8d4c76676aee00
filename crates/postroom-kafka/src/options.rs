//! Connection options, and the settings of librdkafka that follow from them.

use std::fmt;
use std::time::Duration;

use postroom::{Error, ErrorKind, Result, Start, Tls};
use rdkafka::ClientConfig;

/// The hint for builds without TLS.
const TLS_FEATURE: &str = "build with the cargo feature `tls` of postroom-kafka";

/// Connection options of a Kafka cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// `kafka://host:port`, more servers separated by commas. They name the other servers of the cluster.
    pub url: String,
    /// No login and no TLS by default.
    pub security: Security,
    /// Timeout of a request; 5 s by default.
    pub answer_max: Duration,
    /// Start position of a group whose committed offset is no longer in the topic, because retention has deleted the messages or
    /// the topic was created again. Default: the head; the group misses the messages in between. [`Start::Beginning`]: the
    /// oldest message. Both log a warning.
    pub lost: Start,
}

/// Authentication and encryption.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Security {
    /// Credentials, if the brokers require them.
    pub login: Option<Login>,
    /// TLS, if the brokers require it; needs the cargo feature `tls`.
    pub tls: Option<Tls>,
}

/// A user name and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The SASL mechanism.
    pub mechanism: Mechanism,
    /// The user name.
    pub user: String,
    /// The password; not part of the `Debug` output.
    pub password: String,
}

/// SASL mechanisms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// Sends the password in plain text.
    Plain,
    /// SCRAM with SHA-256; needs the cargo feature `tls`.
    ScramSha256,
    /// SCRAM with SHA-512; needs the cargo feature `tls`.
    ScramSha512,
}

impl Options {
    /// Options with this address and defaults for the rest.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            security: Security::default(),
            answer_max: Duration::from_secs(5),
            lost: Start::Head,
        }
    }

    /// Settings of every librdkafka client.
    pub(crate) fn settings(&self) -> Result<ClientConfig> {
        let mut settings = ClientConfig::new();
        settings
            .set("bootstrap.servers", self.servers()?)
            .set("client.id", "postroom")
            .set("allow.auto.create.topics", "false")
            .set("socket.timeout.ms", (self.answer_max * 2).as_millis().to_string())
            .set(
                "socket.connection.setup.timeout.ms",
                self.answer_max.as_millis().max(1000).to_string(),
            )
            .set("socket.nagle.disable", "true")
            .set("reconnect.backoff.max.ms", "1000");
        self.security.apply(&mut settings)?;
        Ok(settings)
    }

    fn servers(&self) -> Result<String> {
        let wrong = |why: &str| {
            Error::invalid(format!(
                "invalid Kafka address: {why}; write kafka://host:port,host:port"
            ))
        };
        let servers = self
            .url
            .strip_prefix("kafka://")
            .ok_or_else(|| wrong("it does not begin with kafka://"))?;
        let servers = servers.trim_end_matches('/');
        if servers.contains('@') {
            return Err(wrong("it contains a user name; set the login separately"));
        }
        for server in servers.split(',') {
            let port = server.rsplit_once(':').filter(|(host, _)| !host.is_empty());
            if port.is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
                return Err(wrong(&format!("{server:?} has no host and port")));
            }
        }
        Ok(servers.to_owned())
    }
}

impl Security {
    fn apply(&self, settings: &mut ClientConfig) -> Result<()> {
        let is_scram = self
            .login
            .as_ref()
            .is_some_and(|login| login.mechanism != Mechanism::Plain);
        if cfg!(not(feature = "tls")) && (is_scram || self.tls.is_some()) {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("this program was built without TLS and SCRAM for Kafka; {TLS_FEATURE}"),
            ));
        }
        let protocol = match (&self.login, &self.tls) {
            (None, None) => "plaintext",
            (None, Some(_)) => "ssl",
            (Some(_), None) => "sasl_plaintext",
            (Some(_), Some(_)) => "sasl_ssl",
        };
        settings.set("security.protocol", protocol);
        if let Some(login) = &self.login {
            settings
                .set("sasl.mechanism", login.mechanism.name())
                .set("sasl.username", &login.user)
                .set("sasl.password", &login.password);
        }
        if let Some(tls) = &self.tls {
            apply_tls(tls, settings);
        }
        Ok(())
    }
}

fn apply_tls(tls: &Tls, settings: &mut ClientConfig) {
    if let Some(authority) = &tls.authority {
        settings.set("ssl.ca.pem", authority);
    }
    if let Some(identity) = &tls.identity {
        settings
            .set("ssl.certificate.pem", &identity.certificate)
            .set("ssl.key.pem", &identity.key);
    }
}

impl Mechanism {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("mechanism", &self.mechanism)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_the_servers() {
        let check = |url: &str, expected: &str| {
            let settings = Options::new(url).settings().unwrap();
            assert_eq!(settings.get("bootstrap.servers"), Some(expected), "{url}");
        };
        check("kafka://127.0.0.1:9092", "127.0.0.1:9092");
        check("kafka://a:1,b:2/", "a:1,b:2");
        check("kafka://[::1]:9092", "[::1]:9092");
    }

    #[test]
    fn an_invalid_address_is_refused() {
        for bad in [
            "",
            "kafka://",
            "127.0.0.1:9092",
            "kafka://host",
            "kafka://a:1,",
            "kafka://u:p@a:1",
        ] {
            let error = Options::new(bad).settings().unwrap_err();
            assert!(error.report().contains("kafka://host:port"), "{bad:?}: {error:?}");
            assert!(!error.report().contains("u:p"), "a password is not repeated: {error:?}");
        }
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn an_option_that_needs_tls_names_the_feature() {
        let login = |mechanism| Login {
            mechanism,
            user: "u".to_owned(),
            password: "secret".to_owned(),
        };
        let mut options = Options::new("kafka://a:1");
        options.security.login = Some(login(Mechanism::ScramSha512));
        let error = options.settings().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.report().contains("`tls`"), "{error:?}");
        options.security.login = Some(login(Mechanism::Plain));
        assert_eq!(
            options.settings().unwrap().get("security.protocol"),
            Some("sasl_plaintext")
        );
        assert!(!format!("{options:?}").contains("secret"));
        options.security.tls = Some(Tls::default());
        assert!(options.settings().is_err());
    }
}
