//! Apache Kafka: one `KRaft` node, broker and controller in one, its jars fetched by Maven.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::daemon::Process;
use super::home::Home;
use super::place::Place;
use super::root::Root;
use super::{About, Service, probe};
use crate::process;

/// Says which Kafka, and lets Maven find its jars.
const POM: &str = include_str!("../../kafka/pom.xml");

/// Any 16 bytes in base64 name a cluster.
const CLUSTER: &str = "cG9zdHJvb20tdGVzdHMtMQ";

/// A request for the supported versions: length, key 18, version 0, correlation 1, no client name.
const WHICH_VERSIONS: &[u8] = &[0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff];

pub(super) struct Kafka;

impl Service for Kafka {
    fn about(&self) -> About {
        About {
            name: "kafka",
            release: None,
            variable: "POSTROOM_TEST_KAFKA_URL",
            user: Some("nobody"),
            ports: 2,
            stop: "TERM",
            needs: None,
        }
    }

    fn missing(&self, root: &Root) -> Vec<&'static str> {
        let tools = [("java", "default-jdk-headless"), ("mvn", "maven")];
        tools
            .iter()
            .filter(|(program, _)| root.find(program).is_none())
            .map(|(_, package)| *package)
            .collect()
    }

    fn start(&self, home: &Home) -> Result<Vec<Process>> {
        let jars = fetch(home)?;
        let settings = format!(
            include_str!("../../kafka/server.properties"),
            broker = home.port(),
            controller = home.port_at(1),
            data = home.data().join("logs").display(),
        );
        let settings = home.write("server.properties", &settings)?;
        let mut format = java(home, &jars)?;
        format
            .args(["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER, "--config"])
            .arg(&settings);
        process::output(&mut format)?;
        let mut server = java(home, &jars)?;
        server.arg("kafka.Kafka").arg(&settings);
        Ok(vec![home.spawn(&mut server)?])
    }

    fn is_ready(&self, home: &Home) -> bool {
        probe::ask::<4>(home.port(), WHICH_VERSIONS).is_some()
    }

    fn url(&self, home: &Home) -> String {
        format!("kafka://127.0.0.1:{}", home.port())
    }
}

/// The folder with the jars, there once Kafka has been started.
pub(super) fn jars(place: &Place) -> Result<PathBuf> {
    Ok(folder(&Home::open(place, &Kafka.about())?))
}

fn folder(home: &Home) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    POM.hash(&mut hasher);
    home.dir.join(format!("jars-{:08x}", hasher.finish() >> 32))
}

/// The folder with the jars; fetched once for each version of the pom, and there only when complete.
fn fetch(home: &Home) -> Result<PathBuf> {
    let jars = folder(home);
    if jars.exists() {
        return Ok(jars);
    }
    eprintln!("kafka: fetching its jars");
    let pom = home.write("pom.xml", POM)?;
    let unfinished = home.dir.join("jars-unfinished");
    let mut maven = Command::new("mvn");
    maven
        .args(["--quiet", "--batch-mode", "-Dstyle.color=never", "--file"])
        .arg(pom);
    maven.args(["dependency:copy-dependencies", "-DincludeScope=runtime"]);
    process::run(maven.arg(format!("-DoutputDirectory={}", unfinished.display())))?;
    fs::rename(&unfinished, &jars).context("move the jars into place")?;
    Ok(jars)
}

fn java(home: &Home, jars: &Path) -> Result<Command> {
    let mut java = home.command(process::find("java").context("find java")?);
    java.args([
        "-Xms256m",
        "-Xmx512m",
        "-XX:+UseSerialGC",
        "-Djava.net.preferIPv4Stack=true",
    ]);
    java.args([
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-cp",
        &format!("{}/*", jars.display()),
    ]);
    Ok(java)
}
