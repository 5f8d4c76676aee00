//! Clauses about the broker's copies of dead letters, and the decisions of operators, whose processes have no broker.

use std::time::Duration;

use postroom::dead::{self, Selection};
use postroom::{ErrorKind, Letter, Subscription};

use super::fixture::{Office, Scripted};
use crate::Fresh;

/// Between two looks at the copies: a broker may keep them from others while somebody looks.
const LOOK: Duration = Duration::from_millis(300);

/// The words of all events, and their keys.
const NOTES: [(&str, &str); 4] = [("a", "one"), ("b", "two"), ("c", "three"), ("d", "four")];

fn failing() -> Scripted {
    NOTES
        .iter()
        .fold(Scripted::new("s"), |script, (_, note)| script.fails_on(note))
}

async fn look(office: &Office) -> postroom::Result<Box<dyn Subscription>> {
    let feed = office.fresh.feed.as_ref().expect("a feed");
    feed.broker.buried("s", std::slice::from_ref(&feed.topic)).await
}

/// The events of the copies, sorted.
async fn copies(office: &Office) -> Vec<String> {
    let mut reading = look(office).await.expect("copies");
    let mut events = Vec::new();
    loop {
        let some = reading.next(100).await.expect("copies");
        let event = |copy: &postroom::Message| copy.fields.text(Letter::EVENT_ID).map(str::to_owned);
        events.extend(some.iter().map(|copy| event(copy).expect("an event")));
        if some.is_empty() {
            events.sort();
            return events;
        }
    }
}

/// Waits until the copies are those of the events at these places.
async fn until_copies(office: &Office, events: &[uuid::Uuid], of: &[usize]) {
    let mut expected: Vec<String> = of.iter().map(|at| events[*at].to_string()).collect();
    expected.sort();
    office
        .until(&format!("the copies are those of {of:?}"), async || {
            tokio::time::sleep(LOOK).await;
            copies(office).await == expected
        })
        .await;
}

/// The letter of a key.
fn of_key(key: &str) -> Selection {
    Selection {
        aggregate_id: Some(key.to_owned()),
        ..Selection::default()
    }
}

/// A broker that removes no single messages says so, and nothing else changes.
async fn is_unsupported(office: &Office) -> bool {
    let refused = look(office).await.err().map(|error| error.kind());
    assert!(matches!(refused, None | Some(ErrorKind::Unsupported)), "{refused:?}");
    refused.is_some()
}

/// A copy goes when its letter is retried or discarded; copies of other letters stay. A letter that dies again has one copy.
pub async fn a_copy_goes_when_its_letter_is_retried_or_discarded(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let script = failing();
    office.start(office.relay().subscriber(script.subscriber(2)));
    let events = office.emit(&NOTES).await;
    let letters = "select count(*) from postroom.outbox_failed where state = 'dead'";
    office
        .until("all are dead letters", async || office.number(letters).await == 4)
        .await;
    if is_unsupported(&office).await {
        let retried = dead::retry(office.fresh.db(), &of_key("a"), "me").await;
        assert_eq!(retried.expect("retried"), 1);
        office
            .until("it died again", async || office.number(letters).await == 4)
            .await;
        office.stop().await;
        return;
    }
    until_copies(&office, &events, &[0, 1, 2, 3]).await;
    let discarded = dead::discard(office.fresh.db(), &of_key("b"), "me", "no use").await;
    assert_eq!(discarded.expect("discarded"), 1);
    until_copies(&office, &events, &[0, 2, 3]).await;
    let calls = script.calls("three");
    assert_eq!(
        dead::retry(office.fresh.db(), &of_key("c"), "me")
            .await
            .expect("retried"),
        1
    );
    office
        .until("it died again", async || {
            script.calls("three") == calls + 2 && office.number(letters).await == 3
        })
        .await;
    until_copies(&office, &events, &[0, 2, 3]).await;
    script.heal();
    let retried = dead::retry(office.fresh.db(), &Selection::default(), "me").await;
    assert_eq!(retried.expect("retried"), 3);
    until_copies(&office, &events, &[]).await;
    office
        .until("the others have their effects", async || {
            office.effects("s").await.len() == 3
        })
        .await;
    office.stop().await;
}

/// Decisions that are made while no process is fed by the broker count as well.
pub async fn copies_go_whose_letters_were_decided_before_the_relay_began(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    office.start(office.relay().subscriber(failing().subscriber(1)));
    let events = office.emit(&NOTES).await;
    let letters = "select count(*) from postroom.outbox_failed where state = 'dead'";
    office
        .until("all are dead letters", async || office.number(letters).await == 4)
        .await;
    let keeps_copies = is_unsupported(&office).await;
    if !keeps_copies {
        until_copies(&office, &events, &[0, 1, 2, 3]).await;
    }
    office.stop().await;
    let discarded = dead::discard(office.fresh.db(), &of_key("a"), "me", "no use").await;
    assert_eq!(discarded.expect("discarded"), 1);
    office.start(office.relay().subscriber(failing().subscriber(1)));
    if !keeps_copies {
        until_copies(&office, &events, &[1, 2, 3]).await;
    }
    office.stop().await;
}
