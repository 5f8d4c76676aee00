//! Mappers: how a domain event becomes an activity event. A new domain event needs one new mapper, and nothing else changes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use postroom::{Error, Event, Result};

use crate::event::ActivityEvent;

/// Turns one type of domain event into an activity event.
///
/// ```
/// use postroom::{Event, Result};
/// use postroom_activity::{ActivityEvent, ActivityMapper};
/// # #[derive(serde::Deserialize)]
/// # #[serde(rename_all = "camelCase")]
/// # struct ReviewCreated { member_id: i64, review_id: i64 }
///
/// #[derive(Debug)]
/// struct ReviewCreatedMapper;
///
/// impl ActivityMapper for ReviewCreatedMapper {
///     fn event_type(&self) -> &'static str {
///         "tasteam.review.created.v1"
///     }
///
///     fn map(&self, event: &Event) -> Result<Option<ActivityEvent>> {
///         let review: ReviewCreated = event.decode()?;
///         let activity = ActivityEvent::from_domain(event, "review.created", "v1")
///             .member(review.member_id)
///             .property("reviewId", review.review_id);
///         Ok(Some(activity))
///     }
/// }
/// ```
pub trait ActivityMapper: fmt::Debug + Send + Sync {
    /// The type of domain event that it maps.
    fn event_type(&self) -> &'static str;

    /// The activity event, or `None` if this event is none. It has the id of the domain event
    /// ([`ActivityEvent::from_domain`]), so that a repeated domain event is the same activity. An error makes the domain event a
    /// dead letter of the mapping, at once if its kind is `Invalid`.
    fn map(&self, event: &Event) -> Result<Option<ActivityEvent>>;
}

/// Which mapper maps which type of event.
#[derive(Clone, Debug, Default)]
pub struct MapperRegistry {
    mappers: BTreeMap<&'static str, Arc<dyn ActivityMapper>>,
}

impl MapperRegistry {
    /// Adds a mapper. Two mappers for one type are an error: one of them would never be asked.
    pub fn register(&mut self, mapper: Arc<dyn ActivityMapper>) -> Result<()> {
        let event_type = mapper.event_type();
        match self.mappers.insert(event_type, mapper) {
            None => Ok(()),
            Some(_) => Err(Error::invalid(format!(
                "two mappers map the event type {event_type}; remove one"
            ))),
        }
    }

    /// The types that have a mapper.
    pub fn event_types(&self) -> impl Iterator<Item = &'static str> {
        self.mappers.keys().copied()
    }

    /// The activity event that a domain event reports, if it has a mapper and the mapper says so.
    pub fn map(&self, event: &Event) -> Result<Option<ActivityEvent>> {
        match self.mappers.get(event.event_type.as_str()) {
            Some(mapper) => mapper.map(event),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Mapper;

    impl ActivityMapper for Mapper {
        fn event_type(&self) -> &'static str {
            "shop.order.paid.v1"
        }

        fn map(&self, event: &Event) -> Result<Option<ActivityEvent>> {
            Ok(Some(ActivityEvent::from_domain(event, "order.paid", "v1")))
        }
    }

    #[test]
    fn an_event_goes_to_its_mapper_and_keeps_its_identity() {
        let mut registry = MapperRegistry::default();
        registry.register(Arc::new(Mapper)).unwrap();
        let payload = || postroom::parse_payload("{}").unwrap();
        let paid = Event::new("shop.order.paid.v1", "order", "7", payload()).unwrap();
        let mapped = registry.map(&paid).unwrap().unwrap();
        assert_eq!(mapped.event_id, paid.id.to_string());
        assert_eq!(mapped.occurred_at, paid.occurred_at);
        let other = Event::new("shop.order.sent.v1", "order", "7", payload()).unwrap();
        assert!(registry.map(&other).unwrap().is_none());
        assert!(registry.register(Arc::new(Mapper)).is_err(), "twice");
    }
}
