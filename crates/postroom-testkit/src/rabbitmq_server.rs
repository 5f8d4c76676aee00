//! A private RabbitMQ server, for tests that take it away: stop, SIGKILL, restart, raise an alarm.
//!
//! A node and a port mapper of its own, on loopback only, with its own data and cookie, so nobody else's test notices.

#![expect(clippy::panic, reason = "a test harness: a test without its server has failed")]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use postroom::{Error, ErrorKind, Result};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::fresh::variable;
use crate::process::Process;
use crate::server::{failed, free_port, user};

/// A server that has not answered, or not ended, by then is broken.
const ANSWER_MAX: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_millis(100);
/// Without this the node's distribution port listens on every address.
const LOOPBACK_ONLY: &str = "-kernel inet_dist_use_interface {127,0,0,1}";
/// How a client says that it speaks AMQP 0-9-1.
const HELLO: &[u8] = b"AMQP\x00\x00\x09\x01";
/// The server's answer is a method frame.
const METHOD_FRAME: [u8; 1] = [1];

/// A RabbitMQ of this test alone. Dropping it kills it and removes its data.
#[derive(Debug)]
pub struct Server {
    folder: PathBuf,
    settings: String,
    /// For clients, for the node itself, for its port mapper.
    ports: [u16; 3],
    /// Whom it runs as when we are root.
    user: Option<(u32, u32)>,
    mapper: Option<Process>,
    process: Option<Process>,
}

/// Starts a server.
pub async fn rabbitmq() -> Server {
    rabbitmq_with("").await
}

/// Starts a server with these lines in its `rabbitmq.conf` besides the usual.
pub async fn rabbitmq_with(settings: &str) -> Server {
    let folder = Path::new(&variable("POSTROOM_TEST_SERVICES_DIR")).join(Uuid::now_v7().simple().to_string());
    let mut server = Server {
        folder,
        settings: settings.to_owned(),
        ports: [0; 3],
        user: None,
        mapper: None,
        process: None,
    };
    if let Err(error) = server.install() {
        panic!("install RabbitMQ for a test: {}", error.report());
    }
    if let Err(error) = server.restart().await {
        panic!("start RabbitMQ for a test: {}", error.report());
    }
    server
}

impl Server {
    /// Its address, with every right.
    pub fn url(&self) -> String {
        let [port, ..] = self.ports;
        format!("amqp://guest:guest@127.0.0.1:{port}/%2f")
    }

    /// Shuts down in order.
    pub async fn stop(&mut self) -> Result<()> {
        if let Some(mut process) = self.process.take() {
            process.terminate()?;
            process.ended(ANSWER_MAX).await?;
        }
        Ok(())
    }

