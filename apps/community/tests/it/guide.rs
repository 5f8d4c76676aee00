//! Runs the walk-through of the guide exactly as the guide prints it.

use postroom_testkit::{fresh, walk};

use crate::world::World;

const GUIDE: &str = "docs/guide/community.md";

/// A second run prints the same output.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_walk_through_says_what_the_guide_says() {
    let world = World::on(fresh::sqlite().await).await;
    let (ada, bob) = (world.member(1), world.member(2));
    let script = walk::blocks(GUIDE, "walk-through");
    for _ in 0..2 {
        let variables = [
            ("AT", ada.client.0.as_str()),
            ("ADA", ada.token.as_str()),
            ("BOB", bob.token.as_str()),
        ];
        let said = walk::run_with(&script, variables).await.done();
        assert_eq!(said, walk::blocks(GUIDE, "walk-through-says"));
    }
    world.close().await;
}
