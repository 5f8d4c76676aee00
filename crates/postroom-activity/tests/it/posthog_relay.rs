//! PostHog at the end of a relay: nothing is lost in outages and crashes, and every event keeps its identity.

use postroom::dead::{self, DeadLetter, Selection};
use postroom::{Event, append, table};
use postroom_activity::{ActivityEvent, ActivityStored};
use postroom_host::Module;
use postroom_testkit::Fresh;
use postroom_testkit::fake_posthog::{FakePosthog, Outcome, PROJECT_API_KEY};
use postroom_testkit::stage::{Running, Scenery, Stage};
use postroom_testkit::wait::until;
use serde_json::json;

use crate::posthog::{events, ids};

postroom_testkit::on_each_database! {
    one_bad_event_of_a_hundred_is_a_dead_letter_and_the_others_arrive:
        one_bad_event_of_a_hundred_is_a_dead_letter_sqlite, one_bad_event_of_a_hundred_is_a_dead_letter_postgres,
        one_bad_event_of_a_hundred_is_a_dead_letter_mariadb;
    an_outage_loses_nothing_and_changes_no_event:
        an_outage_loses_nothing_sqlite, an_outage_loses_nothing_postgres, an_outage_loses_nothing_mariadb;
    a_process_that_is_killed_before_the_answer_sends_the_same_events_again:
        a_killed_process_sends_the_same_events_again_sqlite, a_killed_process_sends_the_same_events_again_postgres,
        a_killed_process_sends_the_same_events_again_mariadb;
}

/// Events that are stored before the relay starts, so that they are one batch.
async fn stored(fresh: &Fresh, events: &[ActivityEvent]) {
    let stored = events
        .iter()
        .map(|event| Event::of(&ActivityStored(event.clone())).unwrap());
    let stored: Vec<Event> = stored.collect();
    let tx = table::begin(fresh.db()).await.unwrap();
    append(&tx, &stored).await.unwrap();
    tx.commit().await.unwrap();
}

/// The module as it is configured, except that PostHog is tried again after a second.
fn module(fake: &FakePosthog) -> Module {
    let section = json!({
        "mode": "INTERNAL_PLUS_POSTHOG",
        "posthog": {
            "enabled": true,
            "host": fake.url,
            "project_api_key": PROJECT_API_KEY,
            "timeout_ms": 60_000, // longer than a busy machine takes
            "circuit_open_seconds": 1,
            "start": "beginning", // events are stored before the relay starts
        },
    });
    let module = crate::activity().module();
    module.configure(section.as_object().unwrap().clone()).unwrap()
}

async fn dead_letters(fresh: &Fresh) -> Vec<DeadLetter> {
    dead::list(fresh.db(), &Selection::default(), None, 100).await.unwrap()
}

async fn one_bad_event_of_a_hundred_is_a_dead_letter_and_the_others_arrive(fresh: Fresh) {
    let fake = FakePosthog::open().await;
    let events = events(100);
    let bad = &events[37].event_id;
    fake.rule(|rules| {
        rules.has_v1 = false;
        rules.poison.insert(bad.clone());
    });
    stored(&fresh, &events).await;
    let stage = Stage::open(fresh.store(), vec![module(&fake)], None).await;
    until("the bad event is given up", || async {
        !dead_letters(&fresh).await.is_empty()
    })
    .await;
    until("the others arrive", || async { fake.uuids().len() == 99 }).await;
    stage.close().await;
    let letters = dead_letters(&fresh).await;
    assert_eq!(letters.len(), 1);
    assert_eq!(&letters[0].entry.event.aggregate_id, bad);
    assert_eq!(letters[0].error, "400: invalid event could not be processed");
    assert!(!fake.uuids().contains(bad));
    let requests = fake
        .requests()
        .iter()
        .filter(|request| request.status != Some(404))
        .count();
    assert!(requests <= 15, "{requests}");
}

async fn an_outage_loses_nothing_and_changes_no_event(fresh: Fresh) {
    let fake = FakePosthog::open().await;
    let events = events(250);
    fake.script([Outcome::ResetAfterBytes(100), Outcome::StoredThenReset]);
    fake.always(Some(Outcome::status(503)));
    stored(&fresh, &events).await;
    let stage = Stage::open(fresh.store(), vec![module(&fake)], None).await;
    until("the outage is noticed", || async { fake.asked() >= 5 }).await;
    let one_more = ActivityEvent::new("group.joined", "v1");
    stored(&fresh, std::slice::from_ref(&one_more)).await;
    fake.always(None);
    until("everything arrives", || async { fake.uuids().len() == 251 }).await;
    stage.close().await;
    let mut expected = ids(&events);
    expected.insert(one_more.event_id);
    assert_eq!(fake.uuids(), expected);
    assert_eq!(fake.stored().len(), 251, "no duplicate by PostHog's own key");
    assert_eq!(
        fake.seen().len(),
        251,
        "each event has the same id, time and name in every request"
    );
    let sent: usize = fake.requests().iter().map(|request| request.events().len()).sum();
    assert!(sent > 251, "some events were sent again: {sent}");
    assert!(dead_letters(&fresh).await.is_empty());
}

async fn a_process_that_is_killed_before_the_answer_sends_the_same_events_again(fresh: Fresh) {
    let fake = FakePosthog::open().await;
    let events = events(100);
    fake.script([Outcome::StoredThenSilence]);
    stored(&fresh, &events).await;
    let killed = Running::open(&fresh, vec![module(&fake)], Scenery::default()).await;
    until("the batch is stored", || async { fake.asked() == 1 }).await;
    drop(killed);
    let stage = Running::open(&fresh, vec![module(&fake)], Scenery::default()).await;
    until("the batch is answered", || async {
        fake.requests().iter().any(|request| request.status == Some(200))
    })
    .await;
    stage.close().await;
    let requests = fake.requests();
    assert_eq!(requests[0].status, None);
    assert_eq!(requests[0].body, requests[1].body, "also the time of creation");
    assert_eq!((fake.stored().len(), fake.seen().len()), (100, 100));
    assert_eq!(fake.uuids(), ids(&events));
}
