//! Clauses about messages in a form of their own.

use postroom::envelope::SOURCE;
use postroom::{
    Batch, Envelope, Error, Event, Form, Message, Ordering, Receipt, Result, Start, Written, parse_payload,
};
use serde_json::{Value, json};

use super::{Site, entry, group, join, next, publish, publisher, receive_bodies, topic_of};

/// The media type of the form.
const KIND: &str = "application/vnd.suite+json";

/// A form with a body of its own, and a header of its own. It cannot write the word "unwritable".
pub fn form() -> Form {
    Form::new(write, read)
}

fn write(event: &Event) -> Result<Written> {
    if event.payload.get().contains("unwritable") {
        return Err(Error::invalid("the form has no such word"));
    }
    let body = json!({ "eventId": event.id, "eventType": event.event_type, "payload": event.payload.get() });
    let written = Written::json(&body)?.header("x-suite", "é");
    Ok(Written {
        content_type: KIND.to_owned(),
        ..written
    })
}

fn read(message: &Message) -> Result<Option<Envelope>> {
    let body: Value = serde_json::from_slice(&message.body).map_err(|_json| Error::invalid("no JSON"))?;
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    let envelope = Envelope::new(text("eventType"), parse_payload(&text("payload"))?);
    Ok(Some(
        envelope.attribute("id", text("eventId")).attribute("source", SOURCE),
    ))
}

/// A message of a form of its own has its body, media type and headers, and comes back as the event that was published, with what the
/// form has no place for.
pub async fn a_message_in_a_form_of_its_own_comes_back_as_its_event(mut site: impl Site) {
    let topic = topic_of(&mut site).await;
    let mut subscription = join(&site, &group(), &topic, Start::Beginning).await;
    let payload = r#"{"text":"한글 \"q\" é","big":12345678901234567890.5,"list":[null,true]}"#;
    let mut sent = entry(7, "a key / with: ünusual 문자");
    sent.event.payload = parse_payload(payload).expect("JSON");
    sent.event = sent
        .event
        .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        .header("causationid", "42")
        .header("X-Odd", "1");
    publish(&publisher(&site, &topic, form().mode()), &[sent.clone()]).await;
    let messages = next(&mut subscription, 10).await;
    let message = &messages[0];
    assert!(!message.is_cloud_event(), "{message:?}");
    assert_eq!(message.content_type.as_deref(), Some(KIND));
    assert_eq!(message.fields.text("x-suite"), Some("é"));
    let body: Value = serde_json::from_slice(&message.body).expect("the body as it was written");
    assert_eq!(body["eventId"], sent.event.id.to_string());
    let event = form().reader.event(message).expect("read").expect("an event");
    let shown = |event: &Event| serde_json::to_string_pretty(event).expect("JSON");
    let expected = Event {
        source: SOURCE.to_owned(),
        ..sent.event.clone()
    };
    assert_eq!(shown(&event), shown(&expected));
}

/// Another program sends the message of an event again, without our header. The source and the id are the same, so a store
/// recognises the event.
pub async fn a_message_that_is_sent_again_names_the_same_event(mut site: impl Site) {
    let topic = topic_of(&mut site).await;
    let mut subscription = join(&site, &group(), &topic, Start::Beginning).await;
    let sent = entry(7, "key");
    let body = write(&sent.event).expect("written").body;
    site.put(&topic, KIND, &body).await;
    let messages = next(&mut subscription, 10).await;
    let event = form().reader.event(&messages[0]).expect("read").expect("an event");
    assert_eq!(event.source, SOURCE);
    assert_eq!(event.headers.get("ceid"), Some(&sent.event.id.to_string()));
    assert_eq!(event.payload.get(), sent.event.payload.get());
}

/// An event that its form cannot write will never be taken. It holds its key like any other that is not delivered.
pub async fn an_event_that_cannot_be_written_is_rejected_and_holds_its_key(mut site: impl Site) {
    let topic = topic_of(&mut site).await;
    let mut subscription = join(&site, &group(), &topic, Start::Beginning).await;
    // The first lane is long: adapters may send long lanes in another way than short ones.
    let deep: Vec<_> = (0..20).map(|n| entry(n, "deep")).collect();
    let short = ["a", "b", "a", "a", "b"];
    let mut entries: Vec<_> = deep.into_iter().collect();
    entries.extend((20..).zip(short).map(|(n, key)| entry(n, key)));
    for at in [12, 22] {
        entries[at].event.payload = parse_payload(r#""unwritable""#).expect("JSON");
    }
    let entries: Vec<_> = entries.iter().collect();
    let batch = Batch {
        entries: &entries,
        ordering: Ordering::Key,
    };
    let receipts = publisher(&site, &topic, form().mode()).deliver(&batch).await;
    let letter = |receipt: &Receipt| match receipt {
        Receipt::Delivered => '+',
        Receipt::Rejected(says) if says.contains("the form has no such word") => '!',
        Receipt::Held => '.',
        _ => '?',
    };
    let letters: String = receipts.iter().map(letter).collect();
    assert_eq!(letters, "++++++++++++!.......++!.+", "{receipts:?}");
    let came = receive_bodies(&mut subscription, 15).await;
    assert!(came.iter().all(|body| !body.contains("unwritable")), "{came:?}");
}
