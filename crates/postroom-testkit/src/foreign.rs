//! Programs in other languages that know nothing of us: how a test runs them, and what they must find in our messages.

#![expect(clippy::panic, reason = "a test harness: a test without its client has failed")]

use std::collections::BTreeMap;
use std::process::Command;

use postroom::envelope::{CLOUDEVENTS_JSON, JSON};
use postroom::{Entry, Event};
use serde_json::Value;
use serde_json::value::RawValue;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::fresh::variable;

/// An event with everything that may go wrong on the way: a key and a payload beyond ASCII, a trace.
pub fn sample() -> Entry {
    let payload = r#"{"orderId":"주문 7","amount":12.50,"note":"a \"b\" ünd c","deep":[1,{"x":null}]}"#;
    let payload = RawValue::from_string(payload.to_owned()).unwrap_or_else(|error| panic!("{error}"));
    let event = Event::new("loopers.order.paid.v1", "Order", "주문 7", payload);
    let event = event.unwrap_or_else(|error| panic!("{}", error.report()));
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    Entry {
        id: 42,
        event: Event {
            source: "commerce-api".to_owned(),
            ..event.header("traceparent", trace)
        },
        created_at: postroom::clock::now(),
    }
}

/// A message as another program saw it.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The key, where messages have keys.
    pub key: Option<String>,
    /// The media type of the body.
    pub content_type: String,
    /// Attributes beside the body, without the transport's prefix.
    pub attributes: BTreeMap<String, String>,
    /// The body.
    pub body: String,
}

impl Seen {
    /// It is a valid CloudEvent and says what was sent, whichever mode it came in.
    ///
    /// # Panics
    /// If it is not.
    pub fn assert_is(&self, sent: &Entry) {
        if let Some(key) = &self.key {
            assert_eq!(*key, sent.event.aggregate_id, "the key is the aggregate id");
        }
        let (attributes, data) = self.open();
        for (name, value) in &attributes {
            let is_name = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
            assert!(is_name && !value.is_empty(), "{name:?} = {value:?} is no attribute");
        }
        let event = &sent.event;
        let expected = [
            ("specversion", "1.0".to_owned()),
            ("id", event.id.to_string()),
            ("type", event.event_type.clone()),
            ("source", event.source.clone()),
            ("subject", event.aggregate_id.clone()),
            ("datacontenttype", JSON.to_owned()),
            ("aggregatetype", event.aggregate_type.clone()),
            ("aggregateid", event.aggregate_id.clone()),
            ("sequence", format!("{:019}", sent.id)),
            (
                "traceparent",
                event.headers.get("traceparent").cloned().unwrap_or_default(),
            ),
        ];
        for (name, value) in expected {
            assert_eq!(attributes.get(name), Some(&value), "{name} of {attributes:?}");
        }
        let time = attributes.get("time").map(|time| OffsetDateTime::parse(time, &Rfc3339));
        assert!(matches!(time, Some(Ok(time)) if time == event.occurred_at), "{time:?}");
        assert_eq!(data, value(event.payload.get()), "the data is the payload");
    }

    /// Attributes and data, wherever they stand.
    fn open(&self) -> (BTreeMap<String, String>, Value) {
        if !self.content_type.starts_with(CLOUDEVENTS_JSON) {
            let mut attributes = self.attributes.clone();
            attributes.insert("datacontenttype".to_owned(), self.content_type.clone());
            return (attributes, value(&self.body));
        }
        assert!(
            self.attributes.is_empty(),
            "in structured mode nothing stands beside the document: {self:?}"
        );
        let Value::Object(mut document) = value(&self.body) else {
            panic!("no document: {self:?}");
        };
        let data = document.remove("data").unwrap_or_else(|| panic!("no data: {self:?}"));
        let text = |(name, value): (String, Value)| match value {
            Value::String(text) => (name, text),
            other => panic!("the attribute {name} is no text: {other}"),
        };
        (document.into_iter().map(text).collect(), data)
    }
}

fn value(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("no JSON: {error}: {json}"))
}

/// Runs a class of Kafka's own tools; answers what it printed.
pub fn java(class: &str, arguments: &[&str]) -> String {
    let jars = format!("{}/*", variable("POSTROOM_TEST_KAFKA_JARS"));
    let mut java = Command::new("java");
    java.args(["-Xmx128m", "-XX:TieredStopAtLevel=1"]);
    java.args([
        "-Dfile.encoding=UTF-8",
        "-Dstdout.encoding=UTF-8",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    ]);
    java.env("LC_ALL", "C.UTF-8")
        .args(["-cp", &jars, class])
        .args(arguments);
    run(java, "the package default-jdk-headless has it")
}

/// Runs a script in Python, which has a driver for each database and for AMQP; answers what it printed.
pub fn python(script: &str, arguments: &[&str]) -> String {
    let mut python = Command::new(variable("POSTROOM_TEST_PYTHON"));
    python
        .env("PYTHONIOENCODING", "utf-8")
        .args(["-c", script])
        .args(arguments);
    run(python, "the packages python3 and python3-pika have what it needs")
}

/// Runs a command of Redis's own client; answers what it printed.
pub fn redis_cli(url: &str, arguments: &[&str]) -> String {
    let mut client = Command::new("redis-cli");
    client.args(["-u", url]).args(arguments);
    run(client, "the package redis-tools has it")
}

fn run(mut command: Command, where_from: &str) -> String {
    let program = command.get_program().to_string_lossy().into_owned();
    let advice = format!("{where_from}, and `cargo xtask services up` installs it");
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("this test needs {program}: {error}; {advice}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} failed ({advice}): {said}");
    String::from_utf8(output.stdout).unwrap_or_else(|error| panic!("{program} printed no UTF-8: {error}"))
}
