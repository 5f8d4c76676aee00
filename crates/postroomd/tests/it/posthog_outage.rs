//! An outage of PostHog while the process is killed three times: it is asked once per interval, nothing is lost or changed.
//!
//! The interval of three seconds stands for the 60 s of the defaults. The outage lasts 20 s, or as many as
//! `POSTROOM_TEST_FAULT_SECONDS` says; 60 intervals, an hour by the defaults, are 180:
//! `POSTROOM_TEST_FAULT_SECONDS=180 cargo xtask test -- -p postroomd --test it posthog_outage`.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test harness: what goes wrong fails the test"
)]

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use postroom::{Event, append, table};
use postroom_activity::{ActivityEvent, ActivityRecorded};
use postroom_testkit::fake_posthog::{FakePosthog, Outcome, PROJECT_API_KEY};
use postroom_testkit::wait::until;
use postroom_testkit::{Fresh, fresh};
use sea_orm::ConnectionTrait as _;
use sea_orm::sea_query::Query;
use tokio::time::sleep;

use crate::broker_fault::length;
use crate::harness::{Daemon, Place};

const LENGTH_DEFAULT: u64 = 20;
/// The wait between two probes.
const INTERVAL: Duration = Duration::from_secs(3);
/// A killed process is replaced by one that takes its routes over within about two seconds: by then no probe is due.
const LEASE: &str = "1s";
/// The clocks of this process and of the database, over a whole run.
const CLOCKS: Duration = Duration::from_millis(50);
/// Between two events.
const PAUSE: Duration = Duration::from_millis(50);
const ROUTE: &str = "activity-posthog";

/// A daemon with activity collection and PostHog.
struct Scene {
    fresh: Fresh,
    posthog: FakePosthog,
    place: Place,
}

impl Scene {
    async fn new(fresh: Fresh) -> Self {
        let (posthog, place) = (FakePosthog::open().await, Place::new());
        let (store, host) = (fresh.url(), &posthog.url);
        place.configure(&format!(
            "[store]\nurl = \"{store}\"\n[relay]\nlease = \"{LEASE}\"\n\
             [modules.activity]\nenabled = true\nmode = \"INTERNAL_PLUS_POSTHOG\"\n\
             [modules.activity.posthog]\nenabled = true\nhost = \"{host}\"\nproject_api_key = \"{PROJECT_API_KEY}\"\n\
             timeout_ms = 60000\nstart = \"beginning\"\ncircuit_open_seconds = {}\n",
            INTERVAL.as_secs()
        ));
        place.ok(&["migrate"]).await;
        Self { fresh, posthog, place }
    }

    async fn start(&self) -> Daemon {
        self.place.start(&["serve", "--roles", "relay"]).await
    }

    /// Records activity in the outbox until `ends`, as a domain does, whichever process runs.
    async fn record(&self, ends: Instant) -> BTreeSet<String> {
        let (db, mut recorded) = (self.fresh.writers(1).await, BTreeSet::new());
        while Instant::now() < ends {
            let activity = ActivityEvent::new("review.created", "v1").member(42).property("n", 1);
            let tx = table::begin(&db).await.unwrap();
            let event = Event::of(&ActivityRecorded(activity.clone())).unwrap();
            append(&tx, &[event]).await.unwrap();
            tx.commit().await.unwrap();
            recorded.insert(activity.event_id);
            sleep(PAUSE).await;
        }
        recorded
    }

    /// Kills the process three times, the second time in the middle of a probe, each time with another in its place at once. The
    /// last one stays. Answers also when each was killed, and before when the next one may not ask, by what is stored.
    async fn kill_three_times(&self, cause: &str) -> (Daemon, Vec<(Instant, Instant)>) {
        let (mut daemon, mut kills) = (self.start().await, Vec::new());
        for kill in 1..=3 {
            self.until_asked(kill).await;
            let next = self.next_probe(cause).await;
            daemon.signal("KILL").await;
            daemon.end(Duration::from_secs(10)).await;
            kills.push((Instant::now(), next));
            daemon = self.start().await;
            self.next_probe(cause).await;
        }
        (daemon, kills)
    }

    async fn until_asked(&self, times: usize) {
        until("PostHog is asked", || async { self.posthog.asked() >= times }).await;
    }

