//! Group chat: rooms, their members and their messages.
//!
//! The entries of a room (messages, edits, deletes, members who come and go) are numbered in the transaction that makes them
//! (`numbered`). Everything else derives from them: `history` by the worker `chat_persist`, the live frames by the worker
//! `chat_fanout`. Neither needs the other.

mod domain;
mod events;
mod failure;
mod fanout;
mod frame;
mod history;
mod http;
mod journal;
mod message;
mod numbered;
mod pace;
mod retention;
mod room;
mod socket;
mod stored;
mod tables;

use std::sync::Arc;
use std::time::Duration;

use postroom::{Delays, Idempotency, Migration, Retry, Subscriber};
use postroom_host::Module;
use postroom_realtime::{Hub, HubSettings};
use postroom_shared::registry::Limits;

pub use events::{ChatMemberEntered, ChatMemberLeft, ChatMessageDeleted, ChatMessageEdited, ChatMessageSent};

use crate::settings::Settings;
use fanout::FanOut;
use journal::Rooms;
use pace::Pace;
use socket::Chat;
use stored::Stored;

/// The groups of the workers.
const PERSIST: &str = "chat_persist";
const FAN_OUT: &str = "chat_fanout";
/// WebSockets of one member over all instances; beyond it the oldest gives way.
const CONNECTIONS_MAX: u32 = 10;

/// Adds chat to the module.
pub(crate) fn join(module: Module, _settings: &Settings) -> Module {
    let rooms = Arc::new(Rooms::default());
    let hub = Hub::new(hub_settings(), Arc::clone(&rooms) as _, module.shared());
    let chat = Chat {
        hub: hub.clone(),
        stored: Stored::default(),
        pace: Pace::default(),
    };
    let module = module
        .event::<ChatMessageSent>()
        .event::<ChatMessageEdited>()
        .event::<ChatMessageDeleted>()
        .event::<ChatMemberEntered>()
        .event::<ChatMemberLeft>()
        // It stores messages as they stand, so a repeated event changes nothing.
        .subscriber(
            Subscriber::in_batches(PERSIST, events::MESSAGES, history::store)
                .idempotency(Idempotency::Upsert)
                .retry(retry(Some(5))),
        )
        // A stream takes each event once. Only what cannot be read is given up.
        .subscriber(
            Subscriber::in_batches(FAN_OUT, events::ENTRIES, FanOut::new(hub.clone()))
                .idempotency(Idempotency::Upsert)
                .retry(retry(None)),
        )
        .job(retention::job())
        .metrics({
            let hub = hub.clone();
            move |registry| hub.metrics(registry)
        })
        .http(http::routes(chat.pace.clone()));
    let module = socket::routes(chat.clone()).into_iter().fold(module, Module::http);
    module
        .part("community-chat-stored", |host, stop| chat.stored.run(host.store, stop))
        .part("community-chat", move |host, stop| {
            rooms.fill(host.store);
            hub.run(stop)
        })
}

/// The migrations of chat, numbered from 2.
pub(crate) fn migrations() -> Vec<Migration> {
    vec![tables::CHAT]
}

fn hub_settings() -> HubSettings {
    HubSettings::new("chat").limits(Limits {
        kind: "ws:chat".to_owned(),
        evictions: "ws:chat:disconnect".to_owned(),
        limit: CONNECTIONS_MAX,
        lease: Duration::from_secs(60),
    })
}

/// One second between the first attempts, up to half a minute between later ones. Five attempts take some ten seconds.
fn retry(attempts_max: Option<u32>) -> Retry {
    Retry {
        delays: Delays::Exponential {
            first: Duration::from_secs(1),
            max: Duration::from_secs(30),
        },
        attempts_max,
        age_max: None,
    }
}
