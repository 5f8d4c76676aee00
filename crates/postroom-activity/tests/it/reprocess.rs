//! Domain events of a range are mapped again: what is missing is stored, what differs is written anew, each once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use postroom::operate::History;
use postroom::{Error, Event, append, clock, parse_payload, table};
use postroom_activity::query::{self, EventFilter};
use postroom_activity::redispatch::State;
use postroom_activity::reprocess::{self, Range, Reprocess};
use postroom_activity::{ActivityEvent, ActivityMapper, ActivitySink, SinkAnswer};
use postroom_testkit::stage::{Running, Scenery};
use postroom_testkit::wait::until;
use postroom_testkit::{Fresh, fresh};
use sea_orm::ConnectionTrait as _;
use serde_json::{Value, json};

use crate::sink::is_outbox_empty;

/// Entries of wanted types may lie far apart: a page reads a limited part of the log, and goes on at the next entry.
#[tokio::test]
async fn a_page_of_the_history_reads_a_limited_part_of_the_log() {
    let fresh = fresh::sqlite().await;
    pay(&fresh, 1).await;
    let far = 10_000_000;
    let jump = format!("update sqlite_sequence set seq = {far} - 1 where name = 'postroom_outbox'");
    fresh.db().execute_unprepared(&jump).await.unwrap();
    pay(&fresh, 1).await;
    let history = History::default();
    assert_eq!(history.bounds(fresh.db()).await.unwrap(), Some((1, far)));
    let first = history.page(fresh.db(), (0, far), 100).await.unwrap();
    assert_eq!((first.entries.len(), first.next), (1, far - 1));
    let second = history.page(fresh.db(), (first.next, far), 100).await.unwrap();
    assert_eq!((second.entries.len(), second.next), (1, far));
}

postroom_testkit::on_each_database! {
    a_range_is_mapped_again: a_range_is_mapped_again_sqlite, a_range_is_mapped_again_postgres, a_range_is_mapped_again_mariadb;
    one_that_was_killed_goes_on: one_that_was_killed_goes_on_sqlite, one_that_was_killed_goes_on_postgres,
        one_that_was_killed_goes_on_mariadb;
    an_event_that_cannot_be_stored_costs_no_other: an_event_that_cannot_be_stored_costs_no_other_sqlite,
        an_event_that_cannot_be_stored_costs_no_other_postgres, an_event_that_cannot_be_stored_costs_no_other_mariadb;
}

/// Maps numbered events, in an older version, or a newer one that differs for some of them.
#[derive(Clone, Debug, Default)]
struct Numbered {
    is_new: bool,
    /// How many events it has mapped.
    mapped: Arc<AtomicUsize>,
    /// It hangs when it has mapped so many.
    hangs_at: Option<usize>,
    /// It makes an event of this one that is too large for the outbox.
    too_large: Option<u64>,
}

impl ActivityMapper for Numbered {
    fn event_type(&self) -> &'static str {
        "shop.order.paid.v1"
    }

    #[expect(clippy::disallowed_methods, reason = "it has to block, as a mapper that hangs does")]
    fn map(&self, event: &Event) -> postroom::Result<Option<ActivityEvent>> {
        while self.hangs_at.is_some_and(|at| self.mapped.load(Ordering::SeqCst) >= at) {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.mapped.fetch_add(1, Ordering::SeqCst);
        let payload: Value = event.decode()?;
        let number = payload["number"].as_u64().unwrap();
        let activity = ActivityEvent::from_domain(event, "order.paid", "v1").property("number", number);
        match number % 10 {
            _ if self.too_large == Some(number) => Ok(Some(activity.property("text", "x".repeat(1 << 20)))),
            // The older version knew nothing of these.
            0 if !self.is_new => Ok(None),
            1 if self.is_new => Ok(Some(activity.member(42))),
            2 if self.is_new => Err(Error::invalid("not these any more")),
            _ => Ok(Some(activity)),
        }
    }
}

async fn open(fresh: &Fresh, mapper: Numbered) -> Running {
    let module = crate::activity().mapper(mapper).module();
    Running::open(fresh, vec![module], Scenery::default()).await
}

async fn pay(fresh: &Fresh, count: usize) {
    let event = |number: usize| {
        let payload = parse_payload(&json!({ "number": number }).to_string()).unwrap();
        Event::new("shop.order.paid.v1", "order", "7", payload).unwrap()
    };
    let paid: Vec<Event> = (0..count).map(event).collect();
    let tx = table::begin(fresh.db()).await.unwrap();
    append(&tx, &paid).await.unwrap();
    tx.commit().await.unwrap();
}

/// The member of each stored event, by its number.
async fn stored(fresh: &Fresh) -> BTreeMap<u64, Option<i64>> {
    let page = query::find(fresh.db(), &EventFilter::default(), None, 1_000)
        .await
        .unwrap();
    let stored = page.events.into_iter().map(|stored| stored.event);
    stored
        .map(|event| (event.properties["number"].as_u64().unwrap(), event.member_id))
        .collect()
}

