//! Clauses about handlers: what they get, and what their errors mean.

use postroom::{BoxError, Event, Subscriber, Tx, dead};

use super::fixture::{Noted, Office, Scripted, noted, quick};
use crate::Fresh;
use crate::wait::until_some;

/// Fails in the way that its event names.
async fn fail(_tx: &mut Tx, event: Noted) -> Result<(), BoxError> {
    match event.note.as_str() {
        "broken JSON elsewhere" => serde_json::from_str::<u32>("{").map(drop).map_err(Into::into),
        "rejected" => Err(postroom::reject("nobody can handle this").into()),
        _ => Ok(()),
    }
}

fn failing() -> Subscriber {
    Subscriber::on::<Noted>("typed", fail).retry(quick(3))
}

/// A drained relay has delivered everything, also what handlers emitted, and stops by itself.
pub async fn a_drained_relay_has_delivered_everything(fresh: Fresh) {
    async fn chain(tx: &mut Tx, event: Noted) -> postroom::Result<()> {
        if event.note == "first" {
            postroom::emit(tx, &noted(&event.key, "second")).await?;
        }
        Ok(())
    }
    let office = Office::open(fresh).await;
    office
        .drain(office.relay().subscriber(Scripted::new("s").subscriber(3)))
        .await;
    office.emit(&[("a", "first"), ("b", "other")]).await;
    let relay = office.relay().subscriber(Scripted::new("s").subscriber(3));
    office
        .drain(relay.subscriber(Subscriber::on::<Noted>("chain", chain)))
        .await;
    let mut effects = office.effects("s").await;
    effects.sort();
    assert_eq!(effects, ["first", "other", "second"]);
}

/// A rejected event, and one that cannot be decoded, is a dead letter after one attempt. Any other error is retried.
pub async fn only_rejected_events_are_given_up_at_once(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    office
        .emit(&[("a", "rejected"), ("b", "broken JSON elsewhere"), ("c", "fine")])
        .await;
    let payload = postroom::parse_payload("[1]").expect("JSON");
    let foreign = Event::new("suite.noted.v1", "suite", "d", payload).expect("an event");
    let tx = postroom::table::begin(office.fresh.db()).await.expect("begin");
    postroom::append(&tx, &[foreign]).await.expect("append");
    tx.commit().await.expect("commit");
    office.start(office.relay().subscriber(failing()));
    let letters = until_some("three dead letters", || async {
        let listed = dead::list(office.fresh.db(), &dead::Selection::default(), None, 10).await;
        listed.ok().filter(|letters| letters.len() == 3)
    });
    let letters = letters.await;
    let mut attempts: Vec<_> = letters
        .iter()
        .map(|letter| (letter.entry.event.aggregate_id.as_str(), letter.attempts))
        .collect();
    attempts.sort_unstable();
    assert_eq!(attempts, [("a", 1), ("b", 3), ("d", 1)]);
    office.stop().await;
}
