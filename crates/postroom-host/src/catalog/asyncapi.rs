//! The catalogue as AsyncAPI 3: a channel per topic, a message per event, an operation per publisher and subscriber.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Catalogue, Listed};

pub(super) fn document(catalogue: &Catalogue) -> Value {
    let mut topics: BTreeMap<&str, Vec<&Listed>> = BTreeMap::new();
    for listed in &catalogue.events {
        topics.entry(&listed.topic).or_default().push(listed);
    }
    let channels: Map<String, Value> = topics.iter().map(|(topic, events)| channel(topic, events)).collect();
    let messages: Map<String, Value> = catalogue
        .events
        .iter()
        .map(|listed| (listed.event.name.to_owned(), message(listed)))
        .collect();
    json!({
        "asyncapi": "3.0.0",
        "info": {
            "title": "Postroom",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "What can happen here. Messages are CloudEvents 1.0; on a broker they are keyed by aggregate id.",
        },
        "defaultContentType": "application/json",
        "channels": channels,
        "operations": operations(&topics),
        "components": { "messages": messages },
    })
}

fn channel(topic: &str, events: &[&Listed]) -> (String, Value) {
    let messages: Map<String, Value> = events
        .iter()
        .map(|listed| {
            let name = listed.event.name;
            (
                name.to_owned(),
                json!({ "$ref": format!("#/components/messages/{name}") }),
            )
        })
        .collect();
    (topic.to_owned(), json!({ "address": topic, "messages": messages }))
}

fn message(listed: &Listed) -> Value {
    json!({
        "name": listed.event.name,
        "title": listed.event.name,
        "summary": listed.description,
        "contentType": "application/json",
        "headers": headers(),
        "payload": {
            "schemaFormat": "application/schema+json;version=draft-07",
            "schema": listed.event.schema,
        },
        "tags": [{ "name": listed.publisher }, { "name": listed.event.aggregate_type }],
    })
}

/// The attributes of an event in CloudEvents' binary mode.
fn headers() -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    json!({
        "type": "object",
        "required": ["specversion", "id", "source", "type"],
        "properties": {
            "specversion": { "type": "string", "const": "1.0" },
            "id": text("Unique for ever; repeats of an event have the same"),
            "source": text("Which service says so"),
            "type": text("What happened"),
            "time": { "type": "string", "format": "date-time" },
            "aggregatetype": text("The kind of thing it happened to"),
            "aggregateid": text("Which one of them: events of one stay in order"),
            "sequence": text("Its place in the log"),
            "traceparent": text("The trace it belongs to"),
        },
    })
}

/// The senders and receivers of a channel.
fn operations(topics: &BTreeMap<&str, Vec<&Listed>>) -> Map<String, Value> {
    let mut parts: BTreeMap<(&'static str, &str, &str), Vec<&str>> = BTreeMap::new();
    for (topic, events) in topics {
        for listed in events {
            let mut add = |action, who| parts.entry((action, who, topic)).or_default().push(listed.event.name);
            add("send", listed.publisher);
            let receivers = listed.subscribers.iter();
            let receivers = receivers.filter(|group| !listed.straight.contains(group)); // others never read the channel
            receivers.for_each(|group| add("receive", group));
        }
    }
    let operation = |((action, who, topic), events): ((&str, &str, &str), Vec<&str>)| {
        let channel = format!("#/channels/{topic}");
        let messages: Vec<Value> = events
            .iter()
            .map(|name| json!({ "$ref": format!("{channel}/messages/{name}") }))
            .collect();
        let says = json!({ "action": action, "channel": { "$ref": channel }, "messages": messages });
        (format!("{who}.{action}.{topic}"), says)
    };
    parts.into_iter().map(operation).collect()
}
