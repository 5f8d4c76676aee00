//! Databases and brokers that are not there: told soon, with the address and without the password.

use std::time::{Duration, Instant};

use crate::harness::Place;

/// A pool would wait ten seconds before it gives up.
const SOON: Duration = Duration::from_secs(8);

#[tokio::test]
async fn a_database_that_refuses_is_told_soon() {
    let place = Place::new();
    for (kind, store) in [
        ("PostgreSQL", "postgres://app:s3cret@127.0.0.1:1/app"),
        ("MySQL", "mysql://app:s3cret@127.0.0.1:1/app"),
    ] {
        let begun = Instant::now();
        let said = place.fails(&["status", "--store", store]).await;
        assert!(begun.elapsed() < SOON, "{kind} took {:?}", begun.elapsed());
        for part in ["app@127.0.0.1:1/app", kind, "start the server", "Connection refused"] {
            assert!(said.contains(part), "{part} is not in {said}");
        }
        assert!(!said.contains("s3cret"), "{said}");
    }
}

/// A broker that is away says nothing about Postroom: no verdict is printed.
#[tokio::test]
async fn verify_tells_a_broker_that_is_away() {
    let place = Place::new();
    for broker in [
        "redis://:s3cret@127.0.0.1:1/",
        "amqp://me:s3cret@127.0.0.1:1/",
        "kafka://127.0.0.1:1",
    ] {
        let said = place.run(&["verify", "--seconds", "1", "--through", broker]).await;
        assert_eq!((said.code, said.out.as_str()), (Some(1), ""), "{broker}: {}", said.err);
        assert!(said.err.contains("could not be reached"), "{}", said.err);
        assert!(
            said.err.contains("127.0.0.1:1") && !said.err.contains("s3cret"),
            "{}",
            said.err
        );
        assert!(!said.err.contains("contract"), "{}", said.err);
    }
}
