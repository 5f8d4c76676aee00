//! The order of the events of a guild or a subscription, by the version of its row. The row is locked for each change. Event
//! ids give no order: different processes create them, and their clocks may differ.

use postroom::{DomainEvent, Event, Migration, Result, Tx, append};

pub(crate) const MIGRATION: Migration = Migration {
    number: 10,
    name: "version",
    up: include_str!("../migrations/0010_version.up.sql"),
    down: include_str!("../migrations/0010_version.down.sql"),
};

/// The event header with the version of the aggregate.
pub const VERSION: &str = "aggregateversion";

/// An event of an aggregate that now has this version.
pub(crate) fn event_of<E: DomainEvent>(event: &E, version: i64) -> Result<Event> {
    Ok(Event::of(event)?.header(VERSION, version.to_string()))
}

/// Emits an event with this version.
pub(crate) async fn emit<E: DomainEvent>(tx: &Tx, event: &E, version: i64) -> Result<()> {
    append(tx, &[event_of(event, version)?]).await?;
    Ok(())
}

/// The version of the aggregate. Events of older releases have none.
pub(crate) fn version(event: &Event) -> Option<i64> {
    event.headers.get(VERSION)?.parse().ok()
}

/// The sort key of an event among the events of one aggregate. Without a version it is the event id, which sorts before every
/// version.
pub(crate) fn mark(event: &Event) -> String {
    match version(event) {
        Some(version) => format!("v{version:019}"),
        None => event.id.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::guild::events::BotKicked;

    #[test]
    fn a_mark_rises_with_the_version_whatever_the_ids_are() {
        let guild_id = "g".to_owned();
        let kicked = BotKicked { guild_id };
        let made = |id: u128, version| Event {
            id: Uuid::from_u128(id),
            ..event_of(&kicked, version).unwrap()
        };
        let old = |id: u128| Event {
            id: Uuid::from_u128(id),
            ..Event::of(&kicked).unwrap()
        };
        let events = [old(1), old(u128::MAX), made(u128::MAX, 1), made(3, 2), made(2, 10)];
        assert!(events.iter().map(mark).is_sorted_by(|one, next| one < next));
        assert!(mark(&made(1, i64::MAX)).len() <= 36, "it has room where ids have");
    }
}
