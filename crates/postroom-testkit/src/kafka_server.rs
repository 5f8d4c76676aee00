//! A private Kafka, for tests that take it away: stop, SIGKILL, restart.
//!
//! One node, broker and controller in one, with its own data and ports, so nobody else's test notices.

#![expect(clippy::panic, reason = "a test harness: a test without its server has failed")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
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
/// Any 16 bytes in base64 name a cluster.
const CLUSTER: &str = "cG9zdHJvb20tdGVzdHMtMg";
/// A request for the supported versions: length, key 18, version 0, correlation 1, no client name.
const WHICH_VERSIONS: &[u8] = &[0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff];
/// One node replicates nothing, makes no topic unasked and lets a consumer group begin at once.
const SETTINGS: &str = "\
process.roles=broker,controller
node.id=1
inter.broker.listener.name=BROKER
controller.listener.names=CONTROLLER
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
";

/// A Kafka of this test alone. Dropping it kills it and removes its data.
#[derive(Debug)]
pub struct Server {
    folder: PathBuf,
    /// For clients, for the controller, and for clients that have to show something.
    ports: [u16; 3],
    /// The protocol of that third one, and its settings.
    guard: Option<(String, String)>,
    /// Whom it runs as when we are root.
    user: Option<(u32, u32)>,
    process: Option<Process>,
}

/// Starts a server.
pub async fn kafka() -> Server {
    start(None).await
}

/// Starts a server with one more listener, named GUARDED, that speaks `SSL` or `SASL_PLAINTEXT` and has these settings.
pub async fn kafka_guarded(protocol: &str, settings: &str) -> Server {
    start(Some((protocol.to_owned(), settings.to_owned()))).await
}

async fn start(guard: Option<(String, String)>) -> Server {
    let folder = Path::new(&variable("POSTROOM_TEST_SERVICES_DIR")).join(Uuid::now_v7().simple().to_string());
    let mut server = Server {
        folder,
        ports: [0; 3],
        guard,
        user: None,
        process: None,
    };
    if let Err(error) = server.install() {
        panic!("install Kafka for a test: {}", error.report());
    }
    if let Err(error) = server.restart().await {
        panic!("start Kafka for a test: {}", error.report());
    }
    server
}

impl Server {
    /// Its address.
    pub fn url(&self) -> String {
        let [port, ..] = self.ports;
        format!("kafka://127.0.0.1:{port}")
    }

    /// The address of the guarded listener.
    pub fn guarded_url(&self) -> String {
        let [.., port] = self.ports;
        format!("kafka://127.0.0.1:{port}")
    }

    /// Shuts down in order.
    pub async fn stop(&mut self) -> Result<()> {
        if let Some(mut process) = self.process.take() {
            process.terminate()?;
            process.ended(ANSWER_MAX).await?;
        }
        Ok(())
    }

    /// SIGKILL of the server: what it had not written down is gone.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut process) = self.process.take() {
            process.kill9()?;
        }
        Ok(())
    }

    /// Starts it again on the same data and ports, after [`Server::stop`] or [`Server::kill`] (or stops it first), and waits
    /// until it answers.
    pub async fn restart(&mut self) -> Result<()> {
        self.stop().await?;
        self.process = Some(Process::run(&mut self.server_command()?)?);
        let start = Instant::now();
        while !self.is_answering() {
            if start.elapsed() > ANSWER_MAX || !self.is_running()? {
                let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                return Err(Error::new(
                    ErrorKind::Unavailable,
                    format!("start Kafka; its log: {log}"),
                ));
            }
            sleep(LOOK).await;
        }
        Ok(())
    }

    fn is_running(&mut self) -> Result<bool> {
        self.process
            .as_mut()
            .map_or(Ok(false), |process| Ok(process.status()?.is_none()))
    }

    /// Whether it answers a request.
    fn is_answering(&self) -> bool {
        let [port, ..] = self.ports;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let ask = || -> std::io::Result<()> {
            let mut stream = TcpStream::connect_timeout(&address, LOOK)?;
            stream.set_read_timeout(Some(Duration::from_secs(2)))?;
            stream.write_all(WHICH_VERSIONS)?;
            stream.read_exact(&mut [0; 4])
        };
        ask().is_ok()
    }

    fn install(&mut self) -> Result<()> {
        self.ports = [free_port()?, free_port()?, free_port()?];
        self.user = user("nobody")?;
        fs::create_dir_all(&self.folder).map_err(|source| failed("make the server's folder", source))?;
        fs::write(self.folder.join("server.properties"), self.settings())
            .map_err(|source| failed("write the server's settings", source))?;
        if let Some((uid, gid)) = self.user {
            chown(&self.folder, Some(uid), Some(gid))
                .map_err(|source| failed("give the folder to the server", source))?;
        }
        let mut format = self.java();
        format.args(["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER, "--config"]);
        let done = format
            .arg("server.properties")
            .output()
            .map_err(|source| failed("format the server's data", source))?;
        if done.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&done.stderr);
        Err(Error::new(
            ErrorKind::Failed,
            format!("format the server's data: {}: {said}", done.status),
        ))
    }

    fn settings(&self) -> String {
        let [broker, controller, guarded] = self.ports;
        let data = self.folder.join("data");
        let (mut protocols, mut open, mut settings) = (String::new(), String::new(), "");
        if let Some((protocol, own)) = &self.guard {
            protocols = format!(",GUARDED:{protocol}");
            open = format!(",GUARDED://127.0.0.1:{guarded}");
            settings = own;
        }
        format!(
            "{SETTINGS}\
             listener.security.protocol.map=BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT{protocols}\n\
             listeners=BROKER://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}{open}\n\
             advertised.listeners=BROKER://127.0.0.1:{broker}{open}\n\
             controller.quorum.voters=1@127.0.0.1:{controller}\n\
             log.dirs={}\n{settings}",
            data.display(),
        )
    }

    fn server_command(&self) -> Result<Command> {
        let log = fs::File::options()
            .append(true)
            .create(true)
            .open(self.folder.join("log"))
            .map_err(|source| failed("open the server's log", source))?;
        let errors = log
            .try_clone()
            .map_err(|source| failed("open the server's log", source))?;
        let mut command = self.java();
        command.args(["kafka.Kafka", "server.properties"]);
        command.stdout(log).stderr(errors);
        Ok(command)
    }

    /// Kafka's own Java, in the server's folder, as the server's user.
    fn java(&self) -> Command {
        let mut java = Command::new("java");
        java.args(["-Xms128m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        java.args([
            "-Djava.net.preferIPv4Stack=true",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        ]);
        java.args(["-cp", &format!("{}/*", variable("POSTROOM_TEST_KAFKA_JARS"))]);
        java.current_dir(&self.folder)
            .env("HOME", &self.folder)
            .stdin(Stdio::null());
        if let Some((uid, gid)) = self.user {
            java.uid(uid).gid(gid);
        }
        java
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process = None;
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::warn!(folder = %self.folder.display(), %error, "left a server's data behind");
        }
    }
}
