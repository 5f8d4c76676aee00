//! A module whose mapper reads the outbox, and whose store reads a stream that other programs write to, too.

use std::sync::{Arc, Mutex};

use postroom::{
    BoxError, CancellationToken, DomainEvent, Envelope, Event, Handler, Message, Result, Subscriber, Tx, append, emit,
    parse_payload, table,
};
use postroom_host::{Feed, Module, Platform};
use postroom_redis::Options;
use postroom_testkit::foreign::redis_cli;
use postroom_testkit::fresh;
use postroom_testkit::wait::until;
use redis::AsyncTypedCommands;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::site::{options, own};

const STREAM: &str = "domain.user.activity";

#[derive(Serialize, Deserialize, JsonSchema)]
struct ReviewCreated {
    review: u32,
}

impl DomainEvent for ReviewCreated {
    const TYPE: &'static str = "tasteam.review.created.v1";
    const AGGREGATE_TYPE: &'static str = "review";
    fn aggregate_id(&self) -> String {
        self.review.to_string()
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct ActivityRecorded {
    review: u32,
}

impl DomainEvent for ActivityRecorded {
    const TYPE: &'static str = "tasteam.activity.recorded.v1";
    const AGGREGATE_TYPE: &'static str = "activity";
    fn aggregate_id(&self) -> String {
        self.review.to_string()
    }
}

/// Keeps the numbers of reviews, as they come.
#[derive(Clone, Default)]
struct Store(Arc<Mutex<Vec<u32>>>);

impl Handler for Store {
    async fn handle(&self, _tx: &mut Tx, event: &Event) -> Result<(), BoxError> {
        self.0.lock().unwrap().push(event.decode::<ActivityRecorded>()?.review);
        Ok(())
    }
}

async fn map(tx: &mut Tx, created: ReviewCreated) -> Result<()> {
    emit(tx, &ActivityRecorded { review: created.review }).await?;
    Ok(())
}

fn read(message: &Message) -> Result<Option<Envelope>> {
    let payload = message.fields.text("payload").unwrap_or_default();
    Ok(Some(Envelope::new(ActivityRecorded::TYPE, parse_payload(payload)?)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_module_maps_from_the_outbox_and_stores_from_its_stream() {
    let (fresh, store) = (fresh::postgres().await, Store::default());
    let named = Options {
        stream: "{topic}".to_owned(),
        partitions: 1,
        ..options()
    };
    let site = own(&[], named).await;
    let reviews = Module::new("review").event::<ReviewCreated>();
    let activity = Module::new("activity")
        .event::<ActivityRecorded>()
        .topic(STREAM.parse().unwrap())
        .subscriber(Subscriber::on::<ReviewCreated>("activity-map", map).straight())
        .subscriber(Subscriber::matching("activity-store", [ActivityRecorded::TYPE], store.clone()).reads(read));
    let platform = Platform::new(fresh.store()).modules([reviews, activity]);
    let process = platform
        .feed("activity", Feed::new("redis", Arc::new(site.broker.clone())))
        .build();
    let stop = CancellationToken::new();
    let running = Box::pin(process.unwrap().run(stop.clone()));
    let watch = async {
        let tx = table::begin(fresh.db()).await.unwrap();
        let created = Event::of(&ReviewCreated { review: 1 }).unwrap();
        append(&tx, &[created]).await.unwrap();
        tx.commit().await.unwrap();
        until("the mapped event is stored", async || *store.0.lock().unwrap() == [1]).await;
        redis_cli(&site.url, &["XADD", STREAM, "*", "payload", r#"{"review":2}"#]);
        until("the stranger's event is stored", async || {
            *store.0.lock().unwrap() == [1, 2]
        })
        .await;
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(running, watch);
    ended.unwrap();
    let mut client = site.client().await;
    assert_eq!(client.xlen(STREAM).await.unwrap(), 2);
    let mut keys: Vec<String> = client.keys("*").await.unwrap();
    keys.retain(|key| !key.contains(":leases:")); // these expire
    keys.sort();
    assert_eq!(
        keys,
        ["domain.user.activity", "{domain.user.activity}:partitions"],
        "no domain event is published"
    );
}
