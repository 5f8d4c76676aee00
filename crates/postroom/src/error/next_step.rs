//! The next safe step: an operation with its arguments, for a command line, a console or a program to offer.

use serde::Serialize;
use uuid::Uuid;

/// Something that an operator can do. It names the operation, not how a program offers it: a command line renders it to a
/// command, a console to a button.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum NextStep {
    /// Wait: it goes on without an operator.
    Wait,
    /// Ask [`why`](crate::operate::why): it names what blocks.
    AskWhy,
    /// Start a relay that has these routes.
    StartRelay {
        /// The routes that no relay works.
        routes: Vec<String>,
    },
    /// Look at the health and the log of a relay that may still run.
    CheckRelay {
        /// The relay that had the leases.
        owner: String,
    },
    /// Resume a paused route ([`set_paused`](crate::operate::set_paused)).
    Resume {
        /// The route.
        route: String,
    },
    /// Look at the routes ([`status`](crate::operate::status)).
    ShowRoutes {
        /// This one; all, if none is named.
        route: Option<String>,
    },
    /// Make the route's destination, or the broker that feeds it, reachable.
    Reconnect {
        /// The route.
        route: String,
    },
    /// Remove the cause for which deliveries of the route fail.
    FixDeliveries {
        /// The route.
        route: String,
    },
    /// Look at dead letters ([`dead::list`](crate::dead::list)).
    ShowLetters {
        /// Which ones.
        letters: Letters,
    },
    /// Retry dead letters ([`dead::retry`](crate::dead::retry)).
    Retry {
        /// Which ones.
        letters: Letters,
    },
    /// Discard dead letters ([`dead::discard`](crate::dead::discard)).
    Discard {
        /// Which ones.
        letters: Letters,
    },
    /// Look at the way of an event ([`timeline`](crate::operate::timeline)).
    ShowEvent {
        /// The event.
        event_id: Uuid,
    },
    /// Try a parked event now ([`retry_now`](crate::operate::retry_now)).
    RetryNow {
        /// The event.
        event_id: Uuid,
    },
    /// Look at the replays ([`replay::list`](crate::replay::list)).
    ShowReplays,
    /// Deliver entries again ([`replay::start`](crate::replay::start)).
    Replay {
        /// To this route.
        route: String,
        /// From this entry on.
        from_id: i64,
        /// Up to this entry.
        to_id: i64,
    },
    /// Look where an event is: its publishing route may be behind, or it waits in the broker's topic.
    FindEvent {
        /// The event.
        event_id: Uuid,
    },
    /// Let a transaction commit.
    AwaitCommit {
        /// The session that has it open.
        session: String,
    },
    /// End a session of the database.
    EndSession {
        /// Which one; none, if it is not known.
        session: Option<String>,
    },
    /// Grant a privilege of the database.
    Grant {
        /// The privilege, as a `grant` statement takes it.
        privilege: String,
        /// To this user; none, if the database does not tell its name.
        user: Option<String>,
    },
    /// Check that the database is healthy.
    CheckDatabase,
    /// Make room on the disk of the database.
    FreeDisk,
    /// Look for handlers that do not end and keep connections.
    CheckHandlers,
    /// Apply the migrations ([`migration::up`](crate::migration::up)).
    Migrate,
    /// Run the newer version of the program that upgraded the tables.
    RunNewer,
    /// Take the newest migrations back ([`migration::down`](crate::migration::down)), with the version that applied them.
    MigrateDown,
}

/// Which dead letters a step is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Letters {
    /// All that wait for a decision.
    All,
    /// Those of this route.
    Route(String),
    /// The one with this number.
    Id(i64),
}
