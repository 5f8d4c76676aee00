//! The worker `notification`: turns events into notifications of the members whom they concern, each stored once, with its frame
//! in the member's stream. Real-time delivery is not its matter: whatever becomes of it, the notification is in the inbox.

mod facts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use postroom::{Error, Event, Result, Tx, append};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use uuid::Uuid;

use crate::domain::Telling;
use crate::events::VotersListed;
use crate::stream::{self, NOTIFICATION, StreamEvent};
use crate::tables::notification::{self, NewNotification};
use crate::tables::{now_ms, vote};
use facts::{Fact, Facts};

/// Voters who are told in one transaction. The others are told by events that name the next ones.
const VOTERS_MAX: i64 = 100;

/// A notification, and the members who get it.
#[derive(Debug)]
struct Told {
    new: NewNotification,
    members: BTreeSet<i64>,
}

/// Tells members of these events. A member who was told of an event is not told again, also if the event comes again.
pub(crate) async fn tell(tx: &mut Tx, events: &[&Event]) -> Result<()> {
    let facts = events
        .iter()
        .map(|event| Fact::of(event))
        .collect::<Result<Vec<Fact>>>()?;
    let known = Facts::look_up(tx, &facts).await?;
    let mut told = Vec::with_capacity(facts.len());
    for fact in &facts {
        told.extend(of_fact(tx, fact, &known).await?);
    }
    store(tx, told).await
}

/// The notification of a fact; `None` if it concerns nobody else.
async fn of_fact(tx: &Tx, fact: &Fact, known: &Facts) -> Result<Option<Told>> {
    let (who, members) = match fact {
        Fact::Followed { event, event_id } => {
            let who = known.nickname(event.follower_id);
            let new = new(
                *event_id,
                &Telling::Follow { who: &who },
                (event.follower_id, event.follower_id),
            );
            (new, only(event.followee_id, event.follower_id))
        }
        Fact::Liked { event, event_id } => {
            let (who, title) = (known.nickname(event.member_id), known.title(event.post_id));
            let telling = Telling::PostLike { who: &who, title };
            let new = new(*event_id, &telling, (event.member_id, event.post_id));
            (new, only(event.post_author_id, event.member_id))
        }
        Fact::Commented { event, event_id } => {
            let Some(comment) = known.comment(event.comment_id) else {
                return Ok(None); // it was deleted meanwhile
            };
            let (who, title) = (known.nickname(event.member_id), known.title(event.post_id));
            let telling = Telling::PostComment {
                who: &who,
                title,
                comment,
            };
            let new = new(*event_id, &telling, (event.member_id, event.post_id));
            (new, only(event.post_author_id, event.member_id))
        }
        Fact::Closed { listed, is_first } => {
            let question = known.question(listed.vote_id);
            let telling = Telling::VoteClosed { question };
            let new = new(listed.closed_by, &telling, (listed.author_id, listed.vote_id));
            (new, voters(tx, listed, *is_first).await?)
        }
    };
    Ok((!members.is_empty()).then_some(Told { new: who, members }))
}

/// One member, who is not told of what it did itself.
fn only(member: i64, actor: i64) -> BTreeSet<i64> {
    [member].into_iter().filter(|member| *member != actor).collect()
}

fn new(event_id: Uuid, telling: &Telling<'_>, (actor_id, ref_id): (i64, i64)) -> NewNotification {
    NewNotification {
        event_id,
        kind: telling.kind().name(),
        message: telling.message(),
        ref_id,
        actor_id,
    }
}

/// The voters of this part; with the first part, the author too, and events for the other parts.
async fn voters(tx: &Tx, listed: &VotersListed, is_first: bool) -> Result<BTreeSet<i64>> {
    let mut until = listed.until;
    if is_first {
        let bounds = vote::every_nth_voter(tx, listed.vote_id, VOTERS_MAX).await?;
        until = bounds.first().copied();
        let part = |(at, after): (usize, &i64)| {
            Event::of(&VotersListed {
                after: *after,
                until: bounds.get(at + 1).copied(),
                ..listed.clone()
            })
        };
        let parts = bounds.iter().enumerate().map(part).collect::<Result<Vec<Event>>>()?;
        append(tx, &parts).await?;
    }
    let mut members: BTreeSet<i64> = vote::voters(tx, listed.vote_id, (listed.after, until))
        .await?
        .into_iter()
        .collect();
    members.extend(is_first.then_some(listed.author_id));
    Ok(members)
}

/// Stores the notifications that are new, and appends their frames.
async fn store(tx: &Tx, told: Vec<Told>) -> Result<()> {
    let mut frames = Vec::new();
    let mut by_event: BTreeMap<Uuid, Told> = BTreeMap::new();
    for one in told {
        match by_event.get_mut(&one.new.event_id) {
            Some(known) => known.members.extend(one.members),
            None => drop(by_event.insert(one.new.event_id, one)),
        }
    }
    for Told { new, members } in by_event.values() {
        let members: Vec<i64> = members.iter().copied().collect();
        for members in members.chunks(MEMBERS_MAX) {
            frames.extend(store_for(tx, new, members).await?);
        }
    }
    stream::append(tx, &frames).await?;
    Ok(())
}

/// Members in one statement.
const MEMBERS_MAX: usize = 500;

async fn store_for(tx: &Tx, new: &NewNotification, members: &[i64]) -> Result<Vec<StreamEvent>> {
    let mut known = notification::told(tx, new.event_id, members).await?;
    known.extend(stream::told(tx, new.event_id, members).await?);
    let members: Vec<i64> = members
        .iter()
        .copied()
        .filter(|member| !known.contains(member))
        .collect();
    if members.is_empty() {
        return Ok(Vec::new());
    }
    notification::insert(tx, new, &members, now_ms()).await?;
    let ids = notification::ids(tx, new.event_id, &members).await?;
    ids.into_iter()
        .map(|(member_id, id)| {
            Ok(StreamEvent {
                member_id,
                event_id: new.event_id,
                name: NOTIFICATION,
                data: Data::of(id, new).encode()?,
                is_notification: true,
            })
        })
        .collect()
}

/// A notification in a frame, in the form and the order of the specification.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Data<'a> {
    pub(crate) id: i64,
    #[serde(rename = "type")]
    pub(crate) kind: &'a str,
    pub(crate) message: &'a str,
    pub(crate) ref_id: i64,
    pub(crate) actor_id: i64,
}

impl<'a> Data<'a> {
    fn of(id: i64, new: &'a NewNotification) -> Self {
        Self {
            id,
            kind: new.kind,
            message: &new.message,
            ref_id: new.ref_id,
            actor_id: new.actor_id,
        }
    }

    pub(crate) fn encode(&self) -> Result<Arc<RawValue>> {
        Ok(to_raw_value(self).map_err(Error::from)?.into())
    }
}
