//! The events of the module. They carry ids and no text of members: a comment's text stays in its own table.

use postroom::DomainEvent;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A member follows another one (`FollowCreated`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberFollowed {
    /// The member who follows.
    pub follower_id: i64,
    /// The member who is followed.
    pub followee_id: i64,
}

impl DomainEvent for MemberFollowed {
    const TYPE: &'static str = "community.member.followed.v1";
    const AGGREGATE_TYPE: &'static str = "member";

    fn aggregate_id(&self) -> String {
        self.followee_id.to_string()
    }
}

/// A member likes a post (`PostLiked`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PostLiked {
    /// The post.
    pub post_id: i64,
    /// The member who likes it.
    pub member_id: i64,
    /// The author of the post.
    pub post_author_id: i64,
}

impl DomainEvent for PostLiked {
    const TYPE: &'static str = "community.post.liked.v1";
    const AGGREGATE_TYPE: &'static str = "post-like";

    fn aggregate_id(&self) -> String {
        format!("{}/{}", self.post_id, self.member_id)
    }
}

/// A member commented on a post (`CommentCreated`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommentCreated {
    /// The comment.
    pub comment_id: i64,
    /// The post.
    pub post_id: i64,
    /// The author of the comment.
    pub member_id: i64,
    /// The author of the post.
    pub post_author_id: i64,
}

impl DomainEvent for CommentCreated {
    const TYPE: &'static str = "community.comment.created.v1";
    const AGGREGATE_TYPE: &'static str = "comment";

    fn aggregate_id(&self) -> String {
        self.comment_id.to_string()
    }
}

/// The number of comments of a post changed (`CommentCountDeltaPublished`). The id of the event is that of the change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommentCountDelta {
    /// The post.
    pub post_id: i64,
    /// The comment that was written or deleted.
    pub comment_id: i64,
    /// The member who did it.
    pub member_id: i64,
    /// 1 or -1.
    pub delta: i32,
}

impl DomainEvent for CommentCountDelta {
    const TYPE: &'static str = "community.comment.delta.v1";
    const AGGREGATE_TYPE: &'static str = "comment";

    fn aggregate_id(&self) -> String {
        self.comment_id.to_string()
    }
}

/// The time of a vote has come. It is emitted for that time when the vote is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VoteDue {
    /// The vote.
    pub vote_id: i64,
}

impl DomainEvent for VoteDue {
    const TYPE: &'static str = "community.vote.due.v1";
    const AGGREGATE_TYPE: &'static str = "vote";

    fn aggregate_id(&self) -> String {
        self.vote_id.to_string()
    }
}

/// A vote closed, and its result is final (`VoteClosed`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VoteClosed {
    /// The vote.
    pub vote_id: i64,
    /// The member who made the vote.
    pub author_id: i64,
    /// How many members voted.
    pub ballots: i64,
}

impl DomainEvent for VoteClosed {
    const TYPE: &'static str = "community.vote.closed.v1";
    const AGGREGATE_TYPE: &'static str = "vote";

    fn aggregate_id(&self) -> String {
        self.vote_id.to_string()
    }
}

/// A part of the voters of a large vote is to be told that it closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VotersListed {
    /// The vote.
    pub vote_id: i64,
    /// The member who made the vote.
    pub author_id: i64,
    /// The event that closed it, by which notifications are told apart.
    #[schemars(with = "String")]
    pub closed_by: Uuid,
    /// Voters with greater ids.
    pub after: i64,
    /// Voters up to this id; absent: all that are left.
    pub until: Option<i64>,
}

impl DomainEvent for VotersListed {
    const TYPE: &'static str = "community.vote.listed.v1";
    const AGGREGATE_TYPE: &'static str = "vote";

    fn aggregate_id(&self) -> String {
        self.vote_id.to_string()
    }
}

/// Frames were appended to the streams of members. It carries what connections need, so that they get it without a query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamAppended {
    /// The contents of the frames, each once.
    pub contents: Vec<Content>,
    /// The frames, each with its member and its content.
    pub frames: Vec<Addressed>,
}

/// The content of a frame, the same for every member who gets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Content {
    /// The event of which it tells.
    #[schemars(with = "String")]
    pub event_id: Uuid,
    /// The name of the frame.
    pub name: String,
    /// A JSON object, as text: a database that stores JSON may put its fields in another order.
    pub data: String,
}

/// A frame of a member's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Addressed {
    /// The member.
    pub member_id: i64,
    /// Its number in the member's stream.
    pub seq: i64,
    /// The unread notifications of the member after it.
    pub unread: i64,
    /// Which of the contents; absent: none, because the member has muted notifications.
    pub content: Option<usize>,
}

impl StreamAppended {
    fn first_member(&self) -> i64 {
        self.frames.first().map_or(0, |frame| frame.member_id)
    }
}

impl DomainEvent for StreamAppended {
    const TYPE: &'static str = "community.stream.appended.v1";
    const AGGREGATE_TYPE: &'static str = "member";

    fn aggregate_id(&self) -> String {
        self.first_member().to_string()
    }
}
