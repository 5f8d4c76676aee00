//! A private Kafka, for tests that take it away: stop, SIGKILL, restart.
//!
//! One node, broker and controller in one, with its own data and ports, so nobody else's test notices.

use std::future::ready;
use std::process::Command;

use postroom::Result;

use crate::fresh::variable;
use crate::home::{Home, ask, demand, free_ports, output};

/// Any 16 bytes in base64 name a cluster.
const CLUSTER: &str = "cG9zdHJvb20tdGVzdHMtMg";
/// A request for the supported versions: length, key 18, version 0, correlation 1, no client name.
const WHICH_VERSIONS: &[u8] = &[0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff];

/// A Kafka of this test alone. Dropping it kills it and removes its data.
#[derive(Debug)]
pub struct Server {
    home: Home,
    /// For clients, for the controller, and for clients that have to show something.
    ports: [u16; 3],
    /// The protocol of that third one, and its settings.
    guard: Option<(String, String)>,
}

/// Starts a server.
pub async fn kafka() -> Server {
    demand("Kafka", Server::create(None).await)
}

/// Starts a server with one more listener, named GUARDED, that speaks `SSL` or `SASL_PLAINTEXT` and has these settings.
pub async fn kafka_guarded(protocol: &str, settings: &str) -> Server {
    let guard = Some((protocol.to_owned(), settings.to_owned()));
    demand("Kafka", Server::create(guard).await)
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
        self.home.stop("TERM").await
    }

    /// SIGKILL of the server: what it had not written down is gone.
    pub fn kill(&mut self) -> Result<()> {
        self.home.kill()
    }

    /// Starts it again on the same data and ports, after [`Server::stop`] or [`Server::kill`] (or stops it first), and waits
    /// until it answers.
    pub async fn restart(&mut self) -> Result<()> {
        self.stop().await?;
        let [port, ..] = self.ports;
        let mut server = self.java();
        server.args(["kafka.Kafka", "server.properties"]);
        let answer = || ready(ask::<4>(port, WHICH_VERSIONS).map(|_length| ()));
        self.home.start(&mut server, answer).await
    }

    async fn create(guard: Option<(String, String)>) -> Result<Self> {
        let mut server = Self {
            home: Home::create(Some("nobody"))?,
            ports: free_ports()?,
            guard,
        };
        server.home.write("server.properties", &server.settings())?;
        let mut format = server.java();
        format.args(["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER, "--config"]);
        output(format.arg("server.properties"))?;
        server.restart().await?;
        Ok(server)
    }

    /// As the Kafka that all tests share, at other ports.
    fn settings(&self) -> String {
        let [broker, controller, _] = self.ports;
        let plain = format!(
            include_str!("../../../xtask/kafka/server.properties"),
            broker = broker,
            controller = controller,
            data = self.home.path("data").display(),
        );
        format!("{plain}{}", self.guard())
    }

    /// The settings of the third listener; of a key that is set twice the later one counts.
    fn guard(&self) -> String {
        let Some((protocol, settings)) = &self.guard else {
            return String::new();
        };
        let [broker, controller, guarded] = self.ports;
        let open = format!("BROKER://127.0.0.1:{broker},GUARDED://127.0.0.1:{guarded}");
        format!(
            "listener.security.protocol.map=BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,GUARDED:{protocol}\n\
             listeners={open},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners={open}\n{settings}"
        )
    }

    /// Kafka's own Java, in the server's folder, as the server's user.
    fn java(&self) -> Command {
        let mut java = self.home.command("java");
        java.args(["-Xms128m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        java.args([
            "-Djava.net.preferIPv4Stack=true",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        ]);
        java.args(["-cp", &format!("{}/*", variable("POSTROOM_TEST_KAFKA_JARS"))]);
        java
    }
}
