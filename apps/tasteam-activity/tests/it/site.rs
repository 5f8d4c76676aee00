//! Tasteam and activity collection at work on a fresh store.

use std::sync::Arc;

use postroom_activity::Recorder;
use postroom_activity::pii::Keys;
use postroom_activity::query::{self, EventFilter, StoredEvent};
use postroom_host::Module;
use postroom_testkit::stage::{Running, Scenery};
use postroom_testkit::wait::until;
use postroom_testkit::{Client, Fresh};
use serde_json::{Value, json};
use tasteam::Tasteam;
use tasteam_activity::{SearchRecorder, collecting};

/// A running site.
pub(crate) struct Site {
    pub(crate) fresh: Fresh,
    pub(crate) client: Client,
    running: Running,
}

impl Site {
    pub(crate) async fn open(fresh: Fresh) -> Self {
        Self::with(fresh, json!({}), Scenery::default()).await
    }

    /// With these settings of activity collection.
    pub(crate) async fn with(fresh: Fresh, settings: Value, scenery: Scenery) -> Self {
        let running = Running::open(&fresh, modules(settings), scenery).await;
        Self {
            client: running.client.clone(),
            fresh,
            running,
        }
    }

    /// Ends it as a crash of its process does; the store stays.
    pub(crate) fn kill(self) -> Fresh {
        drop(self.running);
        self.fresh
    }

    /// The id of a new restaurant.
    pub(crate) async fn restaurant(&self, name: &str) -> i64 {
        self.named("/tasteam/restaurants", name).await
    }

    /// The id of a new group.
    pub(crate) async fn group(&self, name: &str) -> i64 {
        self.named("/tasteam/groups", name).await
    }

    async fn named(&self, path: &str, name: &str) -> i64 {
        let made = self.client.post(path, &json!({ "name": name })).await.created();
        made["id"].as_i64().unwrap()
    }

    /// The id of a new review by the member 42.
    pub(crate) async fn review(&self, restaurant_id: i64) -> i64 {
        let review = json!({ "memberId": 42, "restaurantId": restaurant_id, "content": "맛있어요", "hasImage": true });
        let made = self.client.post("/tasteam/reviews", &review).await.created();
        made["reviewId"].as_i64().unwrap()
    }

    /// The member 7 joins a group.
    pub(crate) async fn join(&self, group_id: i64, join_type: &str) {
        self.join_as(group_id, 7, join_type).await;
    }

    pub(crate) async fn join_as(&self, group_id: i64, member_id: usize, join_type: &str) {
        let path = format!("/tasteam/groups/{group_id}/members/{member_id}");
        let body = json!({ "joinType": join_type }).to_string();
        self.client.must("PUT", &path, &[], &body).await.ok();
    }

    /// All stored events, newest first.
    pub(crate) async fn stored(&self) -> Vec<StoredEvent> {
        let page = query::find(self.fresh.db(), &EventFilter::default(), None, 1_000).await;
        page.unwrap().events
    }

    /// Waits until so many events are stored.
    pub(crate) async fn until_stored(&self, count: usize) -> Vec<StoredEvent> {
        let what = format!("{count} stored events");
        until(&what, || async { self.stored().await.len() >= count }).await;
        let stored = self.stored().await;
        assert_eq!(stored.len(), count, "{stored:?}");
        stored
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.client.get(path).await.ok()
    }
}

/// Keys that only tests have.
pub(crate) fn keys() -> Keys {
    Keys::new("k1", b"an invented secret that only tests use").unwrap()
}

/// The modules `tasteam` and `activity`, joined by a recorder of their own.
fn modules(settings: Value) -> Vec<Module> {
    let recorder = Recorder::default();
    let searches = Arc::new(SearchRecorder(recorder.clone()));
    let activity = collecting(recorder).hash_keys(keys()).module();
    vec![
        Tasteam::default().observer(searches).module(),
        activity.configure(settings.as_object().unwrap().clone()).unwrap(),
    ]
}