fn range(event_name: Option<&str>) -> Range {
    Range {
        from: clock::now() - Duration::from_secs(3600),
        until: clock::now() + Duration::from_secs(3600),
        event_name: event_name.map(str::to_owned),
    }
}

/// Maps a range again; returns how it went.
async fn again(fresh: &Fresh, range: &Range) -> Reprocess {
    let id = reprocess::begin(&*fresh.store(), range, "kim").await.unwrap();
    until("it is done", || async {
        let all = reprocess::list(fresh.db()).await.unwrap();
        all[0].reprocess_id == id && all[0].state == State::Done
    })
    .await;
    reprocess::list(fresh.db()).await.unwrap().remove(0)
}

fn counts(one: &Reprocess) -> (u64, u64, u64, u64) {
    (one.inserted, one.updated, one.unchanged, one.failed)
}

async fn a_range_is_mapped_again(fresh: Fresh) {
    let running = open(&fresh, Numbered::default()).await;
    let nothing = reprocess::begin(&*fresh.store(), &range(None), "kim").await;
    assert!(
        nothing
            .unwrap_err()
            .report()
            .contains("neither the outbox nor the archive")
    );
    pay(&fresh, 50).await;
    until("45 are stored", || async { stored(&fresh).await.len() == 45 }).await;
    running.close().await;
    let running = open(
        &fresh,
        Numbered {
            is_new: true,
            ..Numbered::default()
        },
    )
    .await;
    let other = again(&fresh, &range(Some("order.sent"))).await;
    assert_eq!(counts(&other), (0, 0, 0, 5), "no event has this name");
    let first = again(&fresh, &range(None)).await;
    assert_eq!(counts(&first), (5, 5, 35, 5));
    assert!((first.progress - 1.0).abs() < f64::EPSILON);
    let all = stored(&fresh).await;
    assert_eq!(all.len(), 50);
    for (number, member) in all {
        assert_eq!(member, (number % 10 == 1).then_some(42), "{number}");
    }
    until("retention has moved everything", || async {
        is_outbox_empty(&fresh).await
    })
    .await;
    let second = again(&fresh, &range(None)).await;
    assert_eq!(
        counts(&second),
        (0, 0, 45, 5),
        "the archive has them, and nothing changes"
    );
    reprocess::cancel(fresh.db(), &second.reprocess_id, "kim")
        .await
        .unwrap_err();
    running.close().await;
}

/// Takes everything.
#[derive(Debug)]
struct Sink;

#[async_trait]
impl ActivitySink for Sink {
    fn sink_type(&self) -> &'static str {
        "test"
    }

    async fn sink_batch(&self, events: &[ActivityEvent]) -> Vec<SinkAnswer> {
        vec![SinkAnswer::Taken; events.len()]
    }
}

/// A mapper makes an event that the outbox does not take on its way to the sinks.
async fn an_event_that_cannot_be_stored_costs_no_other(fresh: Fresh) {
    let running = open(&fresh, Numbered::default()).await;
    pay(&fresh, 30).await;
    until("27 are stored", || async { stored(&fresh).await.len() == 27 }).await;
    running.close().await;
    let mapper = Numbered {
        is_new: true,
        too_large: Some(10),
        ..Numbered::default()
    };
    let module = crate::activity().mapper(mapper).sink(Arc::new(Sink)).module();
    let _running = Running::open(&fresh, vec![module], Scenery::default()).await;
    let done = again(&fresh, &range(None)).await;
    assert_eq!(counts(&done), (2, 3, 21, 4), "one is refused, and three by the mapper");
    assert_eq!(stored(&fresh).await.len(), 29);
}

async fn one_that_was_killed_goes_on(fresh: Fresh) {
    let running = open(&fresh, Numbered::default()).await;
    pay(&fresh, 450).await;
    until("405 are stored", || async { stored(&fresh).await.len() == 405 }).await;
    running.close().await;
    let hanging = Numbered {
        is_new: true,
        hangs_at: Some(300),
        ..Numbered::default()
    };
    let killed = open(&fresh, hanging.clone()).await;
    let id = reprocess::begin(&*fresh.store(), &range(None), "kim").await.unwrap();
    until("it hangs in the second page", || async {
        hanging.mapped.load(Ordering::SeqCst) >= 300
    })
    .await;
    drop(killed);
    let half = reprocess::list(fresh.db()).await.unwrap().remove(0);
    assert_eq!(counts(&half), (20, 20, 140, 20), "the first page: {half:?}");
    assert!(half.progress > 0.0 && half.progress < 1.0, "{half:?}");
    let _running = open(
        &fresh,
        Numbered {
            is_new: true,
            ..Numbered::default()
        },
    )
    .await;
    until("it is done", || async {
        reprocess::list(fresh.db()).await.unwrap()[0].state == State::Done
    })
    .await;
    let done = reprocess::list(fresh.db()).await.unwrap().remove(0);
    assert_eq!(
        (done.reprocess_id.as_str(), counts(&done)),
        (id.as_str(), (45, 45, 315, 45))
    );
    assert_eq!(stored(&fresh).await.len(), 450);
}
