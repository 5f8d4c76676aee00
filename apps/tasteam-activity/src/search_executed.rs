//! `search.executed`: a search was answered. It is collected if there is room; a search never waits for it.

use postroom_activity::{ActivityEvent, Recorder};
use tasteam::{SearchExecuted, SearchObserver};

/// Records searches.
#[derive(Clone, Debug)]
pub struct SearchRecorder(pub Recorder);

impl SearchObserver for SearchRecorder {
    fn searched(&self, search: &SearchExecuted) {
        let mut activity = ActivityEvent::new("search.executed", "v1")
            // The words themselves are stored only with `pii.keyword_mode = "PLAIN"`; by default, `queryHash` is.
            .property("query", search.query.as_str())
            .property("resultGroupCount", search.result_group_count)
            .property("resultRestaurantCount", search.result_restaurant_count)
            .property("hasLocation", search.has_location);
        activity.member_id = search.member_id;
        activity.occurred_at = search.occurred_at;
        self.0.record(activity);
    }
}
