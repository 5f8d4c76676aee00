//! A community: members who follow each other, posts with comments, likes and votes, notifications and group chat.
//!
//! `domain` has the rules and knows no database. A request changes tables and emits its events in one transaction (`member`, `post`,
//! `comment`, `vote`). The worker `notification` turns events into notifications; `stream` numbers everything that a member is
//! told, and `realtime` delivers it. `counter` counts comments. `docs/guide/community.md` is a guided tour.

mod alert;
mod attempt;
mod chat;
mod comment;
mod counter;
mod demo;
mod domain;
mod events;
mod http;
mod inbox;
mod member;
mod message;
mod notification;
mod post;
mod realtime;
mod retention;
mod settings;
mod stream;
mod tables;
mod vote;

use std::sync::Arc;
use std::time::Duration;

use postroom::{Delays, DomainEvent as _, Idempotency, Migration, Retry, Subscriber};
use postroom_host::{Module, Queue, QueueNames};
use sea_orm::DbBackend;

pub use chat::{ChatMemberEntered, ChatMemberLeft, ChatMessageDeleted, ChatMessageEdited, ChatMessageSent};
pub use demo::Demo;
pub use domain::Limits;
pub use events::{
    Addressed, CommentCountDelta, CommentCreated, Content, MemberFollowed, PostLiked, StreamAppended, VoteClosed,
    VoteDue, VotersListed,
};
pub use settings::{Settings, StreamSettings};

/// The module's name.
pub const NAME: &str = "community";
/// The topic of its events on a broker.
pub const TOPIC: &str = "domain_events";

/// The group that stores notifications.
const NOTIFICATION: &str = "notification";
/// The group that adds changes of comment counts to the tally.
const AGGREGATE: &str = "aggregate";
/// The group that closes votes. It is fed straight from the outbox: the specification knows no queue of it.
const VOTES: &str = "community-votes";

/// The module.
pub fn module() -> Module {
    Module::new(NAME)
        .tables_on(migrations)
        .topic(TOPIC.parse().unwrap_or_default())
        .form(message::form())
        .queue(Queue {
            names: Some(QueueNames::new("{group}_queue", "{group}_dlq")),
            ..Queue::default()
        })
        .event::<MemberFollowed>()
        .event::<PostLiked>()
        .event::<CommentCreated>()
        .event::<CommentCountDelta>()
        .event::<VoteDue>()
        .event::<VoteClosed>()
        .event::<VotersListed>()
        .event::<StreamAppended>()
        .subscriber(Subscriber::on::<VoteDue>(VOTES, vote::close).straight())
        // Each notification has its own key, so a repeated event changes nothing.
        .subscriber(
            Subscriber::in_batches(NOTIFICATION, alert::TOLD, notification::tell)
                .idempotency(Idempotency::Upsert)
                .retry(retry()),
        )
        .alerts(alert::RULES, alert::look)
        .http(inbox::routes())
        .http(postroom_realtime::browser_client())
        .settings(join)
}

/// Adds what the settings ask for.
fn join(module: Module, settings: Settings) -> Module {
    let module = settings
        .mistakes()
        .into_iter()
        .fold(module, |module, (key, says)| module.unusable(key, says));
    let (shared, counts) = (module.shared(), counter::Counts::default());
    let aggregate = counter::Aggregate {
        shared: shared.clone(),
        counts: counts.clone(),
    };
    let settings = Arc::new(settings);
    let module = module
        // The tally takes each change once.
        .subscriber(
            Subscriber::in_batches(AGGREGATE, [CommentCountDelta::TYPE], aggregate).idempotency(Idempotency::Natural),
        )
        .job(counter::flush_job(&settings, shared.clone()))
        .job(retention::job(&settings))
        .metrics({
            let counts = counts.clone();
            move |registry| counts.register(registry)
        })
        .part("comment-counts", move |host, stop| counts.run(host, stop))
        .http(http::routes(Arc::clone(&settings), shared));
    chat::join(realtime::join(module, &settings), &settings)
}

/// Storing a notification is tried five times within some ten seconds. Then the event becomes a dead letter.
fn retry() -> Retry {
    Retry {
        delays: Delays::Exponential {
            first: Duration::from_secs(1),
            max: Duration::from_secs(30),
        },
        attempts_max: Some(5),
        age_max: None,
    }
}

/// All migrations, oldest first.
fn migrations(database: DbBackend) -> Vec<Migration> {
    let own = [tables::migration(database)].into_iter();
    own.chain(chat::migrations()).collect()
}