    /// SIGKILL of the node: what it had not written down is gone.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut process) = self.process.take() {
            process.kill9()?;
        }
        Ok(())
    }

    /// Starts it again on the same data and port, after [`Server::stop`] or [`Server::kill`] (or stops it first), and
    /// waits until it answers.
    pub async fn restart(&mut self) -> Result<()> {
        self.stop().await?;
        let start = Instant::now();
        while !self.answers()? {
            if start.elapsed() > ANSWER_MAX {
                let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                return Err(Error::new(
                    ErrorKind::Unavailable,
                    format!("start RabbitMQ; its log: {log}"),
                ));
            }
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// Runs the server's own tool, for example `["set_vm_memory_high_watermark", "0.4"]`, and answers what it says.
    pub async fn control(&self, arguments: &[&str]) -> Result<String> {
        let mut command = self.command(&program().with_file_name("rabbitmqctl"));
        command.arg("--quiet").args(arguments);
        let run = tokio::task::spawn_blocking(move || command.output());
        let done = run
            .await
            .map_err(|source| Error::caused(ErrorKind::Failed, "wait for rabbitmqctl", source))?
            .map_err(|source| failed("run rabbitmqctl", source))?;
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        if done.status.success() {
            return Ok(said);
        }
        let errors = String::from_utf8_lossy(&done.stderr);
        Err(Error::new(
            ErrorKind::Failed,
            format!("rabbitmqctl {arguments:?}: {said}{errors}"),
        ))
    }

    fn install(&mut self) -> Result<()> {
        self.ports = [free_port()?, free_port()?, free_port()?];
        self.user = user("rabbitmq")?;
        fs::create_dir_all(self.folder.join("data")).map_err(|source| failed("make the server's folder", source))?;
        let settings = format!(
            "listeners.tcp.default = 127.0.0.1:{}\ndisk_free_limit.absolute = 50MB\n{}",
            self.ports[0], self.settings
        );
        for (name, text) in [
            ("rabbitmq.conf", settings.as_str()),
            ("enabled_plugins", "[].\n"),
            ("rabbitmq-env.conf", ""),
        ] {
            fs::write(self.folder.join(name), text).map_err(|source| failed(format!("write {name}"), source))?;
        }
        if let Some((uid, gid)) = self.user {
            for folder in [self.folder.clone(), self.folder.join("data")] {
                chown(&folder, Some(uid), Some(gid))
                    .map_err(|source| failed("give the folder to the server", source))?;
            }
        }
        let mut mapper = self.command(Path::new("epmd"));
        mapper.args(["-port", &self.ports[2].to_string(), "-address", "127.0.0.1"]);
        self.mapper = Some(Process::run(mapper.stdout(self.log()?).stderr(self.log()?))?);
        Ok(())
    }

    /// Runs the server if it does not run, and says hello once.
    fn answers(&mut self) -> Result<bool> {
        let is_running = match &mut self.process {
            Some(process) => process.status()?.is_none(),
            None => false,
        };
        if !is_running {
            let mut server = self.command(&program());
            self.process = Some(Process::run(server.stdout(self.log()?).stderr(self.log()?))?);
        }
        Ok(says_hello(self.ports[0]).is_ok_and(|answer| answer == METHOD_FRAME))
    }

    /// A program as the server's user, told everything it would otherwise look for, or put, in the system's folders.
    fn command(&self, program: &Path) -> Command {
        let [port, node_port, mapper_port] = self.ports;
        let data = self.folder.join("data");
        let mut command = Command::new(program);
        command
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .env("HOME", &self.folder)
            .env("ERL_EPMD_PORT", mapper_port.to_string())
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODENAME", format!("postroom-{port}@localhost"))
            .env("RABBITMQ_DIST_PORT", node_port.to_string())
            .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", LOOPBACK_ONLY)
            .env("RABBITMQ_CONFIG_FILE", self.folder.join("rabbitmq.conf"))
            .env("RABBITMQ_CONF_ENV_FILE", self.folder.join("rabbitmq-env.conf"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", self.folder.join("enabled_plugins"))
            .env("RABBITMQ_MNESIA_BASE", data.join("mnesia"))
            .env("RABBITMQ_SCHEMA_DIR", data.join("schema"))
            .env("RABBITMQ_GENERATED_CONFIG_DIR", data.join("config"))
            .env("RABBITMQ_LOG_BASE", data.join("log"))
            .env("RABBITMQ_PID_FILE", data.join("pid"))
            .env("RABBITMQ_LOGS", "-")
            // The script then becomes the node, so that a signal to the one reaches the other.
            .env("RUNNING_UNDER_SYSTEMD", "true");
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        command
    }

    fn log(&self) -> Result<fs::File> {
        let file = fs::File::options()
            .append(true)
            .create(true)
            .open(self.folder.join("log"));
        file.map_err(|source| failed("open the server's log", source))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process = None;
        self.mapper = None;
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::warn!(folder = %self.folder.display(), %error, "left a server's data behind");
        }
    }
}

fn program() -> PathBuf {
    PathBuf::from(variable("POSTROOM_TEST_RABBITMQ_BIN"))
}

fn says_hello(port: u16) -> std::io::Result<[u8; 1]> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(HELLO)?;
    let mut answer = [0; 1];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}
