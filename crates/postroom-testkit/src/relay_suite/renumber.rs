//! Clauses about a log that is numbered anew: its new entries have the numbers of old ones that routes still keep.

use postroom::dead::{self, Selection};

use super::fixture::{Noted, Office, Scripted};
use crate::Fresh;

async fn dead_notes(office: &Office) -> Vec<String> {
    let letters = dead::list(office.fresh.db(), &Selection::default(), None, 100).await;
    let note = |letter: &dead::DeadLetter| letter.entry.event.decode::<Noted>().expect("a note").note;
    let mut notes: Vec<String> = letters.expect("list").iter().map(note).collect();
    notes.sort();
    notes
}

async fn sorted_effects(office: &Office, who: &str) -> Vec<String> {
    let mut effects = office.effects(who).await;
    effects.sort();
    effects
}

/// Nothing is lost when a log is numbered anew (SQLite): neither the new entries that passed the old position before a relay looked,
/// nor those that fail under the number of an old one that is parked or a dead letter, nor these old ones.
pub async fn a_log_numbered_anew_loses_nothing(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let parks = Scripted::new("parks").fails_on("old 1").fails_on("new 1");
    let gives_up = Scripted::new("gives_up").fails_on("old 2").fails_on("new 2");
    let relay = |office: &Office| {
        let relay = office.relay().subscriber(parks.subscriber(1_000_000));
        relay.subscriber(gives_up.subscriber(1))
    };
    office.start(relay(&office));
    office.emit(&[("a", "old 1"), ("b", "old 2"), ("c", "old 3")]).await;
    office
        .until("one has died", async || dead_notes(&office).await == ["old 2"])
        .await;
    office.until_settled("gives_up").await;
    let parked = "select count(*) from postroom.outbox_parked where route = 'parks'";
    office
        .until("one is parked", async || office.number(parked).await == 1)
        .await;
    office
        .until("the log is read", async || office.effects("parks").await.len() == 2)
        .await;
    office.stop().await;
    office
        .execute("delete from postroom_outbox; delete from sqlite_sequence where name = 'postroom_outbox'")
        .await;
    let new = [
        ("d", "new 1"),
        ("e", "new 2"),
        ("f", "new 3"),
        ("g", "new 4"),
        ("h", "new 5"),
    ];
    office.emit(&new).await;
    office.start(relay(&office));
    office
        .until("both are parked", async || office.number(parked).await == 2)
        .await;
    office
        .until("both have died", async || {
            dead_notes(&office).await == ["new 2", "old 2"]
        })
        .await;
    parks.heal();
    gives_up.heal();
    let retried = dead::retry(office.fresh.db(), &Selection::default(), "me").await;
    assert_eq!(retried.expect("retry"), 2);
    let all = ["new 1", "new 2", "new 3", "new 4", "new 5", "old 1", "old 2", "old 3"];
    for who in ["parks", "gives_up"] {
        office
            .until(&format!("{who} has all"), async || {
                sorted_effects(&office, who).await == all
            })
            .await;
    }
    office.stop().await;
    assert_eq!(office.number("select count(*) from postroom.outbox_parked").await, 0);
}

/// A dead letter is retried although a newer event is parked under its number, and neither takes the other's place.
pub async fn a_letter_whose_number_is_used_again_is_retried(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let script = Scripted::new("s").fails_on("old");
    office.start(office.relay().subscriber(script.subscriber(1)));
    office.emit(&[("a", "old")]).await;
    office
        .until("it has died", async || dead_notes(&office).await == ["old"])
        .await;
    office.stop().await;
    office
        .execute("delete from postroom_outbox; delete from sqlite_sequence where name = 'postroom_outbox'")
        .await;
    script.heal();
    let script = script.fails_on("new");
    office.emit(&[("b", "new"), ("c", "other")]).await;
    office.start(office.relay().subscriber(script.subscriber(1_000_000)));
    office.expect("s", &["other"]).await;
    let retried = dead::retry(office.fresh.db(), &Selection::default(), "me").await;
    assert_eq!(retried.expect("retry"), 1);
    office.expect("s", &["other", "old"]).await;
    script.heal();
    office.expect("s", &["other", "old", "new"]).await;
    office.stop().await;
}
