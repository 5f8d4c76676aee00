//! Which client events are stored, and in which form. Pure: it reads no clock and no table.

mod client_event;
mod properties;
mod same;

use std::time::Duration;

use time::OffsetDateTime;

use crate::catalogue::{Catalogue, Listed};
use crate::event::{ActivityEvent, Source};

pub(crate) use client_event::{ClientEvent, Unreadable, read};
pub(crate) use same::is_same_event;

/// An event may reach us this long after it happened: a client keeps events while it is offline.
const AGE_MAX: Duration = Duration::from_hours(7 * 24);
/// A client's clock may be ahead of ours by this.
const AHEAD_MAX: Duration = Duration::from_mins(5);

/// The sender of events. Neither the address nor the user agent is part of it; [`crate::privacy::ClientTrace`] is what is stored of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// A visitor without a token: each event names its visitor and session itself.
    Anonymous,
    /// The member whose token the request has.
    Member(i64),
}

/// The decision about a client event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Judged {
    /// It is stored like this, without the fields and properties that are listed.
    Accepted {
        event: Box<ActivityEvent>,
        removed: Vec<String>,
    },
    /// It is not stored, and sending it again does not help.
    Dropped(Drop),
}

/// Why an event is dropped. The names are part of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Drop {
    MissingEventId,
    Malformed(String),
    UnknownEventName,
    UnknownEventVersion,
    TooOld,
    InTheFuture,
    MissingAnonymousId,
    MissingSessionId,
    MemberIdWithoutToken,
    OtherMemberId,
    InvalidField(String),
    InvalidProperties(String),
    ConflictingEventId,
    NotStorable,
}

impl Drop {
    /// The reason for programs.
    pub(crate) fn details(&self) -> &'static str {
        match self {
            Self::MissingEventId => "missing_event_id",
            Self::Malformed(_) => "malformed_event",
            Self::UnknownEventName => "unknown_event_name",
            Self::UnknownEventVersion => "unknown_event_version",
            Self::TooOld => "occurred_at_too_old",
            Self::InTheFuture => "occurred_at_in_the_future",
            Self::MissingAnonymousId => "missing_anonymous_id",
            Self::MissingSessionId => "missing_session_id",
            Self::MemberIdWithoutToken => "member_id_without_token",
            Self::OtherMemberId => "other_member_id",
            Self::InvalidField(_) => "invalid_field",
            Self::InvalidProperties(_) => "invalid_properties",
            Self::ConflictingEventId => "conflicting_event_id",
            Self::NotStorable => "not_storable",
        }
    }

    /// The reason for people, where the name does not say it all.
    pub(crate) fn message(&self) -> Option<&str> {
        match self {
            Self::MissingEventId => {
                Some("eventId must be a text of 1 to 64 characters, a UUID of version 7 if possible")
            }
            Self::UnknownEventName => Some("clients may not send events of this name"),
            Self::UnknownEventVersion => Some("clients may send other versions of this event only"),
            Self::TooOld => Some("occurredAt is more than 7 days ago"),
            Self::InTheFuture => Some("occurredAt is more than 5 minutes ahead of the server's clock"),
            Self::MissingAnonymousId => Some("without the token of a member, an event needs an anonymousId"),
            Self::MissingSessionId => Some("without the token of a member, an event needs a sessionId"),
            Self::MemberIdWithoutToken => Some("send the token of the member instead of a memberId"),
            Self::OtherMemberId => Some("memberId is not the member of the token"),
            Self::ConflictingEventId => Some("an event with this eventId and other content is stored"),
            Self::NotStorable => Some("the database refuses a value of this event"),
            Self::Malformed(message) | Self::InvalidField(message) | Self::InvalidProperties(message) => Some(message),
        }
    }
}

/// The rules for client events.
#[derive(Clone, Debug, Default)]
pub(crate) struct IngestPolicy {
    catalogue: Catalogue,
}

impl IngestPolicy {
    pub(crate) fn new(catalogue: Catalogue) -> Self {
        Self { catalogue }
    }

    /// Decides about one event.
    pub(crate) fn judge(&self, client: ClientEvent, sender: Sender, now: OffsetDateTime) -> Judged {
        match self.accept(client, sender, now) {
            Ok((event, removed)) => Judged::Accepted {
                event: Box::new(event),
                removed,
            },
            Err(drop) => Judged::Dropped(drop),
        }
    }

    fn accept(
        &self,
        client: ClientEvent,
        sender: Sender,
        now: OffsetDateTime,
    ) -> Result<(ActivityEvent, Vec<String>), Drop> {
        let ClientEvent { mut event, mut removed } = client;
        let listed = match self.catalogue.look_up(&event.event_name, &event.event_version) {
            Listed::Yes(properties) => properties,
            Listed::OtherVersion => return Err(Drop::UnknownEventVersion),
            Listed::No => return Err(Drop::UnknownEventName),
        };
        check_time(event.occurred_at, now)?;
        event.source = Source::Client;
        event.member_id = member(&event, sender)?;
        removed.extend(properties::keep_listed(&mut event.properties, listed));
        check_storable(&event)?;
        Ok((event, removed))
    }
}

