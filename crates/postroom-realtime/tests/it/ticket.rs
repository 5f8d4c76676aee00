//! Tickets for clients that can send no header.

use std::time::Duration;

use postroom::clock;
use postroom_realtime::{Client, Hub, HubSettings};
use postroom_shared::Slot;

use crate::stand::{Instance, limits, settings};

async fn open(instance: &Instance, ticket: &str) -> postroom_testkit::event_stream::EventStream {
    let path = format!("/stand/stream?ticket={ticket}&tab=a");
    postroom_testkit::event_stream::EventStream::open(&instance.url, &path, &[]).await
}

#[tokio::test]
async fn a_ticket_opens_one_stream_that_ends_with_the_token() {
    let instance = Instance::start(settings()).await;
    let client = Client::new("42").until(clock::now() + Duration::from_secs(2));
    let ticket = instance.hub.ticket(&client).await.unwrap();
    assert_eq!(ticket.expires_in_seconds, 30);
    let mut stream = open(&instance, &ticket.ticket).await;
    assert_eq!(stream.status, 200);
    assert_eq!(open(&instance, &ticket.ticket).await.status, 401, "it is spent");
    assert_eq!(open(&instance, "forged").await.status, 401);
    instance.publish("member/42").await;
    stream.next_named("message").await;
    assert_eq!(stream.next_named("end").await.json()["reason"], "expired");
}

#[tokio::test]
async fn a_ticket_of_another_hub_opens_nothing() {
    let instance = Instance::start(settings()).await;
    let journal = std::sync::Arc::clone(&instance.shared.journal);
    let other = Hub::new(
        HubSettings::new("other"),
        journal,
        Slot::from(instance.shared.state.clone()),
    );
    let ticket = other.ticket(&Client::new("42")).await.unwrap();
    assert_eq!(open(&instance, &ticket.ticket).await.status, 401);
}

#[tokio::test]
async fn a_spent_ticket_whose_stream_was_evicted_ends_the_reconnects() {
    let instance = Instance::start(settings().limits(limits())).await;
    let ticket = instance.hub.ticket(&Client::new("42")).await.unwrap();
    let mut stream = open(&instance, &ticket.ticket).await;
    let _others = [
        instance.open("42&tab=b").await,
        instance.open("42&tab=c").await,
        instance.open("42&tab=d").await,
    ];
    stream.next_named("evicted").await;
    assert_eq!(open(&instance, &ticket.ticket).await.status, 204);
}

#[test]
fn a_ticket_does_not_show_in_logs() {
    let ticket = postroom_realtime::Ticket {
        ticket: "secret".to_owned(),
        expires_in_seconds: 30,
    };
    assert!(!format!("{ticket:?}").contains("secret"));
}
