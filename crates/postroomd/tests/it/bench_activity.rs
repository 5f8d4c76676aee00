//! `postroom bench ingest` and `postroom bench collect`: short runs, which check themselves.

#![expect(clippy::indexing_slicing, reason = "what goes wrong fails the test")]

use postroom_testkit::{Fresh, fresh};

use crate::bench::{are_numbers, are_positive};
use crate::broker::variable;
use crate::harness::Place;

async fn ingests(fresh: Fresh) {
    let (place, store) = (Place::new(), fresh.url());
    let flags = [
        "bench",
        "ingest",
        "--events",
        "2000",
        "--clients",
        "3",
        "--store",
        &store,
    ];
    let document = place.json(&flags).await;
    are_positive(
        &document,
        &[
            "events_per_s",
            "limit_events_per_s",
            "ratio_to_limit",
            "p50_ms",
            "p99_ms",
        ],
    );
    are_numbers(&document, &["process_cpu_percent", "clients_cpu_percent", "again"]);
    let counts = ["stored", "duplicates", "dropped"].map(|key| document[key].as_u64());
    // Of 20 requests, the first of each client repeats no earlier one.
    assert_eq!(counts, [Some(1_880), Some(34), Some(20)], "{document}");
    assert!(
        document["limited_by"].as_str().is_some_and(|by| by.contains('%')),
        "{document}"
    );
    place.json(&flags).await; // the tables of the first run are gone
}

async fn collects(fresh: Fresh, rounds: u64, redis: &[&str]) {
    let (place, store, rounds_flag) = (Place::new(), fresh.url(), rounds.to_string());
    let flags = ["bench", "collect", "--requests", "150", "--rounds", &rounds_flag];
    let document = place.json(&[&flags[..], &["--store", &store], redis].concat()).await;
    are_positive(
        &document,
        &[
            "off_p50_ms",
            "off_p99_ms",
            "broken_p50_ms",
            "broken_p99_ms",
            "p99_ratio",
        ],
    );
    let counts = ["requests", "failed", "arrived", "searches_dropped"].map(|key| document[key].as_u64());
    // Each round begins with 30 requests that are not measured.
    let arrived = Some(150 + 30 * rounds);
    assert_eq!(counts, [Some(150), Some(0), arrived, Some(0)], "{document}");
}

/// They use all of the machine.
mod alone {
    use super::*;

    #[tokio::test]
    async fn bench_ingest_stores_exactly_the_valid_events_sqlite() {
        ingests(fresh::sqlite().await).await;
    }

    #[tokio::test]
    async fn bench_ingest_stores_exactly_the_valid_events_postgres() {
        ingests(fresh::postgres().await).await;
    }

    #[tokio::test]
    async fn bench_ingest_stores_exactly_the_valid_events_mariadb() {
        ingests(fresh::mysql().await).await;
    }

    #[tokio::test]
    async fn bench_collect_loses_nothing_sqlite() {
        collects(fresh::sqlite().await, 1, &[]).await;
    }

    #[tokio::test]
    async fn bench_collect_loses_nothing_redis_and_postgres() {
        let redis = variable("POSTROOM_TEST_REDIS_URL");
        collects(fresh::postgres().await, 5, &["--redis", &redis]).await;
    }
}
