//! Storing history, and what happens while it fails.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test harness: a panic fails the test"
)]

use std::time::Duration;

use postroom::dead::{self, LetterState, Selection};
use postroom_testkit::wait::{until, until_some};
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend};
use serde_json::json;

use super::town::{Town, bodies};
use crate::world::{Place, on_every_way};

on_every_way! {
    n_10_history_that_is_locked_holds_up_no_receiver
    n_11_a_message_that_cannot_be_stored_is_a_dead_letter_until_it_is_retried
    n_11_a_message_that_changed_while_it_was_a_dead_letter_is_stored_as_it_is
}

/// Makes the table of history useless. PostgreSQL and MariaDB lock it for another session; on SQLite, which has one lock for the
/// whole database, it takes no rows.
struct Locked(DatabaseConnection);

impl Locked {
    async fn table(town: &Town) -> Self {
        let db = match town.0.fresh.db().get_database_backend() {
            DbBackend::Sqlite => town.0.fresh.db().clone(),
            _ => town.0.fresh.writers(1).await,
        };
        let sql = match db.get_database_backend() {
            DbBackend::Postgres => "begin; lock table community_chat_message in access exclusive mode",
            DbBackend::MySql => "lock tables community_chat_message write",
            _ => REFUSE,
        };
        db.execute_unprepared(sql).await.unwrap();
        Self(db)
    }

    async fn unlock(self) {
        let sql = match self.0.get_database_backend() {
            DbBackend::Postgres => "rollback",
            DbBackend::MySql => "unlock tables",
            _ => "drop trigger refuse",
        };
        self.0.execute_unprepared(sql).await.unwrap();
    }
}

const REFUSE: &str =
    "create trigger refuse before insert on community_chat_message begin select raise(abort, 'refused'); end";

/// Receivers get everything in order meanwhile, and afterwards history has the live order.
async fn n_10_history_that_is_locked_holds_up_no_receiver(place: Place) {
    let town = Town::open(place).await;
    let (ada, bob) = (town.member(1, 0), town.member(2, 1));
    let room = ada.room(&[2]).await;
    let mut socket = bob.follow(room, None).await;
    let locked = Locked::table(&town).await;
    for number in 1..=30 {
        ada.say(room, &number.to_string()).await;
    }
    ada.edit(room, 30, "thirty").await.ok();
    let entries = tokio::time::timeout(Duration::from_secs(20), socket.entries(0, 31)).await;
    let entries = entries.unwrap(); // the room is live while history is locked
    let resumed = bob.follow(room, Some(20)).await.entries(20, 31).await;
    assert_eq!(bodies(&resumed), bodies(&entries[20..]));
    locked.unlock().await;
    let history = ada.until_stored(room, 30).await;
    let stored: Vec<_> = history
        .iter()
        .map(|message| message["body"].as_str().unwrap())
        .collect();
    let mut live = bodies(&entries[..30]);
    live[29] = "thirty";
    assert_eq!(stored, live);
    town.close().await;
}

/// Refuses to store a text.
async fn refuse(town: &Town, is_refused: bool) {
    let db = town.0.fresh.db();
    let sql = match (db.get_database_backend(), is_refused) {
        (DbBackend::Sqlite, true) => REFUSE,
        (DbBackend::Sqlite, false) => "drop trigger refuse",
        (_, true) => "alter table community_chat_message add constraint refuse check (message_id < 0)",
        (_, false) => "alter table community_chat_message drop constraint refuse",
    };
    db.execute_unprepared(sql).await.unwrap();
}

fn letters() -> Selection {
    Selection {
        routes: vec!["chat_persist".to_owned()],
        ..Selection::default()
    }
}

async fn until_dead(town: &Town, count: usize) -> Vec<dead::DeadLetter> {
    until_some(&format!("{count} dead letters"), || async {
        let letters = dead::list(town.0.fresh.db(), &letters(), None, 100).await.unwrap();
        let waiting: Vec<_> = letters
            .into_iter()
            .filter(|letter| letter.state == LetterState::Dead)
            .collect();
        (waiting.len() == count).then_some(waiting)
    })
    .await
}

/// It is live for everybody meanwhile.
async fn n_11_a_message_that_cannot_be_stored_is_a_dead_letter_until_it_is_retried(place: Place) {
    let town = Town::open(place).await;
    let (ada, bob) = (town.member(1, 0), town.member(2, 1));
    let room = ada.room(&[2]).await;
    let mut socket = bob.follow(room, None).await;
    refuse(&town, true).await;
    let message = ada.say(room, "kept").await;
    assert_eq!(bodies(&socket.entries(0, 1).await), ["kept"]);
    let letters = until_dead(&town, 1).await;
    assert!(
        letters[0].attempts >= 1 && letters[0].error.contains("refuse"),
        "{letters:?}"
    );
    assert_eq!(letters[0].entry.event.event_type, "community.chat.sent.v1");
    assert!(
        !letters[0].entry.event.payload.get().contains("kept"),
        "a letter has no text"
    );
    assert!(ada.history(room).await.is_empty());
    let fanned_out = Selection {
        routes: vec!["chat_fanout".to_owned()],
        ..Selection::default()
    };
    assert!(
        dead::list(town.0.fresh.db(), &fanned_out, None, 10)
            .await
            .unwrap()
            .is_empty()
    );

    refuse(&town, false).await;
    let which = Selection {
        dead_ids: letters.iter().map(|letter| letter.dead_id).collect(),
        ..Selection::default()
    };
    assert_eq!(dead::retry(town.0.fresh.db(), &which, "test").await.unwrap(), 1);
    let stored = ada.until_stored(room, 1).await;
    assert_eq!(
        (&stored[0]["messageId"], &stored[0]["body"]),
        (&json!(message), &json!("kept"))
    );
    until_dead(&town, 0).await;
    town.close().await;
}

/// Later entries are stored while the letter waits for a decision.
async fn n_11_a_message_that_changed_while_it_was_a_dead_letter_is_stored_as_it_is(place: Place) {
    let town = Town::open(place).await;
    let ada = town.member(1, 0);
    let room = ada.room(&[]).await;
    refuse(&town, true).await;
    let (edited, deleted) = (ada.say(room, "one").await, ada.say(room, "two").await);
    let letters = until_dead(&town, 2).await;
    refuse(&town, false).await;
    ada.edit(room, edited, "one, better").await.ok();
    ada.delete(room, deleted).await.ok();
    let states = async || -> Vec<_> {
        let history = ada.history(room).await;
        history
            .into_iter()
            .map(|message| (message["body"].clone(), message["seq"].clone()))
            .collect()
    };
    let expected = [(json!("one, better"), json!(3)), (json!(null), json!(4))];
    until("the changes are stored", || async { states().await == expected }).await;
    let which = Selection {
        dead_ids: letters.iter().map(|letter| letter.dead_id).collect(),
        ..Selection::default()
    };
    assert_eq!(dead::retry(town.0.fresh.db(), &which, "test").await.unwrap(), 2);
    until_dead(&town, 0).await;
    let third = ada.say(room, "three").await;
    until("what came later is stored", || async { states().await.len() == 3 }).await;
    assert_eq!(states().await[..2], expected, "the old events bring no old text back");
    assert_eq!(third, 5);
    town.close().await;
}