/// The last check of each event before it is stored: after everything that is not listed was removed, and once more after the PII
/// firewall, whose marks can be longer than what they replace.
pub(crate) fn check_storable(event: &ActivityEvent) -> Result<(), Drop> {
    let is_valid = event.check();
    is_valid.map_err(|error| Drop::InvalidField(error.doing().to_owned()))?;
    properties::check(&event.properties).map_err(Drop::InvalidProperties)
}

fn check_time(occurred_at: OffsetDateTime, now: OffsetDateTime) -> Result<(), Drop> {
    if occurred_at <= now - AGE_MAX {
        Err(Drop::TooOld)
    } else if occurred_at >= now + AHEAD_MAX {
        Err(Drop::InTheFuture)
    } else {
        Ok(())
    }
}

/// The member of an event: that of the token, and no other.
fn member(event: &ActivityEvent, sender: Sender) -> Result<Option<i64>, Drop> {
    let is_missing = |text: &Option<String>| text.as_deref().is_none_or(|text| text.trim().is_empty());
    match (sender, event.member_id) {
        (Sender::Member(member), None) => Ok(Some(member)),
        (Sender::Member(member), Some(claimed)) if claimed == member => Ok(Some(member)),
        (Sender::Member(_), Some(_)) => Err(Drop::OtherMemberId),
        (Sender::Anonymous, Some(_)) => Err(Drop::MemberIdWithoutToken),
        (Sender::Anonymous, None) if is_missing(&event.anonymous_id) => Err(Drop::MissingAnonymousId),
        (Sender::Anonymous, None) if is_missing(&event.session_id) => Err(Drop::MissingSessionId),
        (Sender::Anonymous, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use time::macros::datetime;

    use super::*;

    const NOW: OffsetDateTime = datetime!(2026-11-18 10:00 UTC);

    fn policy() -> IngestPolicy {
        IngestPolicy::new(Catalogue::default().event("page.viewed", "v1", ["path"]).unwrap())
    }

    /// A valid event, changed like this.
    fn judged(change: &Value, sender: Sender) -> Judged {
        let mut event = json!({
            "eventId": "e1", "eventName": "page.viewed", "eventVersion": "v1", "occurredAt": "2026-11-18T09:59:00Z",
            "anonymousId": "a1", "sessionId": "s1", "properties": {"path": "/"},
        });
        for (name, value) in change.as_object().unwrap() {
            event[name] = value.clone();
        }
        policy().judge(read(&event.to_string()).unwrap(), sender, NOW)
    }

    fn check(change: Value, sender: Sender, expected: &str) {
        let details = match judged(&change, sender) {
            Judged::Accepted { .. } => "accepted",
            Judged::Dropped(drop) => drop.details(),
        };
        assert_eq!(details, expected, "{change} of {sender:?}");
    }

    #[test]
    fn only_events_of_the_catalogue_are_accepted() {
        let check = |change: Value, expected: &str| check(change, Sender::Anonymous, expected);
        check(json!({}), "accepted");
        check(json!({"eventName": "review.created"}), "unknown_event_name");
        check(json!({"eventVersion": "v2"}), "unknown_event_version");
        check(json!({"sessionId": "s".repeat(101)}), "invalid_field");
        check(json!({"properties": {"path": "a\0b"}}), "invalid_properties");
    }

    #[test]
    fn an_event_is_neither_old_nor_in_the_future() {
        let check = |at: &str, expected: &str| check(json!({"occurredAt": at}), Sender::Anonymous, expected);
        check("2026-11-11T10:00:00Z", "occurred_at_too_old");
        check("2026-11-11T10:00:00.001Z", "accepted");
        check("2026-11-18T19:04:59+09:00", "accepted");
        check("2026-11-18T10:05:00Z", "occurred_at_in_the_future");
        check("0000-01-01T00:00:00+23:59", "occurred_at_too_old");
        check("9999-12-31T23:59:59-23:59", "occurred_at_in_the_future");
    }

    #[test]
    fn the_member_is_that_of_the_token() {
        let (anonymous, member) = (Sender::Anonymous, Sender::Member(42));
        check(json!({"anonymousId": null}), anonymous, "missing_anonymous_id");
        check(json!({"anonymousId": " "}), anonymous, "missing_anonymous_id");
        check(json!({"sessionId": null}), anonymous, "missing_session_id");
        check(json!({"memberId": 42}), anonymous, "member_id_without_token");
        check(json!({"anonymousId": null, "sessionId": null}), member, "accepted");
        check(json!({"memberId": 42}), member, "accepted");
        check(json!({"memberId": 43}), member, "other_member_id");
        let Judged::Accepted { event, .. } = judged(&json!({}), member) else {
            panic!("dropped")
        };
        assert_eq!((event.member_id, event.source), (Some(42), Source::Client));
    }

    #[test]
    fn what_is_not_listed_is_removed_and_named() {
        let change = json!({"properties": {"path": "/", "email": "x"}, "userAgent": "y", "source": "SERVER"});
        let Judged::Accepted { event, mut removed } = judged(&change, Sender::Anonymous) else {
            panic!("dropped")
        };
        removed.sort_unstable();
        assert_eq!(removed, ["properties.email", "source", "userAgent"]);
        assert_eq!(Value::Object(event.properties), json!({"path": "/"}));
        assert_eq!(event.source, Source::Client);
    }
}
