//! A folder to work in, commands that are run there, and daemons that are stopped.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test harness: what goes wrong fails the test"
)]

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::{Instant, sleep, timeout};

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// Where activity collection gets the secret of its hashes from.
const HASH_SECRET: &str = "ANALYTICS_HASH_SECRET";

/// A folder with a store in it.
pub(crate) struct Place {
    folder: TempDir,
    /// Environment variables of every command.
    variables: Vec<(String, String)>,
}

/// The exit code and output of a command.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Place {
    /// An empty folder.
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            variables: vec![(
                HASH_SECRET.to_owned(),
                "an invented secret that only tests use".to_owned(),
            )],
        }
    }

    /// One whose programs get no secret for hashes.
    pub(crate) fn without_hash_secret() -> Self {
        let mut place = Self::new();
        place.variables.clear();
        place
    }

    /// Sets an environment variable for every command.
    pub(crate) fn set(&mut self, variable: &str, value: &str) {
        self.variables.push((variable.to_owned(), value.to_owned()));
    }

    /// A folder whose store has its tables.
    pub(crate) async fn migrated() -> Self {
        let place = Self::new();
        place.ok(&["migrate"]).await;
        place
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes `postroom.toml`.
    pub(crate) fn configure(&self, toml: &str) {
        std::fs::write(self.path().join("postroom.toml"), toml).unwrap();
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.command_with(&[], arguments)
    }

    /// The command, run by another program that takes it as its last arguments.
    pub(crate) fn command_with(&self, runner: &[&str], arguments: &[&str]) -> Command {
        let program = [runner, &[env!("CARGO_BIN_EXE_postroom")]].concat();
        let mut command = Command::new(program[0]);
        command
            .args(&program[1..])
            .args(arguments)
            .current_dir(self.path())
            .env("USER", "ada")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// Runs a command to its end.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Said {
        let output = timeout(PATIENCE, self.command(arguments).output()).await;
        let output = output.unwrap_or_else(|_| panic!("{arguments:?} does not end")).unwrap();
        Said {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs a command that must succeed; answers what it printed.
    pub(crate) async fn ok(&self, arguments: &[&str]) -> String {
        let said = self.run(arguments).await;
        assert_eq!(said.code, Some(0), "{arguments:?} failed: {}", said.err);
        said.out
    }

    /// Runs a command that must fail; answers its error.
    pub(crate) async fn fails(&self, arguments: &[&str]) -> String {
        let said = self.run(arguments).await;
        assert_eq!(said.code, Some(1), "{arguments:?} did not fail: {}", said.out);
        said.err
    }

    /// Runs a command that must succeed; answers the document it printed.
    pub(crate) async fn json(&self, arguments: &[&str]) -> Value {
        let out = self.ok(&[arguments, &["--json"]].concat()).await;
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{arguments:?} printed no JSON: {error}: {out}"))
    }

    /// Emits an event of the example; answers its id.
    pub(crate) async fn emit(&self, order_id: &str, payload: &str) -> String {
        let kind = ["emit", "--type", "hello.order.placed.v1", "--aggregate-type", "order"];
        let rest = ["--aggregate-id", order_id, "--payload", payload];
        self.ok(&[&kind[..], &rest].concat()).await.trim().to_owned()
    }

    /// The status of a route.
    pub(crate) async fn route(&self, name: &str) -> Value {
        let status = self.json(&["status"]).await;
        let routes = status["routes"].as_array().unwrap();
        routes
            .iter()
            .find(|route| route["route"] == name)
            .cloned()
            .unwrap_or_default()
    }

    /// Waits until the route's status is as wanted.
    pub(crate) async fn wait_for_route(&self, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let route = self.route(name).await;
            if wanted(&route) {
                return route;
            }
            assert!(Instant::now() < deadline, "{name} does not get there: {route}");
            sleep(LOOK).await;
        }
    }

    /// Starts a daemon on a free port and waits until it listens.
    pub(crate) async fn start(&self, arguments: &[&str]) -> Daemon {
        self.start_with(&[], arguments).await
    }

    /// The same, run by another program.
    pub(crate) async fn start_with(&self, runner: &[&str], arguments: &[&str]) -> Daemon {
        let mut child = self
            .command_with(runner, arguments)
            .args(["--listen", "127.0.0.1:0"])
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap()).lines();
        let err = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut daemon = Daemon {
            child,
            out,
            err,
            address: String::new(),
        };
        let line = match arguments.first() {
            Some(&"up") => daemon.read_out_until("listening on http").await,
            _ => daemon.read_until("listen=http").await,
        };
        let address = line.split("://").last().unwrap().split_whitespace().next().unwrap();
        address.clone_into(&mut daemon.address);
        daemon
    }
}

