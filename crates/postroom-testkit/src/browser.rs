//! A headless Chromium, driven by its debugging protocol over a pipe.

#![expect(clippy::panic, reason = "a test harness: a test without its browser has failed")]

use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::fresh::variable;
use crate::wait::PATIENCE;

/// Chromium reads commands from descriptor 3 and writes answers to descriptor 4.
const WITH_PIPES: &str = r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >&2"#;

/// A browser with an empty profile of its own. Dropping it kills it.
#[derive(Debug)]
pub struct Browser {
    _process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// The number of the last command.
    number: u64,
    /// Uncaught errors of pages and errors on their consoles, each with the session of its page.
    errors: Vec<(String, String)>,
    // After the process: it writes there.
    _profile: TempDir,
}

/// A page of a browser.
#[derive(Clone, Debug)]
pub struct Page {
    target: String,
    session: String,
}

impl Browser {
    /// Starts the Chromium of `POSTROOM_TEST_CHROMIUM_BIN`.
    pub fn start() -> Self {
        let profile = tempfile::tempdir().unwrap_or_else(|error| panic!("make a folder for a browser: {error}"));
        let mut process = Command::new("sh")
            .args(["-c", WITH_PIPES])
            .arg(variable("POSTROOM_TEST_CHROMIUM_BIN"))
            // Its sandbox refuses root, and needs rights that containers do not have.
            .args(["--headless", "--no-sandbox", "--remote-debugging-pipe", "--disable-gpu"])
            .arg("--disable-dev-shm-usage")
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("start Chromium: {error}"));
        let (Some(commands), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            panic!("Chromium has no pipes");
        };
        Self {
            _process: process,
            commands,
            answers: BufReader::new(answers),
            number: 0,
            errors: Vec::new(),
            _profile: profile,
        }
    }

    /// Opens a page and waits until it is loaded.
    pub async fn open(&mut self, url: &str) -> Page {
        let made = self
            .call(None, "Target.createTarget", json!({ "url": "about:blank" }))
            .await;
        let target = text(&made, "targetId");
        let how = json!({ "targetId": target, "flatten": true });
        let session = text(&self.call(None, "Target.attachToTarget", how).await, "sessionId");
        let page = Page { target, session };
        for domain in ["Runtime.enable", "Log.enable"] {
            self.call(Some(&page), domain, json!({})).await;
        }
        self.visit(&page, url).await;
        page
    }

    /// Goes to another address in the same page, and waits until it is loaded.
    pub async fn visit(&mut self, page: &Page, url: &str) {
        let went = self.call(Some(page), "Page.navigate", json!({ "url": url })).await;
        assert_eq!(went.get("errorText"), None, "{url}");
        let is_loaded = json!(format!(
            "document.readyState === 'complete' && location.href === {}",
            json!(url)
        ));
        loop {
            let how = json!({ "expression": is_loaded, "returnByValue": true });
            let answer = self.call(Some(page), "Runtime.evaluate", how).await;
            if answer.pointer("/result/value") == Some(&Value::Bool(true)) {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Runs a script in a page, waits for its promise, and returns its value.
    pub async fn run(&mut self, page: &Page, script: &str) -> Value {
        let how = json!({ "expression": script, "awaitPromise": true, "returnByValue": true });
        let answer = self.call(Some(page), "Runtime.evaluate", how).await;
        if let Some(error) = answer.get("exceptionDetails") {
            panic!("{script}: {error}");
        }
        answer.pointer("/result/value").cloned().unwrap_or_default()
    }

    /// Takes the network away from a page, or gives it back.
    pub async fn set_offline(&mut self, page: &Page, is_offline: bool) {
        let how = json!({ "offline": is_offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1 });
        self.call(Some(page), "Network.enable", json!({})).await;
        self.call(Some(page), "Network.emulateNetworkConditions", how).await;
    }

    /// Freezes a page, as a browser freezes a tab that was long in the background, or lets it go on.
    pub async fn set_frozen(&mut self, page: &Page, is_frozen: bool) {
        let state = if is_frozen { "frozen" } else { "active" };
        self.call(Some(page), "Page.setWebLifecycleState", json!({ "state": state }))
            .await;
    }

    /// Uncaught errors of a page and errors on its console so far. Requests that failed are none: a browser reports them itself.
    pub async fn errors(&mut self, page: &Page) -> Vec<String> {
        self.run(page, "0").await; // what has happened is told before the answer
        let own = self.errors.iter().filter(|(session, _)| *session == page.session);
        own.map(|(_, error)| error.clone()).collect()
    }

    /// Closes a page, as a user closes a tab.
    pub async fn close(&mut self, page: Page) {
        let how = json!({ "targetId": page.target });
        self.call(None, "Target.closeTarget", how).await;
    }

    /// Sends a command and waits for its answer. Of the events of the browser, errors of pages are kept.
    async fn call(&mut self, page: Option<&Page>, method: &str, params: Value) -> Value {
        self.number += 1;
        let number = self.number;
        let mut command = json!({ "id": number, "method": method, "params": params });
        if let (Some(page), Some(fields)) = (page, command.as_object_mut()) {
            fields.insert("sessionId".to_owned(), page.session.as_str().into());
        }
        let answered = async {
            self.commands.write_all(format!("{command}\0").as_bytes()).await?;
            loop {
                let mut message = Vec::new();
                if self.answers.read_until(0, &mut message).await? == 0 {
                    return Err(std::io::ErrorKind::UnexpectedEof.into());
                }
                message.pop();
                let mut message: Value = serde_json::from_slice(&message)?;
                if message.get("id") == Some(&number.into()) {
                    return std::io::Result::Ok(message.get_mut("result").map(Value::take).ok_or(message));
                }
                self.errors.extend(error_of(&message));
            }
        };
        match timeout(PATIENCE, answered).await {
            Ok(Ok(Ok(result))) => result,
            Ok(Ok(Err(refusal))) => panic!("{method}: {refusal}"),
            Ok(Err(error)) => panic!("{method}: Chromium does not answer: {error}"),
            Err(_late) => panic!("{method}: Chromium does not answer"),
        }
    }
}

/// The error that an event of the browser tells of, with the session of its page.
fn error_of(event: &Value) -> Option<(String, String)> {
    let params = event.get("params")?;
    let error = match event.get("method")?.as_str()? {
        "Runtime.exceptionThrown" => params.get("exceptionDetails"),
        "Runtime.consoleAPICalled" if params.get("type")? == "error" => params.get("args"),
        "Log.entryAdded" => params.get("entry").filter(|entry| {
            entry.get("level") == Some(&"error".into()) && entry.get("source") != Some(&"network".into())
        }),
        _ => None,
    };
    Some((event.get("sessionId")?.as_str()?.to_owned(), error?.to_string()))
}

fn text(answer: &Value, name: &str) -> String {
    let found = answer.get(name).and_then(Value::as_str);
    found.unwrap_or_else(|| panic!("no {name} in {answer}")).to_owned()
}
