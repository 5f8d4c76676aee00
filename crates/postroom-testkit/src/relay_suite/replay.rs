//! Clauses about replays: what was delivered before goes to one route again.

use std::time::{Duration, Instant};

use postroom::replay::{self, Range, Replay};
use postroom::{ErrorKind, Event, Filter, Start, Subscriber, operate, table};
use sea_orm::ConnectionTrait;

use super::fixture::{Office, Scripted, noted};
use super::operate::with_two_subscribers;
use crate::Fresh;

async fn replayed(fresh: Fresh, again: bool) -> Office {
    let office = with_two_subscribers(fresh).await;
    office.emit(&[("a", "one"), ("b", "two"), ("a", "three")]).await;
    office.expect("s", &["one", "two", "three"]).await;
    office.expect("other", &["one", "two", "three"]).await;
    let range = Range {
        aggregate_id: Some("a".into()),
        ..Range::default()
    };
    let order = Replay {
        route: "s".into(),
        range,
        per_second: 100,
        again,
    };
    replay::start(&*office.store(), &order, "me").await.expect("replay");
    office
        .until("the replay is done", async || {
            office
                .number("select count(*) from postroom.outbox_replay where state = 'done'")
                .await
                == 1
        })
        .await;
    office.until_settled("s").await;
    office
}

/// A replay delivers a range again to one route; a subscriber that handled it does nothing a second time.
pub async fn a_replay_goes_to_one_route_only(fresh: Fresh) {
    let mut office = replayed(fresh, false).await;
    assert_eq!(office.number("select parked from postroom.outbox_replay").await, 2);
    assert_eq!(office.effects("s").await, ["one", "two", "three"]);
    assert_eq!(office.effects("other").await, ["one", "two", "three"]);
    office.stop().await;
}

/// Asked to, a replay has its effect again, in order, on that route alone.
pub async fn a_replay_can_have_its_effect_again(fresh: Fresh) {
    let mut office = replayed(fresh, true).await;
    office.expect("s", &["one", "two", "three", "one", "three"]).await;
    assert_eq!(office.effects("other").await, ["one", "two", "three"]);
    office.stop().await;
}

/// An office whose subscriber `s` has had so many notes.
async fn settled(fresh: Fresh, count: usize) -> Office {
    let mut office = Office::open(fresh).await;
    office.start(office.relay().subscriber(Scripted::new("s").subscriber(3)));
    let notes: Vec<String> = (0..count).map(|n| format!("{n:02}")).collect();
    let pairs: Vec<(&str, &str)> = notes.iter().map(|note| ("a", note.as_str())).collect();
    office.emit(&pairs).await;
    office.until_settled("s").await;
    office
}

/// A replay parks no more in a second than it was asked to: thirty entries at ten a second are not done in two.
pub async fn a_replay_keeps_to_its_rate(fresh: Fresh) {
    let mut office = settled(fresh, 30).await;
    let order = Replay {
        route: "s".into(),
        range: Range::default(),
        per_second: 10,
        again: true,
    };
    let begun = Instant::now();
    replay::start(&*office.store(), &order, "me").await.expect("replay");
    let again = || async { office.effects("s").await.len() == 60 };
    office.until("all had their effect again", again).await;
    assert!(begun.elapsed() > Duration::from_millis(1_900), "{:?}", begun.elapsed());
    office.stop().await;
}

/// Begins a replay as soon as the route is there and has come past its range.
async fn until_started(office: &Office, order: &Replay) {
    let started = async || match replay::start(&*office.store(), order, "me").await {
        Ok(_) => true,
        // It registers when its relay has started, and its cursor passes what is not for it without haste.
        Err(error) => {
            let words = error.to_string();
            assert!(
                words.contains("there is no route") || words.contains("has not come as far"),
                "{words}"
            );
            false
        }
    };
    office.until("the route has passed them", started).await;
}

/// A replay finds what it is to deliver however far apart that lies: what is not for it counts for nothing in its rate.
pub async fn a_replay_finds_what_lies_far_apart(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let mut events: Vec<Event> = (0..6_000)
        .map(|_| Event::of(&noted("a", "frequent")).expect("an event"))
        .collect();
    for (at, note) in [(0, "first"), (5_500, "last")] {
        events[at] = Event {
            event_type: "suite.rare.v1".to_owned(),
            ..Event::of(&noted("a", note)).expect("an event")
        };
    }
    let tx = table::begin(office.fresh.db()).await.expect("begin");
    postroom::append(&tx, &events).await.expect("append");
    tx.commit().await.expect("commit");
    office.fresh.catch_up().await;
    office.start(office.relay().subscriber(Subscriber {
        start: Start::Head,
        ..Scripted::new("s").subscriber(3)
    }));
    let order = Replay {
        route: "s".into(),
        range: Range {
            types: vec!["suite.rare.*".into()],
            ..Range::default()
        },
        per_second: 10,
        again: false,
    };
    until_started(&office, &order).await;
    office.expect("s", &["first", "last"]).await;
    let done = "select count(*) from postroom.outbox_replay where state = 'done' and parked = 2";
    office
        .until("the replay is done", async || office.number(done).await == 1)
        .await;
    office.stop().await;
}

