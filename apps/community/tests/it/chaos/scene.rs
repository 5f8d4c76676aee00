//! The scene: two instances on MariaDB behind one address, with a Redis and a RabbitMQ that can be killed, and everybody in it.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test harness: a panic fails the test, and what happened is shown"
)]

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use postroom_testkit::rabbitmq_server::{self, Server as RabbitServer};
use postroom_testkit::redis_server::{self, RedisServer};
use postroom_testkit::wait::until;
use postroom_testkit::{Client, fresh};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::client::{Entry, Log, Notifications, Rooms};
use super::front::Front;
use super::verdict::Truth;
use super::{COMMENTERS, NOTIFIED, ROOMS, TALKERS, TALKING};
use crate::world::{Member, Place, World, run};

/// Repeated frames would come within this time after the last one.
const QUIET: Duration = Duration::from_secs(2);

/// Two instances and what they need.
pub(super) struct Scene {
    pub(super) world: World,
    pub(super) front: Front,
    pub(super) redis: RedisServer,
    pub(super) rabbit: RabbitServer,
    posts: Vec<i64>,
    rooms: Vec<i64>,
}

/// The running clients. Dropping them ends them.
pub(super) struct Clients {
    logs: BTreeMap<i64, Log>,
    _running: JoinSet<()>,
}

impl Scene {
    /// With rooms and posts.
    pub(super) async fn set() -> Self {
        let (redis, rabbit) = tokio::join!(redis_server::redis(&[]), rabbitmq_server::rabbitmq());
        let place = Place::from(fresh::mysql().await).on_redis(redis.url());
        let world = World::with(place.through(rabbit.url()), 2, json!({})).await;
        let front = Front::of(&[world.url(0), world.url(1)]).await;
        let mut scene = Self {
            world,
            front,
            redis,
            rabbit,
            posts: Vec::new(),
            rooms: Vec::new(),
        };
        for room in 0..ROOMS {
            scene.rooms.push(scene.open_room(room).await);
        }
        let authors: Vec<Member> = NOTIFIED.map(|id| scene.member(id)).collect();
        scene.posts = join_all(authors.iter().map(|author| author.publish("Noodles"))).await;
        scene
    }

    /// A member who reaches whichever instance is there.
    pub(super) fn member(&self, id: i64) -> Member {
        Member {
            client: Client(self.front.url.clone()),
            ..self.world.member(id)
        }
    }

    /// A member who talks, and its rooms.
    pub(super) fn talker(&self, at: i64) -> (Member, Vec<i64>) {
        let rooms = (0..ROOMS).zip(&self.rooms);
        let own = rooms.filter(|(room, _)| room % TALKERS == at).map(|(_, id)| *id);
        (self.member(1_000 + at), own.collect())
    }

    /// A member who comments on some of the posts.
    pub(super) fn commenter(&self, at: i64) -> (Member, Vec<i64>) {
        let posts = (0..).zip(&self.posts);
        let own = posts.filter(|(post, _)| post % COMMENTERS == at).map(|(_, id)| *id);
        (self.member(2_000 + at), own.collect())
    }

    async fn open_room(&self, room: i64) -> i64 {
        let notified = NOTIFIED.filter(|id| id % ROOMS == room);
        let talking = TALKING.filter(|id| rooms_of(*id).contains(&room));
        let members: Vec<i64> = notified.chain(talking).collect();
        let wanted = json!({ "name": "Lunch", "memberIds": members });
        let owner = self.member(1_000 + room % TALKERS);
        let opened = owner.post("/api/chat/rooms", wanted).await.created();
        opened["roomId"].as_i64().unwrap()
    }

    /// All clients, when they are connected.
    pub(super) async fn clients(&self) -> Clients {
        let (mut logs, mut running) = (BTreeMap::new(), JoinSet::new());
        for id in NOTIFIED.chain(TALKING) {
            let (log, member) = (Log::default(), self.member(id));
            let (url, token) = (member.client.0, member.token);
            match NOTIFIED.contains(&id) {
                true => running.spawn(Notifications::new(url, token, log.clone()).run()),
                false => {
                    let rooms = rooms_of(id).map(|room| self.rooms[usize::try_from(room).unwrap()]);
                    running.spawn(Rooms::new(url, token, log.clone(), rooms).run())
                }
            };
            logs.insert(id, log);
        }
        until("all clients are connected", || async {
            logs.values().all(|log| log.seen().is_open)
        })
        .await;
        Clients {
            logs,
            _running: running,
        }
    }

    /// Opens a vote in which all who are notified take part.
    pub(super) async fn vote_closes_in(&self, time: Duration) {
        let closes_at = (postroom::clock::now() + time).unix_timestamp_nanos() / 1_000_000;
        let wanted = json!({
            "question": "Lunch?",
            "options": ["김밥", "라면"],
            "closesAt": i64::try_from(closes_at).unwrap(),
        });
        let author = self.member(*NOTIFIED.start());
        let vote = author.post("/community/votes", wanted).await.created()["voteId"].clone();
        let ballots: Vec<String> = NOTIFIED.map(|id| format!("({vote}, {id}, 1, 0)")).collect();
        let insert = "insert into community_ballot (vote_id, member_id, option_number, cast_ms) values";
        run(&self.world.fresh, &format!("{insert} {}", ballots.join(", "))).await;
    }
}

/// The two rooms that a member follows.
fn rooms_of(id: i64) -> [i64; 2] {
    [id % ROOMS, (id + 7) % ROOMS]
}

impl Clients {
    /// Waits until each has as much as the database, and a little longer.
    pub(super) async fn until_all_have(&self, truth: &Truth) {
        until("all clients have everything", || async {
            let has = |(id, log): (&i64, &Log)| {
                let mut wanted = truth.of(*id).into_iter();
                wanted.all(|(stream, entries)| log.last(stream) >= entries.last().map_or(0, |entry| entry.seq))
            };
            self.logs.iter().all(has)
        })
        .await;
        sleep(QUIET).await;
    }

    /// Each was interrupted, and has seen exactly what the database has.
    pub(super) fn check(&self, truth: &Truth) {
        let (mut interruptions, mut frames) = (Vec::new(), 0);
        for (id, log) in &self.logs {
            let seen = log.seen();
            assert_eq!(seen.surprises, Vec::<String>::new(), "member {id}");
            for (stream, wanted) in truth.of(*id) {
                let found = seen.streams.get(&stream).map_or(&[][..], Vec::as_slice);
                let differs = found.iter().zip(wanted).position(|(found, wanted)| found != wanted);
                let differs = differs.unwrap_or(found.len().min(wanted.len()));
                let around = |entries: &[Entry]| -> Vec<i64> {
                    let near = entries.iter().skip(differs.saturating_sub(2)).take(5);
                    near.map(|entry| entry.seq).collect()
                };
                assert!(
                    found == wanted,
                    "member {id}, {stream:?}: {} events of {}, the first other one at {differs}: {:?} for {:?}",
                    found.len(),
                    wanted.len(),
                    around(found),
                    around(wanted)
                );
                frames += found.len();
            }
            interruptions.push(seen.interruptions);
        }
        interruptions.sort_unstable();
        println!(
            "{frames} frames at {} clients, each interrupted {} to {} times",
            self.logs.len(),
            interruptions[0],
            interruptions[interruptions.len() - 1]
        );
        assert!(interruptions[0] > 0, "each client was interrupted: {interruptions:?}");
    }
}
