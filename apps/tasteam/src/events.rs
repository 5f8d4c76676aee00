//! The events of the service. They carry ids and no text of users: a review's text stays in its own table.

use postroom::DomainEvent;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::serde::rfc3339;

/// A member wrote a review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewCreated {
    /// The review.
    pub review_id: i64,
    /// The restaurant.
    pub restaurant_id: i64,
    /// The group for which it was written.
    pub group_id: Option<i64>,
    /// The part of the group.
    pub subgroup_id: Option<i64>,
    /// The member who wrote it.
    pub member_id: i64,
    /// Whether it has a picture.
    pub has_image: bool,
}

impl DomainEvent for ReviewCreated {
    const TYPE: &'static str = "tasteam.review.created.v1";
    const AGGREGATE_TYPE: &'static str = "review";

    fn aggregate_id(&self) -> String {
        self.review_id.to_string()
    }
}

/// How a member came into a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum JoinType {
    /// With an e-mail address of the group's domain.
    Email,
    /// With the group's password.
    Password,
}

/// A member joined a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupJoined {
    /// The group.
    pub group_id: i64,
    /// The member.
    pub member_id: i64,
    /// How.
    pub join_type: JoinType,
    /// When.
    #[serde(with = "rfc3339")]
    #[schemars(with = "String")]
    pub joined_at: OffsetDateTime,
}

impl DomainEvent for GroupJoined {
    const TYPE: &'static str = "tasteam.group.joined.v1";
    const AGGREGATE_TYPE: &'static str = "group";

    fn aggregate_id(&self) -> String {
        self.group_id.to_string()
    }
}
