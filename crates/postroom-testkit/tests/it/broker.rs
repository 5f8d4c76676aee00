//! The suites of brokers and destinations on the broker in memory, and on twins that must fail them.

use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postroom::{
    BoxError, Broker, Event, Filter, Handler, Mode, Relay, Result, Route, Start, Subscriber, To, Tx, dead, table,
};
use postroom_proof::Change;
use postroom_testkit::broker_suite::{self, Published, Site as _};
use postroom_testkit::feed::Feed;
use postroom_testkit::memory_broker::{Flaw, MemoryBroker};
use postroom_testkit::wait::until;
use postroom_testkit::{Fresh, destination_suite, fresh, relay_suite};
use tokio_util::sync::CancellationToken;

use crate::failure::failure;

mod suite {
    postroom_testkit::broker_suite!(super::in_memory, super::in_memory);
}

mod publisher {
    postroom_testkit::destination_suite!(super::published, super::published);
}

fn in_memory() -> Ready<MemoryBroker> {
    ready(MemoryBroker::default())
}

async fn published() -> Published<MemoryBroker> {
    Published::on(MemoryBroker::default()).await
}

#[tokio::test]
async fn a_heedless_publisher_is_caught() {
    let twin = Published::on(MemoryBroker::with(Flaw::Heedless)).await;
    let words = failure(twin, destination_suite::what_is_refused_holds_its_key).await;
    assert!(words.contains(r#"left: "++!+++""#), "{words}");
}

#[tokio::test(start_paused = true)]
async fn a_forgetful_broker_is_caught() {
    let twin = MemoryBroker::with(Flaw::Forgetful);
    let words = failure(twin, broker_suite::what_is_not_acknowledged_comes_again_in_order).await;
    assert!(words.contains("0 of 60 messages came"), "{words}");
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_feeds_one_of_two_members_is_caught() {
    let twin = MemoryBroker::with(Flaw::Hoarding);
    let words = failure(twin, broker_suite::members_share_a_group).await;
    assert!(words.contains("the two got ["), "{words}");
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_removes_copies_of_other_letters_is_caught() {
    let twin = MemoryBroker::with(Flaw::Sweeping);
    let clause = broker_suite::a_copy_of_a_dead_letter_goes_when_it_is_acknowledged;
    let words = failure(twin, clause).await;
    assert!(words.contains("they are back in time"), "{words}");
}

/// Every clause about subscribers holds through a broker too.
mod fed {
    postroom_testkit::feed_suite!(crate::broker::fed);
    postroom_testkit::move_suite!(crate::broker::fed);
    postroom_testkit::copies_suite!(crate::broker::fed);

    mod long {
        postroom_testkit::relay_suite!(crate::broker::fed; moving:
            a_backlog_of_several_pages_survives_the_move_to_a_broker
        );
    }
}

pub(crate) async fn fed() -> Fresh {
    let feed = Feed::on(&mut MemoryBroker::default()).await;
    fresh::sqlite().await.fed_by(feed)
}

/// Positions in the log are kept by each store in its own way.
mod moved_on_postgres {
    postroom_testkit::move_suite!(crate::broker::fed_on_postgres);

    mod long {
        postroom_testkit::relay_suite!(crate::broker::fed_on_postgres; moving:
            a_backlog_of_several_pages_survives_the_move_to_a_broker
        );
    }
}

mod moved_on_mysql {
    postroom_testkit::move_suite!(crate::broker::fed_on_mysql);

    mod long {
        postroom_testkit::relay_suite!(crate::broker::fed_on_mysql; moving:
            a_backlog_of_several_pages_survives_the_move_to_a_broker
        );
    }
}

pub(crate) async fn fed_on_postgres() -> Fresh {
    let feed = Feed::on(&mut MemoryBroker::default()).await;
    fresh::postgres().await.fed_by(feed)
}

pub(crate) async fn fed_on_mysql() -> Fresh {
    let feed = Feed::on(&mut MemoryBroker::default()).await;
    fresh::mysql().await.fed_by(feed)
}

/// The dead letter that counts is the one in the store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_takes_no_copies_holds_up_nobody() {
    let feed = Feed::on(&mut MemoryBroker::with(Flaw::Unburied)).await;
    let fresh = fresh::sqlite().await.fed_by(feed);
    relay_suite::fail::a_dead_letter_lets_its_key_go_on(fresh).await;
    let feed = Feed::on(&mut MemoryBroker::with(Flaw::Unburied)).await;
    let fresh = fresh::sqlite().await.fed_by(feed);
    relay_suite::fail::an_invalid_event_is_a_dead_letter_at_once(fresh).await;
}

/// Counts what it handles.
#[derive(Clone, Debug, Default)]
struct Counter(Arc<AtomicUsize>);

impl Handler for Counter {
    async fn handle(&self, _tx: &mut Tx, _event: &Event) -> Result<(), BoxError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// A group that begins at the head gets what was emitted before its broker let it join, because nothing is published earlier.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_published_before_the_groups_have_joined() {
    let (fresh, counter) = (fresh::sqlite().await, Counter::default());
    let broker: Arc<dyn Broker> = Arc::new(MemoryBroker::with(Flaw::Slow));
    for ver in 1..=3 {
        let key = "k".to_owned();
        let tx = table::begin(fresh.db()).await.unwrap();
        postroom::emit(&tx, &Change { key, ver }).await.unwrap();
        tx.commit().await.unwrap();
    }
    let subscriber = Subscriber {
        start: Start::Head,
        ..Subscriber::matching("s", ["**"], counter.clone())
    };
    let publish = Route {
        awaits: vec!["s".to_owned()],
        ..Route::new(
            "publish",
            To::Destination(broker.publisher("t".parse().unwrap(), Mode::Binary)),
        )
    };
    let stop = CancellationToken::new();
    let relay = Relay::new(fresh.store())
        .route(subscriber.fed_by(broker, vec!["t".to_owned()], Filter::all()))
        .route(publish);
    let watch = async {
        until("the group misses nothing", || async {
            counter.0.load(Ordering::Relaxed) == 3
        })
        .await;
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(relay.run(stop.clone()), watch);
    ended.unwrap();
}

async fn nothing(_tx: &mut Tx, _event: &Event) -> Result<()> {
    Ok(())
}

/// Bytes that are no event, with what no database keeps, become a dead letter that shows them, and the topic moves on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_event_becomes_a_dead_letter() {
    let fresh = fresh::postgres().await;
    let mut broker = MemoryBroker::default();
    broker.put("t", "odd\0kind", b"not \0 json \xff").await;
    broker.put("t", "application/json", b"{}").await;
    let mut subscriber = Subscriber::matching("s", ["**"], nothing);
    subscriber.joins_at = Start::Beginning; // the bytes are there already
    let route = subscriber.fed_by(Arc::new(broker.clone()), vec!["t".to_owned()], Filter::all());
    let stop = CancellationToken::new();
    let relay = Relay::new(fresh.store()).route(route).run(stop.clone());
    let watch = async {
        let letters = async || {
            dead::list(fresh.db(), &dead::Selection::default(), None, 10)
                .await
                .unwrap()
        };
        until("both are dead letters", || async { letters().await.len() == 2 }).await;
        stop.cancel();
        letters().await
    };
    let (ended, mut letters) = tokio::join!(relay, watch);
    ended.unwrap();
    let first = letters.pop().unwrap();
    assert_eq!(first.entry.event.event_type, "postroom.unreadable.v1");
    let shown = first.entry.event.payload.get();
    assert!(
        shown.contains("not \u{fffd} json") && shown.contains("odd\u{fffd}kind"),
        "{shown}"
    );
    assert_eq!(broker.dead_letters("t").await.len(), 2);
}
