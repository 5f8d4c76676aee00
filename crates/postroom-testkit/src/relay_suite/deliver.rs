//! Clauses about delivery when all goes well, or the process ends in the middle.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use postroom::{
    Batch, BatchHandler, BoxError, BoxHandler, Destination, DomainEvent, Error, ErrorKind, Event, Filter, Handler,
    Handling, Idempotency, Receipt, Result, Route, Start, Subscriber, To, Tx, Upcaster, operate, table,
};
use sea_orm::{ConnectionTrait, Statement};

use super::fixture::{InBatches, Noted, Office, Scripted, noted, quick};
use crate::Fresh;
use crate::gate::Gate;

/// A committed event has one effect.
pub async fn a_committed_event_has_one_effect(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    office.start(office.relay().subscriber(Scripted::new("s").subscriber(3)));
    office.emit(&[("a", "one"), ("b", "two")]).await;
    office.expect("s", &["one", "two"]).await;
    office.stop().await;
}

/// An event whose transaction rolled back has no effect.
pub async fn a_rolled_back_event_has_none(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    office.start(office.relay().subscriber(Scripted::new("s").subscriber(3)));
    let tx = table::begin(office.fresh.db()).await.expect("begin");
    postroom::emit(&tx, &noted("a", "never")).await.expect("emit");
    tx.rollback().await.expect("roll back");
    office.emit(&[("a", "after")]).await;
    office.expect("s", &["after"]).await;
    office.stop().await;
}

