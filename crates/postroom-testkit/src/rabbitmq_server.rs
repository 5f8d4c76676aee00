//! A private RabbitMQ server, for tests that take it away: stop, SIGKILL, restart, raise an alarm.
//!
//! A node and a port mapper of its own, on loopback only, with its own data and cookie, so nobody else's test notices.

use std::future::ready;
use std::path::{Path, PathBuf};
use std::process::Command;

use postroom::{Error, ErrorKind, Result};
use postroom_proof::process::Process;

use crate::fresh::variable;
use crate::home::{Home, ask, demand, free_ports, output};

/// Without this the node's distribution port listens on every address.
const LOOPBACK_ONLY: &str = "-kernel inet_dist_use_interface {127,0,0,1}";
/// How a client says that it speaks AMQP 0-9-1.
const HELLO: &[u8] = b"AMQP\x00\x00\x09\x01";
/// The server's answer is a method frame.
const METHOD_FRAME: [u8; 1] = [1];

/// A RabbitMQ of this test alone. Dropping it kills it and removes its data.
#[derive(Debug)]
pub struct Server {
    /// Ends before its folder goes.
    _mapper: Process,
    home: Home,
    ports: Ports,
}

#[derive(Clone, Copy, Debug)]
struct Ports {
    client: u16,
    node: u16,
    mapper: u16,
}

/// Starts a server.
pub async fn rabbitmq() -> Server {
    rabbitmq_with("").await
}

/// Starts a server with these lines in its `rabbitmq.conf` besides the usual.
pub async fn rabbitmq_with(settings: &str) -> Server {
    demand("RabbitMQ", Server::create(settings).await)
}

impl Server {
    /// Its address, with every right.
    pub fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.ports.client)
    }

    /// Shuts down in order.
    pub async fn stop(&mut self) -> Result<()> {
        self.home.stop("TERM").await
    }

    /// SIGKILL of the node: what it had not written down is gone.
    pub fn kill(&mut self) -> Result<()> {
        self.home.kill()
    }

    /// Starts it again on the same data and port, after [`Server::stop`] or [`Server::kill`] (or stops it first), and
    /// waits until it answers.
    pub async fn restart(&mut self) -> Result<()> {
        self.stop().await?;
        let mut node = command(&self.home, self.ports, &program());
        let port = self.ports.client;
        self.home.start(&mut node, || ready(says_hello(port))).await
    }

    /// Runs the server's own tool, for example `["set_vm_memory_high_watermark", "0.4"]`, and answers what it says.
    pub async fn control(&self, arguments: &[&str]) -> Result<String> {
        let mut control = command(&self.home, self.ports, &program().with_file_name("rabbitmqctl"));
        control.arg("--quiet").args(arguments);
        tokio::task::spawn_blocking(move || output(&mut control))
            .await
            .map_err(|source| Error::caused(ErrorKind::Failed, "wait for rabbitmqctl", source))?
    }

    async fn create(settings: &str) -> Result<Self> {
        let home = Home::create(Some("rabbitmq"))?;
        let [client, node, mapper] = free_ports()?;
        let ports = Ports { client, node, mapper };
        let settings =
            format!("listeners.tcp.default = 127.0.0.1:{client}\ndisk_free_limit.absolute = 50MB\n{settings}");
        home.write("rabbitmq.conf", &settings)?;
        home.write("enabled_plugins", "[].\n")?;
        home.write("rabbitmq-env.conf", "")?;
        let mut epmd = command(&home, ports, Path::new("epmd"));
        epmd.args(["-port", &mapper.to_string(), "-address", "127.0.0.1"]);
        let mut server = Self {
            _mapper: home.run(&mut epmd)?,
            home,
            ports,
        };
        server.restart().await?;
        Ok(server)
    }
}

/// A program as the server's user, told everything it would otherwise look for, or put, in the system's folders.
fn command(home: &Home, ports: Ports, program: &Path) -> Command {
    let mut command = home.command(program);
    command
        .env("ERL_EPMD_PORT", ports.mapper.to_string())
        .env("ERL_EPMD_ADDRESS", "127.0.0.1")
        .env("RABBITMQ_NODENAME", format!("postroom-{}@localhost", ports.client))
        .env("RABBITMQ_DIST_PORT", ports.node.to_string())
        .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", LOOPBACK_ONLY)
        .env("RABBITMQ_CONFIG_FILE", home.path("rabbitmq.conf"))
        .env("RABBITMQ_CONF_ENV_FILE", home.path("rabbitmq-env.conf"))
        .env("RABBITMQ_ENABLED_PLUGINS_FILE", home.path("enabled_plugins"))
        .env("RABBITMQ_MNESIA_BASE", home.path("mnesia"))
        .env("RABBITMQ_SCHEMA_DIR", home.path("schema"))
        .env("RABBITMQ_GENERATED_CONFIG_DIR", home.path("config"))
        .env("RABBITMQ_LOG_BASE", home.path("logs"))
        .env("RABBITMQ_PID_FILE", home.path("pid"))
        .env("RABBITMQ_LOGS", "-")
        // The script then becomes the node, so that a signal to the one reaches the other.
        .env("RUNNING_UNDER_SYSTEMD", "true");
    command
}

fn program() -> PathBuf {
    PathBuf::from(variable("POSTROOM_TEST_RABBITMQ_BIN"))
}

fn says_hello(port: u16) -> Result<()> {
    match ask(port, HELLO)? {
        METHOD_FRAME => Ok(()),
        _other => Err(Error::new(ErrorKind::Unavailable, "RabbitMQ speaks another protocol")),
    }
}
