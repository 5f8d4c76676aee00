//! A private Redis server, for tests that take it away or fill its memory.

use std::future::ready;
use std::process::Command;

use postroom::{Error, ErrorKind, Result};
use postroom_proof::process::Process;

use crate::fresh::variable;
use crate::home::{Home, ask, demand, free_ports};

/// A Redis of this test alone. It writes down everything before it answers, so that a restart keeps it. Dropping it kills it
/// and removes its data.
#[derive(Debug)]
pub struct RedisServer {
    home: Home,
    port: u16,
    settings: Vec<String>,
}

/// Starts a Redis with these settings besides the usual, for example `["--maxmemory", "20mb"]`.
pub async fn redis(settings: &[&str]) -> RedisServer {
    demand("Redis", RedisServer::create(settings).await)
}

impl RedisServer {
    /// Its address.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Its process, to pause or kill; none while it is stopped.
    pub fn process(&mut self) -> Option<&mut Process> {
        self.home.process()
    }

    /// Shuts down in order.
    pub async fn stop(&mut self) -> Result<()> {
        self.home.stop("TERM").await
    }

    /// SIGKILL.
    pub fn kill(&mut self) -> Result<()> {
        self.home.kill()
    }

    /// Starts it again on the same data and port (stops it first if it runs), and waits until it answers.
    pub async fn restart(&mut self) -> Result<()> {
        self.stop().await?;
        let mut server = self.command();
        let port = self.port;
        self.home.start(&mut server, || ready(is_loaded(port))).await
    }

    async fn create(settings: &[&str]) -> Result<Self> {
        let [port] = free_ports()?;
        let mut server = Self {
            home: Home::create(None)?,
            port,
            settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
        };
        server.restart().await?;
        Ok(server)
    }

    fn command(&self) -> Command {
        let mut command = self.home.command(variable("POSTROOM_TEST_REDIS_BIN"));
        command.args(["--bind", "127.0.0.1", "--port", &self.port.to_string(), "--save", ""]);
        command.args(["--appendonly", "yes", "--appendfsync", "always"]);
        command.args(["--daemonize", "no", "--dir", "."]).args(&self.settings);
        command
    }
}

fn is_loaded(port: u16) -> Result<()> {
    match &ask(port, b"PING\r\n")? {
        b"+PONG" => Ok(()),
        _loading => Err(Error::new(ErrorKind::Unavailable, "Redis loads its data")),
    }
}
