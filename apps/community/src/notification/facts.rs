//! The events of which members are told, and the texts that the messages quote.

use std::collections::HashMap;

use postroom::{DomainEvent as _, Error, Event, Result, Tx};
use uuid::Uuid;

use crate::events::{CommentCreated, MemberFollowed, PostLiked, VoteClosed, VotersListed};
use crate::tables::{comment, member, post, vote};

/// An event of which members are told.
#[derive(Debug)]
pub(super) enum Fact {
    Followed {
        event: MemberFollowed,
        event_id: Uuid,
    },
    Liked {
        event: PostLiked,
        event_id: Uuid,
    },
    Commented {
        event: CommentCreated,
        event_id: Uuid,
    },
    /// A vote closed: some of its voters, and with the first of them its author.
    Closed {
        listed: VotersListed,
        is_first: bool,
    },
}

impl Fact {
    pub(super) fn of(event: &Event) -> Result<Self> {
        let event_id = event.id;
        Ok(match event.event_type.as_str() {
            MemberFollowed::TYPE => Self::Followed {
                event: event.decode()?,
                event_id,
            },
            PostLiked::TYPE => Self::Liked {
                event: event.decode()?,
                event_id,
            },
            CommentCreated::TYPE => Self::Commented {
                event: event.decode()?,
                event_id,
            },
            VoteClosed::TYPE => Self::first_part(event.decode()?, event_id),
            VotersListed::TYPE => Self::Closed {
                listed: event.decode()?,
                is_first: false,
            },
            other => return Err(Error::invalid(format!("no member is told of {other}"))),
        })
    }

    fn first_part(closed: VoteClosed, event_id: Uuid) -> Self {
        let listed = VotersListed {
            vote_id: closed.vote_id,
            author_id: closed.author_id,
            closed_by: event_id,
            after: i64::MIN,
            until: None,
        };
        Self::Closed { listed, is_first: true }
    }

    fn actor(&self) -> Option<i64> {
        match self {
            Self::Followed { event, .. } => Some(event.follower_id),
            Self::Liked { event, .. } => Some(event.member_id),
            Self::Commented { event, .. } => Some(event.member_id),
            Self::Closed { .. } => None,
        }
    }

    fn post(&self) -> Option<i64> {
        match self {
            Self::Liked { event, .. } => Some(event.post_id),
            Self::Commented { event, .. } => Some(event.post_id),
            Self::Followed { .. } | Self::Closed { .. } => None,
        }
    }

    fn comment(&self) -> Option<i64> {
        match self {
            Self::Commented { event, .. } => Some(event.comment_id),
            _ => None,
        }
    }

    fn vote(&self) -> Option<i64> {
        match self {
            Self::Closed { listed, .. } => Some(listed.vote_id),
            _ => None,
        }
    }
}

/// The texts that the messages of some events quote.
#[derive(Debug)]
pub(super) struct Facts {
    nicknames: HashMap<i64, String>,
    titles: HashMap<i64, String>,
    comments: HashMap<i64, String>,
    questions: HashMap<i64, String>,
}

impl Facts {
    pub(super) async fn look_up(tx: &Tx, facts: &[Fact]) -> Result<Self> {
        Ok(Self {
            nicknames: member::nicknames(tx, facts.iter().filter_map(Fact::actor)).await?,
            titles: post::titles(tx, facts.iter().filter_map(Fact::post)).await?,
            comments: comment::bodies(tx, facts.iter().filter_map(Fact::comment)).await?,
            questions: vote::questions(tx, facts.iter().filter_map(Fact::vote)).await?,
        })
    }

    /// Members need no nickname to act.
    pub(super) fn nickname(&self, member_id: i64) -> String {
        let known = self.nicknames.get(&member_id).cloned();
        known.unwrap_or_else(|| format!("Member {member_id}"))
    }

    pub(super) fn title(&self, post_id: i64) -> &str {
        self.titles.get(&post_id).map_or("", String::as_str)
    }

    /// `None` if it was deleted.
    pub(super) fn comment(&self, comment_id: i64) -> Option<&str> {
        self.comments.get(&comment_id).map(String::as_str)
    }

    pub(super) fn question(&self, vote_id: i64) -> &str {
        self.questions.get(&vote_id).map_or("", String::as_str)
    }
}
