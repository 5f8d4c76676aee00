//! `review.created`: a member wrote a review. The text of the review is not collected.

use postroom::{DomainEvent as _, Event, Result};
use postroom_activity::{ActivityEvent, ActivityMapper};
use tasteam::ReviewCreated;

/// Maps [`ReviewCreated`].
#[derive(Debug)]
pub struct ReviewCreatedMapper;

impl ActivityMapper for ReviewCreatedMapper {
    fn event_type(&self) -> &'static str {
        ReviewCreated::TYPE
    }

    fn map(&self, event: &Event) -> Result<Option<ActivityEvent>> {
        let review: ReviewCreated = event.decode()?;
        let activity = ActivityEvent::from_domain(event, "review.created", "v1")
            .member(review.member_id)
            .property("reviewId", review.review_id)
            .property("restaurantId", review.restaurant_id)
            .property("groupId", review.group_id)
            .property("subgroupId", review.subgroup_id)
            .property("hasImage", review.has_image);
        Ok(Some(activity))
    }
}
