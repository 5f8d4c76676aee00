//! The form of the module's events on a broker, by its specification: one JSON object with the same fields for every type.

use postroom::envelope::SOURCE;
use postroom::{DomainEvent as _, Envelope, Error, ErrorKind, Event, Form, Message, Result, Written};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use time::serde::rfc3339;

use crate::chat::{ChatMemberEntered, ChatMemberLeft, ChatMessageDeleted, ChatMessageEdited, ChatMessageSent};
use crate::events::{CommentCountDelta, CommentCreated, MemberFollowed, PostLiked, VoteClosed, VotersListed};

/// A type of event: its name in messages, and the fields of its payload that say who did what to whom.
#[derive(Clone, Copy, Debug)]
struct Named {
    event_type: &'static str,
    name: &'static str,
    actor: &'static str,
    target: &'static str,
    reference: &'static str,
}

const fn named(event_type: &'static str, name: &'static str, fields: [&'static str; 3]) -> Named {
    let [actor, target, reference] = fields;
    Named {
        event_type,
        name,
        actor,
        target,
        reference,
    }
}

/// The types that have a name in messages. Others keep their own, and name no member.
const NAMED: [Named; 11] = [
    named(
        MemberFollowed::TYPE,
        "FollowCreated",
        ["followerId", "followeeId", "followerId"],
    ),
    named(PostLiked::TYPE, "PostLiked", ["memberId", "postAuthorId", "postId"]),
    named(
        CommentCreated::TYPE,
        "CommentCreated",
        ["memberId", "postAuthorId", "postId"],
    ),
    named(
        CommentCountDelta::TYPE,
        "CommentCountDeltaPublished",
        ["memberId", "postId", "commentId"],
    ),
    named(VoteClosed::TYPE, "VoteClosed", ["authorId", "voteId", "voteId"]),
    named(VotersListed::TYPE, "VotersListed", ["authorId", "voteId", "voteId"]),
    named(
        ChatMessageSent::TYPE,
        "ChatMessageSent",
        ["senderId", "roomId", "messageId"],
    ),
    named(
        ChatMessageEdited::TYPE,
        "ChatMessageEdited",
        ["senderId", "roomId", "messageId"],
    ),
    named(
        ChatMessageDeleted::TYPE,
        "ChatMessageDeleted",
        ["senderId", "roomId", "messageId"],
    ),
    named(
        ChatMemberEntered::TYPE,
        "ChatMemberEntered",
        ["actorId", "memberId", "roomId"],
    ),
    named(
        ChatMemberLeft::TYPE,
        "ChatMemberLeft",
        ["actorId", "memberId", "roomId"],
    ),
];

/// A message.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    event_id: String,
    event_type: String,
    #[serde(with = "rfc3339")]
    occurred_at: OffsetDateTime,
    actor_id: Option<i64>,
    target_id: Option<i64>,
    ref_id: Option<i64>,
    payload: Box<RawValue>,
}

/// The form of the messages.
pub(crate) fn form() -> Form {
    Form::new(write, read)
}

fn write(event: &Event) -> Result<Written> {
    let named = NAMED.iter().find(|named| named.event_type == event.event_type);
    let fields: Map<String, Value> = event.decode()?;
    let field = |name: fn(&Named) -> &'static str| fields.get(name(named?))?.as_i64();
    Written::json(&Body {
        event_id: event.id.to_string(),
        event_type: named.map_or(event.event_type.as_str(), |named| named.name).to_owned(),
        occurred_at: event.occurred_at,
        actor_id: field(|named| named.actor),
        target_id: field(|named| named.target),
        ref_id: field(|named| named.reference),
        payload: event.payload.clone(),
    })
}

/// Other programs may write such messages too: their ids make redeliveries one event.
fn read(message: &Message) -> Result<Option<Envelope>> {
    let body: Body = serde_json::from_slice(&message.body)
        .map_err(|source| Error::caused(ErrorKind::Invalid, "read a message as an event", source))?;
    let named = NAMED.iter().find(|named| named.name == body.event_type);
    let event_type = named.map_or(body.event_type.as_str(), |named| named.event_type);
    let time = body.occurred_at.format(&Rfc3339);
    let time = time.map_err(|source| Error::caused(ErrorKind::Invalid, "read the time of a message", source))?;
    let envelope = Envelope::new(event_type, body.payload)
        .attribute("id", body.event_id)
        .attribute("source", SOURCE)
        .attribute("time", time);
    Ok(Some(envelope))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body_of(event: &Event) -> Value {
        serde_json::from_slice(&write(event).unwrap().body).unwrap()
    }

    #[test]
    fn a_message_has_the_fields_of_the_specification() {
        let event = Event::of(&PostLiked {
            post_id: 100,
            member_id: 2,
            post_author_id: 1,
        });
        let event = event.unwrap();
        let expected = json!({
            "eventId": event.id.to_string(),
            "eventType": "PostLiked",
            "occurredAt": event.occurred_at.format(&Rfc3339).unwrap(),
            "actorId": 2,
            "targetId": 1,
            "refId": 100,
            "payload": { "postId": 100, "memberId": 2, "postAuthorId": 1 },
        });
        assert_eq!(body_of(&event), expected);
    }

    #[test]
    fn every_event_that_a_worker_gets_has_a_name_and_its_ids() {
        let module = crate::module().configure(Map::new()).unwrap();
        let fed = module.subscribers.iter().filter(|subscriber| !subscriber.is_straight);
        for subscriber in fed {
            for event in module
                .events
                .iter()
                .filter(|event| subscriber.filter.matches(event.name))
            {
                let named = NAMED.iter().find(|named| named.event_type == event.name);
                let named = named.unwrap_or_else(|| unreachable!("{} has no name in messages", event.name));
                for field in [named.actor, named.target, named.reference] {
                    let properties = &event.schema.as_object().unwrap()["properties"];
                    assert_eq!(properties[field]["type"], "integer", "{field} of {}", event.name);
                }
            }
        }
    }

    #[test]
    fn a_type_without_a_name_keeps_its_own() {
        let payload = RawValue::from_string(r#"{"memberId":7}"#.to_owned()).unwrap();
        let event = Event::new("community.odd.happened.v1", "odd", "7", payload).unwrap();
        let body = body_of(&event);
        assert_eq!(body["eventType"], "community.odd.happened.v1");
        assert_eq!(body["actorId"], Value::Null);
    }
}
