//! A private Redis server, for tests that take it away or fill its memory.

#![expect(clippy::panic, reason = "a test harness: a test without its server has failed")]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use postroom::{Error, ErrorKind, Result};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::fresh::variable;
use crate::process::Process;
use crate::server::{failed, free_port};

/// A server that has not answered, or not ended, by then is broken.
const ANSWER_MAX: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);

/// A Redis of this test alone. It writes down everything before it answers, so that a restart keeps it. Dropping it kills it
/// and removes its data.
#[derive(Debug)]
pub struct RedisServer {
    folder: PathBuf,
    port: u16,
    settings: Vec<String>,
    process: Option<Process>,
}

/// Starts a Redis with these settings besides the usual, for example `["--maxmemory", "20mb"]`.
pub async fn redis(settings: &[&str]) -> RedisServer {
    let folder = Path::new(&variable("POSTROOM_TEST_SERVICES_DIR")).join(Uuid::now_v7().simple().to_string());
    let port = free_port().unwrap_or_else(|error| panic!("find a port for Redis: {}", error.report()));
    let mut server = RedisServer {
        folder,
        port,
        settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
        process: None,
    };
    if let Err(error) = server.restart().await {
        panic!("start Redis for a test: {}", error.report());
    }
    server
}

impl RedisServer {
    /// Its address.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Its process, to pause or kill; none while it is stopped.
    pub fn process(&mut self) -> Option<&mut Process> {
        self.process.as_mut()
    }

    /// Shuts down in order.
    pub async fn stop(&mut self) -> Result<()> {
        if let Some(mut process) = self.process.take() {
            process.terminate()?;
            process.ended(ANSWER_MAX).await?;
        }
        Ok(())
    }

    /// SIGKILL.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut process) = self.process.take() {
            process.kill9()?;
        }
        Ok(())
    }

    /// Starts it again on the same data and port (stops it first if it runs), and waits until it answers.
    pub async fn restart(&mut self) -> Result<()> {
        self.stop().await?;
        fs::create_dir_all(&self.folder).map_err(|source| failed("make the server's folder", source))?;
        self.process = Some(Process::run(&mut self.command()?)?);
        let start = Instant::now();
        while let Err(error) = self.ping() {
            if start.elapsed() > ANSWER_MAX {
                let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                return Err(Error::caused(
                    ErrorKind::Unavailable,
                    format!("start Redis; its log: {log}"),
                    error,
                ));
            }
            sleep(LOOK).await;
        }
        Ok(())
    }

    fn command(&self) -> Result<Command> {
        let log = fs::File::options()
            .append(true)
            .create(true)
            .open(self.folder.join("log"))
            .map_err(|source| failed("open the server's log", source))?;
        let mut command = Command::new(variable("POSTROOM_TEST_REDIS_BIN"));
        command.args(["--bind", "127.0.0.1", "--port", &self.port.to_string(), "--save", ""]);
        command.args(["--appendonly", "yes", "--appendfsync", "always"]);
        command
            .args(["--daemonize", "no", "--dir"])
            .arg(&self.folder)
            .args(&self.settings);
        command.stdin(Stdio::null()).stdout(log);
        Ok(command)
    }

    fn ping(&self) -> Result<()> {
        let say = || {
            let address = SocketAddr::from(([127, 0, 0, 1], self.port));
            let mut stream = TcpStream::connect_timeout(&address, LOOK)?;
            stream.set_read_timeout(Some(LOOK * 10))?;
            stream.write_all(b"PING\r\n")?;
            let mut answer = [0; 5];
            stream.read_exact(&mut answer)?;
            Ok(answer)
        };
        match say().map_err(|source| failed("ask Redis", source))? {
            answer if answer == *b"+PONG" => Ok(()),
            _loading => Err(Error::new(ErrorKind::Unavailable, "Redis loads its data")),
        }
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.process = None;
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::warn!(folder = %self.folder.display(), %error, "left a server's data behind");
        }
    }
}
