//! `group.joined`: a member joined a group.

use postroom::{DomainEvent as _, Error, ErrorKind, Event, Result};
use postroom_activity::{ActivityEvent, ActivityMapper};
use tasteam::{GroupJoined, JoinType};
use time::format_description::well_known::Rfc3339;

/// Maps [`GroupJoined`].
#[derive(Debug)]
pub struct GroupJoinedMapper;

impl ActivityMapper for GroupJoinedMapper {
    fn event_type(&self) -> &'static str {
        GroupJoined::TYPE
    }

    fn map(&self, event: &Event) -> Result<Option<ActivityEvent>> {
        let joined: GroupJoined = event.decode()?;
        let joined_at = joined.joined_at.format(&Rfc3339);
        let joined_at = joined_at.map_err(|source| Error::caused(ErrorKind::Invalid, "write joinedAt", source))?;
        let join_type = match joined.join_type {
            JoinType::Email => "EMAIL",
            JoinType::Password => "PASSWORD",
        };
        let activity = ActivityEvent::from_domain(event, "group.joined", "v1")
            .member(joined.member_id)
            .property("groupId", joined.group_id)
            .property("joinType", join_type)
            .property("joinedAt", joined_at);
        Ok(Some(activity))
    }
}
