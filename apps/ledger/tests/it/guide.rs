//! Runs the walk-through of the guide exactly as the guide prints it.

use postroom::operate;
use postroom_testkit::wait::until;
use postroom_testkit::{fresh, walk};

use crate::books;
use crate::world::World;

const GUIDE: &str = "docs/guide/ledger.md";

/// A second run on the same ledger prints the same output.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_walk_through_says_what_the_guide_says() {
    let world = World::on(fresh::sqlite().await).await;
    let url = format!("{}/ledger", world.client.0.0);
    for _ in 0..2 {
        let said = walk::run(&walk::blocks(GUIDE, "walk-through"), ("LEDGER", &url))
            .await
            .done();
        assert_eq!(said, walk::blocks(GUIDE, "walk-through-says"));
    }
    books::settle(&world.fresh).await;
    world.close().await;
}

/// The audit route is paused: the walk-through ends with an error instead of waiting forever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_walk_through_ends_when_nothing_comes() {
    let world = World::on(fresh::sqlite().await).await;
    let is_paused = || async {
        operate::set_paused(&*world.fresh, "ledger-audit", true, "test")
            .await
            .is_ok()
    };
    until("the route exists", is_paused).await;
    let at_once = format!("sleep() {{ :; }}\n{}", walk::blocks(GUIDE, "walk-through"));
    let walked = walk::run(&at_once, ("LEDGER", &format!("{}/ledger", world.client.0.0))).await;
    assert!(!walked.is_done, "{}", walked.said);
    assert!(
        walked.complained.contains("of 5 events only 0 are processed"),
        "{}",
        walked.complained
    );
    world.close().await;
}