/// A daemon that runs. Dropping it kills it.
pub(crate) struct Daemon {
    child: Child,
    out: Lines<BufReader<ChildStdout>>,
    err: Lines<BufReader<ChildStderr>>,
    pub(crate) address: String,
}

impl Daemon {
    /// Reads log lines until one contains this.
    pub(crate) async fn read_until(&mut self, text: &str) -> String {
        let read = async {
            while let Some(line) = self.err.next_line().await.unwrap() {
                if line.contains(text) {
                    return line;
                }
            }
            panic!("the daemon ended without saying {text:?}")
        };
        timeout(PATIENCE, read)
            .await
            .unwrap_or_else(|_| panic!("the daemon does not say {text:?}"))
    }

    async fn read_out_until(&mut self, text: &str) -> String {
        let read = async {
            while let Some(line) = self.out.next_line().await.unwrap() {
                if line.contains(text) {
                    return line;
                }
            }
            let mut errors = String::new();
            self.err.get_mut().read_to_string(&mut errors).await.unwrap();
            panic!("the daemon ended without saying {text:?}: {errors}")
        };
        timeout(PATIENCE, read)
            .await
            .unwrap_or_else(|_| panic!("the daemon does not say {text:?}"))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// Sends a signal by its name.
    pub(crate) async fn signal(&self, name: &str) {
        let pid = self.child.id().expect("it runs").to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status().await.unwrap();
        assert!(sent.success(), "send {name} to {pid}");
    }

    /// Waits for its end within `limit`; answers how it ended and the rest of its log.
    pub(crate) async fn end(mut self, limit: Duration) -> (ExitStatus, String) {
        let mut log = String::new();
        let ended = async {
            self.err.get_mut().read_to_string(&mut log).await.unwrap();
            self.child.wait().await.unwrap()
        };
        let status = timeout(limit, ended).await.expect("it ends in time");
        (status, log)
    }

    /// Stops it as Ctrl-C does; it must end well within its deadline.
    pub(crate) async fn stop(self) {
        self.signal("INT").await;
        let (status, log) = self.end(Duration::from_secs(10)).await;
        assert!(status.success(), "it stops with {status}: {log}");
    }

    /// Sends a request; answers the status code and the body.
    pub(crate) async fn request(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        self.request_with(method, path, "content-type: application/json\r\n", body)
            .await
    }

    /// The same with these header lines.
    pub(crate) async fn request_with(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
        let exchange = async {
            let mut stream = TcpStream::connect(&self.address).await.unwrap();
            let head = format!(
                "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        };
        let answer = timeout(PATIENCE, exchange).await.expect("an answer comes");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
        let code = head.split_whitespace().nth(1).unwrap().parse().unwrap();
        (code, body.to_owned())
    }

    /// Asks until the answer is as wanted; answers it.
    pub(crate) async fn wait_for(&self, path: &str, wanted: impl Fn(u16, &str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (code, body) = self.request("GET", path, "").await;
            if wanted(code, &body) {
                return body;
            }
            assert!(Instant::now() < deadline, "{path} does not get there: {code} {body}");
            sleep(LOOK).await;
        }
    }
}
