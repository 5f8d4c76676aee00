//! RabbitMQ: one node with its own port mapper, nothing of either outside 127.0.0.1.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::daemon::Process;
use super::home::Home;
use super::root::Root;
use super::{About, Service, probe};

/// Debian's program proper; the one on its PATH insists on root or its own user.
const DEBIAN: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";

/// Without this the node's distribution port listens on every address.
const LOOPBACK_ONLY: &str = "-kernel inet_dist_use_interface {127,0,0,1}";

/// How a client says that it speaks AMQP 0-9-1.
const HELLO: &[u8] = b"AMQP\x00\x00\x09\x01";
/// The server's answer is a method frame.
const METHOD_FRAME: [u8; 1] = [1];

/// One node.
pub(super) struct RabbitMq {
    pub(super) name: &'static str,
    pub(super) release: Option<&'static str>,
}

impl Service for RabbitMq {
    fn about(&self) -> About {
        About {
            name: self.name,
            release: self.release,
            variable: "POSTROOM_TEST_RABBITMQ_URL",
            user: Some("rabbitmq"),
            ports: 3,
            stop: "TERM",
            needs: None,
        }
    }

    fn missing(&self, root: &Root) -> Vec<&'static str> {
        if program(root).is_some() && root.find("epmd").is_some() {
            vec![]
        } else {
            vec!["rabbitmq-server"]
        }
    }

    fn start(&self, home: &Home) -> Result<Vec<Process>> {
        let settings = format!(
            "listeners.tcp.default = 127.0.0.1:{}\ndisk_free_limit.absolute = 50MB\n",
            home.port()
        );
        home.write("rabbitmq.conf", &settings)?;
        home.write("enabled_plugins", "[].\n")?;
        home.write("rabbitmq-env.conf", "")?;
        let mapper_port = home.port_at(2).to_string();
        let mut mapper = home.command(home.find("epmd")?);
        let mapper = home.spawn(mapper.args(["-port", &mapper_port, "-address", "127.0.0.1"]))?;
        let mut server = home.command(program(&home.root).context("find rabbitmq-server")?);
        describe_node(&mut server, home);
        let server = home.spawn(&mut server).inspect_err(|_| mapper.stop("TERM"))?;
        Ok(vec![mapper, server])
    }

    fn is_ready(&self, home: &Home) -> bool {
        probe::ask(home.port(), HELLO) == Some(METHOD_FRAME)
    }

    fn url(&self, home: &Home) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", home.port())
    }
}

/// Everything the node would otherwise look for, or put, in the system's folders.
fn describe_node(server: &mut Command, home: &Home) {
    server
        .env("RABBITMQ_NODENAME", format!("postroom-{}@localhost", home.port()))
        .env("RABBITMQ_DIST_PORT", home.port_at(1).to_string())
        .env("ERL_EPMD_PORT", home.port_at(2).to_string())
        .env("ERL_EPMD_ADDRESS", "127.0.0.1")
        .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", LOOPBACK_ONLY)
        .env("RABBITMQ_CONFIG_FILE", home.dir.join("rabbitmq.conf"))
        .env("RABBITMQ_CONF_ENV_FILE", home.dir.join("rabbitmq-env.conf"))
        .env("RABBITMQ_ENABLED_PLUGINS_FILE", home.dir.join("enabled_plugins"))
        .env("RABBITMQ_MNESIA_BASE", home.data().join("mnesia"))
        .env("RABBITMQ_SCHEMA_DIR", home.data().join("schema"))
        .env("RABBITMQ_GENERATED_CONFIG_DIR", home.data().join("config"))
        .env("RABBITMQ_LOG_BASE", home.data().join("log"))
        .env("RABBITMQ_PID_FILE", home.data().join("pid"))
        .env("RABBITMQ_LOGS", "-");
}

/// The server.
pub(super) fn program(root: &Root) -> Option<PathBuf> {
    let debian = root.path(DEBIAN);
    if debian.exists() {
        Some(debian)
    } else {
        root.find("rabbitmq-server")
    }
}
