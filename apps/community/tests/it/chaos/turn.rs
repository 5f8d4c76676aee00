//! Kills what can be killed, one after the other.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test harness: a panic fails the test"
)]

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use super::front::address;
use super::scene::Scene;

/// Between two faults, for clients to come back.
const PAUSE: Duration = Duration::from_millis(1_500);
/// How long something is away, in turns: too short for the hub to notice that it lost anything but its listener, and longer than
/// the hub keeps connections without what the instances share.
const AWAY: [Duration; 2] = [Duration::from_millis(300), Duration::from_secs(7)];

/// Kills and restarts both instances, Redis and RabbitMQ in turn, until the time is over and each was killed. Answers how often.
pub(super) async fn kill_in_turn(scene: &mut Scene, length: Duration) -> [u32; 4] {
    let (begun, mut kills) = (Instant::now(), [0; 4]);
    let mut turn = 0;
    while begun.elapsed() < length || kills.contains(&0) {
        sleep(PAUSE).await;
        let (at, away) = (turn % 4, AWAY[turn / 4 % 2]);
        match at {
            0 | 1 => kill_instance(scene, at, away).await,
            2 => {
                scene.redis.kill().unwrap();
                is_dead(&scene.redis.url()).await;
                sleep(away).await;
                scene.redis.restart().await.unwrap();
            }
            _ => {
                scene.rabbit.kill().unwrap();
                is_dead(&scene.rabbit.url()).await;
                sleep(away).await;
                scene.rabbit.restart().await.unwrap();
            }
        }
        kills[at] += 1;
        turn += 1;
    }
    kills
}

async fn kill_instance(scene: &mut Scene, at: usize, away: Duration) {
    let url = scene.world.url(at).to_owned();
    scene.world.kill(at);
    is_dead(&url).await;
    sleep(away).await;
    scene.world.start(at).await;
    scene.front.moved(at, scene.world.url(at));
}

/// It was really killed: nobody listens there.
async fn is_dead(url: &str) {
    assert!(TcpStream::connect(address(url)).await.is_err(), "{url} still answers");
}
