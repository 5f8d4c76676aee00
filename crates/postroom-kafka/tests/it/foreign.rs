//! Kafka's Java client reads published events as valid CloudEvents in both modes, with the aggregate id as key.

use postroom::{Broker as _, Mode, Ordering};
use postroom_testkit::foreign::{self, Seen};

use crate::publish::{deliver, letters, name, topic};
use crate::site::KafkaSite;

/// Separators that the client prints between the parts of a line and between headers.
const PART: char = '\u{1e}';
const HEADER: char = '\u{1f}';

/// Reads a topic with Kafka's console consumer.
fn read(site: &KafkaSite, topic: &str, count: usize) -> Vec<Seen> {
    let (count, server) = (count.to_string(), site.url.trim_start_matches("kafka://"));
    let (part, header) = (format!("key.separator={PART}"), format!("headers.separator={HEADER}"));
    let mut arguments = vec!["--bootstrap-server", server, "--topic", topic, "--from-beginning"];
    arguments.extend(["--max-messages", &count, "--timeout-ms", "60000"]);
    for property in ["print.key=true", "print.headers=true", &part, &header] {
        arguments.extend(["--formatter-property", property]);
    }
    let printed = foreign::java("org.apache.kafka.tools.consumer.ConsoleConsumer", &arguments);
    printed.lines().map(seen).collect()
}

/// Parses a printed line: headers `name:value…`, key and value.
fn seen(line: &str) -> Seen {
    let parts: Vec<&str> = line.split(PART).collect();
    let mut seen = Seen {
        key: Some(parts[1].to_owned()),
        body: parts[2].to_owned(),
        ..Seen::default()
    };
    for (name, value) in parts[0].split(HEADER).filter_map(|header| header.split_once(':')) {
        match name.strip_prefix("ce_") {
            Some(name) => drop(seen.attributes.insert(name.to_owned(), value.to_owned())),
            None if name == "content-type" => value.clone_into(&mut seen.content_type),
            None => panic!("unexpected header: {name}"),
        }
    }
    seen
}

#[tokio::test]
async fn the_java_client_reads_cloud_events_in_both_modes() {
    let (site, sent) = (KafkaSite::shared(), foreign::sample());
    for (mode, content_type) in [
        (Mode::Binary, "application/json"),
        (Mode::Structured, "application/cloudevents+json; charset=UTF-8"),
    ] {
        let name = name();
        site.create_with(&name, 3, &[]).await;
        let publisher = site.kafka.publisher(topic(&name), mode);
        let receipts = deliver(&*publisher, std::slice::from_ref(&sent), Ordering::Key).await;
        assert_eq!(letters(&receipts), "+");
        let found = read(&site, &name, 1);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].content_type, content_type);
        found[0].assert_is(&sent);
    }
}

/// Kafka's tools list the producer with a producer id, which only idempotent producers have. The driver creates an idempotent
/// producer only with `acks=all`.
#[tokio::test]
async fn the_producer_is_idempotent() {
    let (site, name) = (KafkaSite::shared(), name());
    site.create_with(&name, 1, &[]).await;
    let publisher = site.kafka.publisher(topic(&name), Mode::Binary);
    let receipts = deliver(&*publisher, &[foreign::sample(), foreign::sample()], Ordering::Key).await;
    assert_eq!(letters(&receipts), "++");
    let server = site.url.trim_start_matches("kafka://");
    let producers = foreign::java(
        "org.apache.kafka.tools.TransactionsCommand",
        &[
            "--bootstrap-server",
            server,
            "describe-producers",
            "--topic",
            &name,
            "--partition",
            "0",
        ],
    );
    let lines: Vec<&str> = producers.lines().collect();
    assert_eq!(lines.len(), 2, "a heading and one producer: {producers}");
    let columns: Vec<&str> = lines[1].split('\t').map(str::trim).collect();
    assert_eq!(
        (columns[1], columns[3]),
        ("0", "1"),
        "its epoch and last sequence number: {producers}"
    );
}