/// A replay locks its route when it knows what to do, and not while it looks for that.
pub async fn a_replay_looks_before_it_locks(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    office.start(office.relay().subscriber(Scripted::new("s").subscriber(3)));
    office.emit(&[("a", "one")]).await;
    office.expect("s", &["one"]).await;
    office.stop().await;
    let lock = table::begin(office.fresh.db()).await.expect("begin");
    let sql = format!("update {}outbox_cursor set is_paused = is_paused", office.prefix());
    lock.execute_unprepared(&sql).await.expect("lock every route");
    let order = Replay {
        route: "s".into(),
        range: Range {
            aggregate_id: Some("nobody".into()),
            ..Range::default()
        },
        per_second: 10,
        again: false,
    };
    let store = office.store();
    let looked = tokio::time::timeout(Duration::from_secs(10), replay::start(&*store, &order, "me")).await;
    let refused = looked
        .expect("it waits for nobody")
        .expect_err("there is no such entry");
    assert_eq!(refused.kind(), ErrorKind::NotFound, "{refused}");
    lock.rollback().await.expect("let go");
}

/// While a replay reads the log, however long that takes (here somebody has locked the whole table), its route's cursor is free:
/// the leases of the process can be renewed.
pub async fn a_replay_that_reads_for_long_holds_up_no_lease(fresh: Fresh) {
    let mut office = settled(fresh, 20).await;
    let order = Replay {
        route: "s".into(),
        range: Range::default(),
        per_second: 1,
        again: true,
    };
    replay::start(&*office.store(), &order, "me").await.expect("replay");
    office
        .until("it is under way", async || office.effects("s").await.len() > 20)
        .await;
    let log = table::begin(office.fresh.db()).await.expect("begin");
    let exclusive = "lock table postroom.outbox in access exclusive mode";
    log.execute_unprepared(exclusive).await.expect("lock the log");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(4) {
        let renewal = office.execute("update postroom.outbox_cursor set is_paused = is_paused");
        let renewed = tokio::time::timeout(Duration::from_secs(2), renewal).await;
        renewed.expect("nobody holds the cursor while the log is read");
    }
    log.rollback().await.expect("let go");
    office.stop().await;
}

/// A replay that is canceled takes back what it has handed over and nobody has tried, and nothing else: what waits there
/// because it failed is delivered in the end.
pub async fn a_canceled_replay_takes_back_what_was_not_tried(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let script = Scripted::new("s").fails_on("bad");
    office.start(office.relay().subscriber(script.subscriber(1_000_000)));
    office
        .emit(&[("a", "bad"), ("a", "behind"), ("b", "one"), ("b", "two")])
        .await;
    office.expect("s", &["one", "two"]).await;
    let parked = "select count(*) from postroom.outbox_parked";
    office
        .until("two are parked", async || office.number(parked).await == 2)
        .await;
    office.stop().await;
    let order = Replay {
        route: "s".into(),
        range: Range::default(),
        per_second: 100,
        again: true,
    };
    let preview = replay::preview(&*office.store(), &order).await.expect("preview");
    assert_eq!(preview.entries, 4);
    let replay_id = replay::start(&*office.store(), &order, "me").await.expect("replay");
    operate::set_paused(&*office.store(), "s", true, "me")
        .await
        .expect("pause");
    office.start(office.relay().subscriber(script.subscriber(1_000_000)));
    office
        .until("all are parked", async || office.number(parked).await == 4)
        .await;
    let listed = replay::list(office.fresh.db(), 10).await.expect("list");
    assert_eq!((listed.len(), listed[0].replay_id), (1, replay_id));
    // It is done as soon as everything is handed over; here it still runs.
    office
        .execute(&format!(
            "update {}outbox_replay set state = 'running', until_id = until_id + 1",
            office.prefix()
        ))
        .await;
    let removed = replay::cancel(office.fresh.db(), replay_id, "me")
        .await
        .expect("cancel");
    assert_eq!(removed, 2, "the two that were delivered before");
    let refused = replay::cancel(office.fresh.db(), replay_id, "me")
        .await
        .expect_err("it is canceled");
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    script.heal();
    operate::set_paused(&*office.store(), "s", false, "me")
        .await
        .expect("resume");
    office.expect("s", &["one", "two", "bad", "behind"]).await;
    assert_eq!(
        office
            .number("select count(*) from postroom.outbox_replay where state = 'canceled'")
            .await,
        1
    );
    office.stop().await;
}

/// A replay over everything delivers to a route only what its filter takes.
pub async fn a_replay_respects_the_filter(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let other = Subscriber {
        filter: Filter::any_of(["other.**"]),
        ..Scripted::new("other").subscriber(3)
    };
    office.start(office.relay().subscriber(other));
    office.emit(&[("a", "one"), ("a", "two")]).await;
    let order = Replay {
        route: "other".into(),
        range: Range::default(),
        per_second: 100,
        again: false,
    };
    until_started(&office, &order).await;
    let done = async || {
        office
            .number("select count(*) from postroom.outbox_replay where state = 'done'")
            .await
            == 1
    };
    office.until("the replay is done", done).await;
    office
        .until("nothing is parked", async || {
            office.number("select count(*) from postroom.outbox_parked").await == 0
        })
        .await;
    office.stop().await;
    assert_eq!(office.effects("other").await, Vec::<String>::new());
}