/// Many events of a few keys have their effects in the order of their key.
pub async fn events_of_a_key_have_their_effects_in_order(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let notes: Vec<String> = (0..500).map(|n| format!("{n:03}")).collect();
    let tx = table::begin(office.fresh.db()).await.expect("begin");
    for note in &notes {
        postroom::emit(&tx, &noted("a", note)).await.expect("emit");
    }
    tx.commit().await.expect("commit");
    office.start(office.relay().subscriber(Scripted::new("s").subscriber(3)));
    office
        .expect("s", &notes.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    office.stop().await;
}

/// A relay that is started again goes on where the last one left.
pub async fn a_restart_continues_where_it_left(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let script = Scripted::new("s");
    office.start(office.relay().subscriber(script.subscriber(3)));
    office.emit(&[("a", "one")]).await;
    office.expect("s", &["one"]).await;
    office.stop().await;
    office.emit(&[("a", "two")]).await;
    office.start(office.relay().subscriber(script.subscriber(3)));
    office.expect("s", &["one", "two"]).await;
    assert_eq!(script.calls("one"), 1, "what was settled is not even tried again");
    office.stop().await;
}

/// An event that is read again (the cursor was set back) has no second effect, thanks to its inbox row.
pub async fn a_redelivery_has_no_second_effect(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    office.start(office.relay().subscriber(Scripted::new("s").subscriber(3)));
    office.emit(&[("a", "one"), ("a", "two")]).await;
    office.expect("s", &["one", "two"]).await;
    office.stop().await;
    office
        .execute(&format!(
            "update {}outbox_cursor set position = '0:0:0'",
            office.prefix()
        ))
        .await;
    office.start(office.relay().subscriber(Scripted::new("s").subscriber(3)));
    office.emit(&[("a", "three")]).await;
    office.expect("s", &["one", "two", "three"]).await;
    office.stop().await;
}

/// A database that is set back under a running relay, as by a standby that knew less, is followed back.
pub async fn a_cursor_that_was_set_back_is_followed(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    office.start(office.relay().subscriber(Scripted::new("s").subscriber(3)));
    office.emit(&[("a", "one"), ("a", "two")]).await;
    office.expect("s", &["one", "two"]).await;
    let prefix = office.prefix();
    office.execute("delete from suite_effect").await;
    office.execute(&format!("delete from {prefix}event_handled")).await;
    office
        .execute(&format!("update {prefix}outbox_cursor set position = '0:0:0'"))
        .await;
    office.emit(&[("a", "three")]).await;
    office.expect("s", &["one", "two", "three"]).await;
    office.stop().await;
}

/// A relay that ends in the middle of its work, when an effect is written and not committed, loses and doubles nothing; nor does
/// one that ends at another moment.
pub async fn a_relay_killed_in_the_middle_loses_and_doubles_nothing(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let notes: Vec<String> = (0..400).map(|n| format!("{n:03}")).collect();
    let pairs: Vec<(&str, &str)> = notes.iter().map(|note| ("a", note.as_str())).collect();
    office.emit(&pairs).await;
    for round in 0..4 {
        let done = office.effects("s").await.len();
        let Some(note) = notes.get(done + 20) else {
            assert!(round > 1, "only {round} relays were killed in the middle");
            break;
        };
        kill_at(&mut office, note).await;
        kill_after_a_commit(&mut office, notes.len()).await;
    }
    office.start(office.relay().subscriber(Scripted::new("s").subscriber(3)));
    office
        .expect("s", &notes.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    office.stop().await;
}

/// Kills a relay when the effect of a note is written and not committed.
async fn kill_at(office: &mut Office, note: &str) {
    let (script, gate) = (Scripted::new("s"), Gate::default());
    let handler = Stopping {
        script: script.clone(),
        note: note.to_owned(),
        gate: gate.clone(),
    };
    office.start(office.relay().subscriber(Subscriber {
        handling: Handling::Each(BoxHandler::new(handler)),
        ..script.subscriber(3)
    }));
    gate.reached().await;
    office.abort().await;
    let is_done = office.effects("s").await.iter().any(|done| done == note);
    assert!(!is_done, "it was killed after its commit");
    office.give_leases_back().await;
}

/// Lets a relay work until something more is committed, unless everything is, and kills it.
async fn kill_after_a_commit(office: &mut Office, all: usize) {
    let before = office.effects("s").await.len();
    office.start(office.relay().subscriber(Scripted::new("s").subscriber(3)));
    let has_moved = async || before == all || office.effects("s").await.len() > before;
    office.until("some more are done", has_moved).await;
    office.abort().await;
    office.give_leases_back().await;
}

/// A handler that stands still when it has had the effect of one note.
struct Stopping {
    script: Scripted,
    note: String,
    gate: Gate,
}

impl Handler for Stopping {
    async fn handle(&self, tx: &mut Tx, event: &Event) -> Result<(), BoxError> {
        self.script.handle(tx, event).await?;
        if event.decode::<Noted>()?.note == self.note {
            self.gate.stand().await;
        }
        Ok(())
    }
}

/// A transaction that is cut off while it begins leaves nothing open: whoever gets its connection next really commits.
pub async fn a_begin_that_is_cut_off_leaves_no_transaction_open(fresh: Fresh) {
    let office = Office::open(fresh).await;
    for patience in 0..300 {
        tokio::select! {
            biased;
            begun = table::begin(office.fresh.db()) => drop(begun),
            () = yield_often(patience) => {}
        }
    }
    for n in 0..32 {
        office
            .execute(&format!(
                "insert into suite_effect (seq, who, note) values ({n}, 'next', '')"
            ))
            .await;
    }
    let elsewhere = office.fresh.second().await;
    let all_are_there = async || {
        let sql = "select count(*) as count from suite_effect";
        let count = Statement::from_string(elsewhere.db().get_database_backend(), sql);
        let row = elsewhere
            .db()
            .query_one_raw(count)
            .await
            .expect("count")
            .expect("a row");
        row.try_get::<i64>("", "count").expect("a number") == 32
    };
    office.until("somebody else sees every row", all_are_there).await;
}

/// Events that come from outside, several times at once, are accepted once each; an id that comes with other content is refused,
/// with all that came along.
pub async fn an_event_sent_again_is_accepted_once(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    office.start(office.relay().subscriber(Scripted::new("s").subscriber(3)));
    let events: Vec<Event> = ["one", "two", "three"]
        .iter()
        .map(|note| Event::of(&noted("a", note)).expect("an event"))
        .collect();
    let mut accepted = 0;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let (db, events) = (office.fresh.db().clone(), events.clone());
        calls.spawn(async move { postroom::ingest(&db, &events).await });
    }
    while let Some(done) = calls.join_next().await {
        accepted += done.expect("no panic").expect("accepted");
    }
    accepted += postroom::ingest(office.fresh.db(), &events).await.expect("accepted");
    assert_eq!(accepted, 3);
    let other = Event {
        id: events[0].id,
        ..Event::of(&noted("a", "other")).expect("an event")
    };
    let fresh = Event::of(&noted("a", "four")).expect("an event");
    let refused = postroom::ingest(office.fresh.db(), &[fresh, other]).await;
    let refused = refused.expect_err("the same id with other content");
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{}", refused.report());
    office.expect("s", &["one", "two", "three"]).await;
    office.stop().await;
}

/// An event of an old version reaches its handler as the newest.
pub async fn an_old_version_is_handled_as_the_newest(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let mut subscriber = Scripted::new("s").subscriber(3);
    subscriber.upcasters = vec![Upcaster::new(Noted::TYPE, "suite.noted.v2", |mut payload| {
        payload["note"] = format!("{} of 2", payload["note"].as_str().unwrap_or_default()).into();
        payload
    })];
    office.start(office.relay().subscriber(subscriber));
    office.emit(&[("a", "one")]).await;
    office.expect("s", &["one of 2"]).await;
    office.stop().await;
}

async fn yield_often(times: u32) {
    for _ in 0..times {
        tokio::task::yield_now().await;
    }
}

#[derive(Debug)]
struct Chained;

impl Handler for Chained {
    async fn handle(&self, tx: &mut Tx, event: &Event) -> Result<(), BoxError> {
        let first: Noted = event.decode()?;
        if first.note == "first" {
            postroom::emit(tx, &noted(&first.key, "second")).await?;
        }
        Ok(())
    }
}

/// An event that a handler emits in its transaction is delivered too, and names its cause.
pub async fn a_handler_emits_through_the_outbox(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let relay = office
        .relay()
        .subscriber(Subscriber::matching("chain", ["suite.**"], Chained));
    office.start(relay.subscriber(Scripted::new("s").subscriber(3)));
    let ids = office.emit(&[("a", "first")]).await;
    office.expect("s", &["first", "second"]).await;
    let page = office.store().read(postroom::Position::START, 10).await.expect("read");
    let second = page
        .entries
        .iter()
        .find(|entry| entry.event.id != ids[0])
        .expect("the second event");
    assert_eq!(
        second.event.headers.get(postroom::CAUSATION_ID),
        Some(&ids[0].to_string())
    );
    assert_eq!(second.event.hops(), 1);
    office.stop().await;
}

#[derive(Debug)]
struct Echo;

impl Handler for Echo {
    async fn handle(&self, tx: &mut Tx, event: &Event) -> Result<(), BoxError> {
        postroom::emit(tx, &event.decode::<Noted>()?).await?;
        Ok(())
    }
}

/// A handler that answers its own event for ever is stopped by the hop limit; the last one is a dead letter that says so.
pub async fn a_chain_that_loops_ends_as_a_dead_letter(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    office.start(
        office
            .relay()
            .subscriber(Subscriber::matching("echo", ["suite.**"], Echo)),
    );
    office.emit(&[("a", "echo")]).await;
    let letters = async || {
        postroom::dead::list(office.fresh.db(), &postroom::dead::Selection::default(), None, 10)
            .await
            .expect("list")
    };
    office
        .until("the chain is cut", async || !letters().await.is_empty())
        .await;
    let letter = &letters().await[0];
    assert!(letter.error.contains("the limit is 16"), "{}", letter.error);
    assert_eq!(letter.attempts, 1, "the same chain would loop again");
    office.stop().await;
    assert_eq!(office.number("select count(*) from postroom.outbox").await, 17);
}

/// Shards work keys side by side; each key keeps its order.
pub async fn shards_share_a_route_and_keep_its_keys_in_order(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    office.start(office.relay().subscriber(Subscriber {
        shards: 4,
        ..Scripted::new("s").subscriber(3)
    }));
    let mut expected = Vec::new();
    for key in 0..8 {
        for n in 0..10 {
            let note = format!("{key}-{n}");
            office.emit(&[(&key.to_string(), &note)]).await;
            expected.push(note);
        }
    }
    office
        .until("all have their effect", async || {
            office.effects("s").await.len() == expected.len()
        })
        .await;
    let mut effects = office.effects("s").await;
    effects.sort_by_key(|note| note.split('-').next().map(str::to_owned)); // stable: keeps the order within a key
    assert_eq!(effects, expected);
    office.stop().await;
    assert_eq!(
        office
            .number("select count(*) from postroom.outbox_cursor where delivered > 0")
            .await,
        4
    );
}

/// A batch handler has one effect per event as well.
pub async fn a_batch_handler_has_one_effect_per_event(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let notes: Vec<String> = (0..250).map(|n| format!("{n:03}")).collect();
    let pairs: Vec<(&str, &str)> = notes.iter().map(|note| (note.as_str(), note.as_str())).collect();
    office.emit(&pairs).await;
    let subscriber = Subscriber {
        idempotency: Idempotency::Inbox,
        ..Subscriber::in_batches("s", ["suite.**"], InBatches(Scripted::new("s")))
    };
    office.start(office.relay().subscriber(subscriber));
    office
        .expect("s", &notes.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    office.stop().await;
}

/// Events that come one by one while a subscriber has nothing to do are one batch, if it lingers.
pub async fn events_that_linger_are_handled_together(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let handler = Counted(Arc::clone(&sizes), InBatches(Scripted::new("s")));
    let subscriber = Subscriber::in_batches("s", ["suite.**"], handler).linger(Duration::from_secs(5));
    office.start(office.relay().subscriber(subscriber));
    office.emit(&[("a", "first")]).await;
    office.expect("s", &["first"]).await; // from now on it has nothing to do
    office.emit(&[("a", "1"), ("b", "2"), ("c", "3"), ("a", "4")]).await;
    office.expect("s", &["first", "1", "2", "3", "4"]).await;
    assert_eq!(*sizes.lock().expect("the sizes"), [1, 4]);
    office.stop().await;
}

/// Counts the events of each call.
#[derive(Debug)]
struct Counted(Arc<Mutex<Vec<usize>>>, InBatches);

impl BatchHandler for Counted {
    async fn handle(&self, tx: &mut Tx, events: &[&Event]) -> Result<(), BoxError> {
        self.0.lock().expect("the sizes").push(events.len());
        self.1.handle(tx, events).await
    }
}

/// A new route may begin with what comes from now on.
pub async fn a_new_route_can_begin_at_the_head(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    office.emit(&[("a", "old")]).await;
    office.start(office.relay().subscriber(Subscriber {
        start: Start::Head,
        ..Scripted::new("s").subscriber(3)
    }));
    let registered = async || office.number("select count(*) from postroom.outbox_cursor").await == 1;
    office.until("the route is registered", registered).await;
    office.emit(&[("a", "new")]).await;
    office.expect("s", &["new"]).await;
    office.stop().await;
}

/// Only matching types reach a subscriber; the others cost it nothing but a look.
pub async fn a_filter_lets_only_its_types_pass(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let other = Subscriber {
        filter: Filter::any_of(["other.**"]),
        ..Scripted::new("other").subscriber(3)
    };
    office.start(
        office
            .relay()
            .subscriber(other)
            .subscriber(Scripted::new("s").subscriber(3)),
    );
    office.emit(&[("a", "one")]).await;
    office.expect("s", &["one"]).await;
    office.until_settled("other").await;
    assert_eq!(office.effects("other").await, Vec::<String>::new());
    office.stop().await;
}

/// Remembers what it was given.
#[derive(Debug, Default)]
struct Memory {
    seen: Mutex<Vec<String>>,
    largest: AtomicUsize,
}

#[async_trait]
impl Destination for Memory {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        self.largest.fetch_max(batch.entries.len(), SeqCst);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let note = |entry: &&postroom::Entry| {
            entry
                .event
                .decode::<Noted>()
                .map_or_else(|error: Error| error.report(), |noted| noted.note)
        };
        seen.extend(batch.entries.iter().map(note));
        vec![Receipt::Delivered; batch.entries.len()]
    }
}

/// A destination gets every entry, in order.
pub async fn a_destination_gets_every_entry_in_order(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let memory = Arc::new(Memory::default());
    let route = Route {
        retry: quick(3),
        ..Route::new("memory", To::Destination(Arc::<Memory>::clone(&memory)))
    };
    office.start(office.relay().route(route));
    let notes: Vec<String> = (0..300).map(|n| format!("{n:03}")).collect();
    let pairs: Vec<(&str, &str)> = notes.iter().map(|note| ("a", note.as_str())).collect();
    office.emit(&pairs).await;
    office.until_settled("memory").await;
    office.stop().await;
    assert_eq!(*memory.seen.lock().unwrap_or_else(PoisonError::into_inner), notes);
}

/// A batch has no more entries than its route says, and nothing between two is left out.
pub async fn a_batch_is_no_larger_than_its_route_says(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let notes: Vec<String> = (0..95).map(|n| format!("{n:02}")).collect();
    let pairs: Vec<(&str, &str)> = notes.iter().map(|note| ("a", note.as_str())).collect();
    office.emit(&pairs).await;
    let memory = Arc::new(Memory::default());
    let route = Route {
        batch: 10,
        ..Route::new("memory", To::Destination(Arc::<Memory>::clone(&memory)))
    };
    office.start(office.relay().route(route));
    let is_whole = async || memory.seen.lock().unwrap_or_else(PoisonError::into_inner).len() >= notes.len();
    office.until("everything has come", is_whole).await;
    office.stop().await;
    assert_eq!(*memory.seen.lock().unwrap_or_else(PoisonError::into_inner), notes);
    assert_eq!(memory.largest.load(SeqCst), 10);
}

/// The relay records a delivery in the database before it reads an operator's change, so that no event is delivered again.
pub async fn an_operator_in_between_repeats_no_delivery(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let memory = Arc::new(Memory::default());
    let route = Route::new("memory", To::Destination(Arc::<Memory>::clone(&memory)));
    office.start(office.relay().route(route));
    let seen = || memory.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut notes = Vec::new();
    for n in 0..20 {
        notes.push(format!("{n:03}"));
        office.emit(&[("a", &format!("{n:03}"))]).await;
        office
            .until("it is delivered", async || seen().len() >= notes.len())
            .await;
        for is_paused in [true, false] {
            let changed = operate::set_paused(&*office.store(), "memory", is_paused, "me").await;
            changed.expect("pause or resume");
        }
    }
    office.until_settled("memory").await;
    office.stop().await;
    assert_eq!(seen(), notes);
}
