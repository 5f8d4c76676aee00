//! Everything that can be killed is killed in turn: two instances behind one address, Redis and RabbitMQ, while clients follow
//! notifications and rooms. Each client gets everything once and in order, and what it got is what the database has.
//!
//! The faults go on for 20 s, or for as many as `POSTROOM_TEST_FAULT_SECONDS` says; what happened is printed:
//! `POSTROOM_TEST_FAULT_SECONDS=120 cargo xtask test -- -p community --test it chaos -- --nocapture`.

mod client;
mod front;
mod scene;
mod turn;
mod verdict;
mod writer;

use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use tokio::time::Instant;

use crate::world::fault_time;
use scene::Scene;
use turn::kill_in_turn;
use verdict::Truth;
use writer::{comment, talk};

/// Clients of notifications, by member; each has a post on which others comment.
const NOTIFIED: std::ops::RangeInclusive<i64> = 1..=150;
/// Clients of rooms, by member.
const TALKING: std::ops::RangeInclusive<i64> = 151..=300;
const ROOMS: i64 = 15;
/// Members who send messages, each to some of the rooms.
const TALKERS: i64 = 5;
/// Members who comment on posts.
const COMMENTERS: i64 = 3;

/// They use all of the machine.
mod alone {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn n_05_n_10_every_client_gets_everything_once_and_in_order_while_all_is_killed_in_turn() {
        let length = fault_time(20);
        let mut scene = Scene::set().await;
        let clients = scene.clients().await;
        scene.vote_closes_in(length / 2).await;
        let talkers: Vec<_> = (0..TALKERS).map(|at| scene.talker(at)).collect();
        let commenters: Vec<_> = (0..COMMENTERS).map(|at| scene.commenter(at)).collect();
        let is_over = AtomicBool::new(false);
        let faults = async {
            let kills = kill_in_turn(&mut scene, length).await;
            is_over.store(true, Ordering::Relaxed);
            kills
        };
        let (said, confirmed, kills) = tokio::join!(
            join_all(talkers.iter().map(|(talker, rooms)| talk(talker, rooms, &is_over))),
            join_all(
                commenters
                    .iter()
                    .map(|(commenter, posts)| comment(commenter, posts, &is_over))
            ),
            Box::pin(faults)
        );
        let (over, said, confirmed) = (Instant::now(), said.iter().sum(), confirmed.iter().sum());
        let truth = Truth::settled(&scene.world, said, confirmed).await;
        let stored = over.elapsed();
        clients.until_all_have(&truth).await;
        println!(
            "{} s, killed {kills:?}: {said} messages, {confirmed} comments; stored {stored:.1?} and received {:.1?} after the end",
            length.as_secs(),
            over.elapsed()
        );
        clients.check(&truth);
        assert!(kills.iter().all(|count| *count > 0), "{kills:?}");
        scene.world.close().await;
    }
}