    /// The status shows why nothing arrives and when PostHog is asked again; not before this time.
    async fn next_probe(&self, cause: &str) -> Instant {
        let looked_at = Cell::new(Instant::now());
        let is_shown = |route: &serde_json::Value| {
            let says = route["down"].as_str().unwrap_or_default();
            let probe_s = route["probe_s"].as_f64();
            let is_shown = says.contains(cause) && probe_s.is_some_and(|wait| wait <= 1.1 * INTERVAL.as_secs_f64());
            if !is_shown {
                looked_at.set(Instant::now());
            }
            is_shown
        };
        let route = self.place.wait_for_route(ROUTE, is_shown).await;
        looked_at.get() + Duration::from_secs_f64(route["probe_s"].as_f64().unwrap())
    }

    /// At most one request per interval.
    fn assert_rare(&self, outage: Duration, kills: &[(Instant, Instant)]) {
        let requests = self.posthog.requests();
        let asked_at: Vec<Instant> = requests.iter().map(|request| request.at).collect();
        let since = |at: &Instant| at.duration_since(asked_at[0]);
        let shown: Vec<Duration> = asked_at.iter().map(since).collect();
        for (number, at) in shown.iter().enumerate() {
            let earliest = INTERVAL * u32::try_from(number).unwrap();
            assert!(*at + CLOCKS >= earliest, "probe {number} came early: {shown:?}");
        }
        for pair in shown.windows(2) {
            let apart = pair[1] - pair[0];
            assert!(apart + CLOCKS >= INTERVAL, "two probes in {apart:?}: {shown:?}");
        }
        for (killed, next) in kills {
            let first = asked_at.iter().find(|at| *at > killed).unwrap();
            let early = next.saturating_duration_since(*first);
            assert!(
                early < CLOCKS,
                "asked {early:?} before the stored time: {shown:?}, {kills:?}"
            );
        }
        // Each wait is longer by up to a tenth, and a take-over may make one longer.
        let fewest = outage.as_secs_f64() / (1.1 * INTERVAL.as_secs_f64()) / 2.0;
        assert!(shown.len() as f64 >= fewest, "it is hardly asked: {shown:?}");
        let sizes: Vec<usize> = requests[1..].iter().map(|request| request.events().len()).collect();
        assert!(sizes.iter().all(|size| *size == 1), "a probe is one event: {sizes:?}");
    }

    async fn stored(&self) -> BTreeSet<String> {
        let mut select = Query::select();
        select.column("event_id").from("user_activity_event");
        let rows = self.fresh.db().query_all(&select).await.unwrap();
        rows.iter().map(|row| row.try_get("", "event_id").unwrap()).collect()
    }
}

async fn an_outage_over_three_kills(fresh: Fresh, status: u16) {
    let scene = Scene::new(fresh).await;
    scene.posthog.script([Outcome::status(status), Outcome::Silence]);
    scene.posthog.always(Some(Outcome::status(status)));
    let outage = length(LENGTH_DEFAULT);
    let (cause, ends) = (status.to_string(), Instant::now() + outage);
    let (recorded, (daemon, kills)) = tokio::join!(scene.record(ends), scene.kill_three_times(&cause));
    scene.next_probe(&cause).await;
    scene.assert_rare(outage, &kills);
    scene.posthog.always(None);

    until("everything arrives", || async {
        scene.posthog.uuids().len() >= recorded.len()
    })
    .await;
    scene
        .place
        .wait_for_route(ROUTE, |route| route["down"].is_null() && route["backlog"] == 0)
        .await;
    daemon.stop().await;
    assert_eq!(scene.posthog.uuids(), recorded);
    assert_eq!(scene.stored().await, recorded, "what is stored is what was recorded");
    assert_eq!(
        scene.posthog.stored().len(),
        recorded.len(),
        "no duplicate by PostHog's own key"
    );
    assert_eq!(
        scene.posthog.seen().len(),
        recorded.len(),
        "each event was always the same"
    );
    let sent: usize = scene
        .posthog
        .requests()
        .iter()
        .map(|request| request.events().len())
        .sum();
    assert!(sent > recorded.len(), "some were sent again: {sent}");
    let status = scene.place.json(&["status"]).await;
    let dead = status["routes"].as_array().unwrap().iter().map(|route| &route["dead"]);
    assert!(dead.into_iter().all(|dead| *dead == 0), "{status}");
}

/// Tests that limit a time: `cargo xtask test` runs them one at a time, after all others.
mod alone {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn posthog_without_an_answer_is_asked_rarely_and_gets_everything_postgres() {
        an_outage_over_three_kills(fresh::postgres().await, 503).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn posthog_over_its_quota_is_asked_rarely_and_gets_everything_sqlite() {
        an_outage_over_three_kills(fresh::sqlite().await, 402).await;
    }
}
