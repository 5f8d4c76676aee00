//! Numbers of comments: shown at once, flushed exactly, whatever fails.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test harness: a panic fails the test"
)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use postroom_testkit::foreign::redis_cli;
use postroom_testkit::redis_server::{self, RedisServer};
use postroom_testkit::wait::until;
use postroom_testkit::{fresh, server};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::world::{Member, Place, World, fault_time, on_every_way, run};

on_every_way! {
    n_12_a_comment_is_counted_at_once_and_flushed_within_seconds
    n_12_a_comment_is_deleted_once_and_by_its_author_alone
    n_12_old_changes_are_removed_and_counts_stay_checked
    n_12_a_flusher_that_was_killed_before_it_settled_is_made_good_for
}

/// The sum of all batches, and how many changes are in none.
async fn batches(world: &World) -> (i64, i64) {
    let sum = match world.fresh.db().get_database_backend() {
        sea_orm::DbBackend::MySql => "select cast(coalesce(sum(delta_sum), 0) as signed) as n from count_batches",
        _ => "select cast(coalesce(sum(delta_sum), 0) as bigint) as n from count_batches",
    };
    let open = "select count(*) as n from comment_change where batch_id is null";
    (world.number(sum).await, world.number(open).await)
}

async fn until_flushed(world: &World) {
    until("every change is in a batch, and every batch is settled", || async {
        let unsettled = "select count(*) as n from count_batches where settled_ms is null";
        batches(world).await.1 == 0 && world.number(unsettled).await == 0
    })
    .await;
}

async fn shown(member: &Member, post: i64) -> (i64, i64) {
    let post = member.look(&format!("/community/posts/{post}")).await;
    (
        post["commentCount"].as_i64().unwrap(),
        post["commentOverlay"].as_i64().unwrap(),
    )
}

async fn n_12_a_comment_is_counted_at_once_and_flushed_within_seconds(place: Place) {
    let world = World::on(place).await;
    let ada = world.member(1);
    let (post, other) = (ada.publish("Noodles").await, ada.publish("Rice").await);
    assert_eq!(shown(&ada, post).await, (0, 0));
    let mut comments = Vec::new();
    for number in 0..5 {
        comments.push(ada.comment(post, &number.to_string()).await);
    }
    until("they are shown", || async { shown(&ada, post).await.0 == 5 }).await;
    ada.delete(&format!("/community/comments/{}", comments[0])).await.ok();
    until("the deleted one is not", || async { shown(&ada, post).await.0 == 4 }).await;
    until_flushed(&world).await;
    assert_eq!(shown(&ada, post).await, (4, 0), "in the row, and nowhere else");
    assert_eq!(shown(&ada, other).await, (0, 0));
    assert_eq!(batches(&world).await, (4, 0));
    let listed = ada.look("/community/posts").await;
    assert_eq!(listed["posts"][1]["commentCount"], 4);
    let shown = ada.look(&format!("/community/posts/{post}/comments?limit=3")).await;
    let bodies: Vec<&str> = shown["comments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["body"].as_str().unwrap())
        .collect();
    assert_eq!(bodies, ["4", "3", "2"], "newest first");
    let rest = ada
        .look(&format!(
            "/community/posts/{post}/comments?limit=3&before={}",
            shown["next"]
        ))
        .await;
    assert_eq!(rest["comments"].as_array().unwrap().len(), 1);
    assert_eq!(rest["next"], Value::Null);
    world.close().await;
}

async fn n_12_a_comment_is_deleted_once_and_by_its_author_alone(place: Place) {
    let world = World::on(place).await;
    let (ada, bob) = (world.member(1), world.member(2));
    let post = ada.publish("Noodles").await;
    let comment = format!("/community/comments/{}", bob.comment(post, "first").await);
    let refused = ada.delete(&comment).await; // also by the author of the post
    assert_eq!((refused.status, refused.code()), (403, "not_your_comment"));
    let deletes = (0..8).map(|_| bob.delete(&comment));
    for answer in join_all(deletes).await {
        assert_eq!(answer.status, 204);
    }
    assert_eq!(bob.delete("/community/comments/999999").await.status, 404);
    for (body, says) in [
        (json!({ "body": " " }), "body is empty"),
        (
            json!({ "body": "x".repeat(1_001) }),
            "body has 1001 characters, the limit is 1000",
        ),
        (
            json!({ "body": "a\u{0}b" }),
            "body contains a NUL character, which cannot be stored",
        ),
    ] {
        let refused = bob.post(&format!("/community/posts/{post}/comments"), body).await;
        assert_eq!((refused.status, refused.body["detail"].as_str()), (422, Some(says)));
    }
    let unknown = bob
        .post("/community/posts/999999/comments", json!({ "body": "x" }))
        .await;
    assert_eq!((unknown.status, unknown.code()), (404, "not_found"));
    until_flushed(&world).await;
    assert_eq!(shown(&ada, post).await, (0, 0));
    assert_eq!(world.number("select count(*) as n from comment_change").await, 2);
    world.close().await;
}

async fn n_12_old_changes_are_removed_and_counts_stay_checked(place: Place) {
    let world = World::on(place).await;
    let ada = world.member(1);
    let post = ada.publish("Noodles").await;
    for number in 0..6 {
        ada.comment(post, &number.to_string()).await;
    }
    until_flushed(&world).await;
    ada.comment(post, "last").await;
    until_flushed(&world).await;
    run(&world.fresh, "update comment_change set created_ms = 0").await;
    run(&world.fresh, "update count_batches set created_ms = 0").await;
    world.until_removed("comment_change").await;
    until("one batch stands for all", || async {
        world.number("select count(*) as n from count_batches").await == 1
    })
    .await;
    assert_eq!(batches(&world).await, (7, 0));
    ada.comment(post, "again").await;
    until_flushed(&world).await;
    assert_eq!(shown(&ada, post).await, (8, 0));
    assert_eq!(batches(&world).await, (8, 0));
    assert_eq!(drift(&world).await, 0);
    // The check can fail: a count that is wrong is found.
    run(
        &world.fresh,
        "update community_post set comment_count = comment_count + 2",
    )
    .await;
    assert_eq!(drift(&world).await, 2);
    world.close().await;
}

/// By how much counts differ from the sums of their changes.
async fn drift(world: &World) -> i64 {
    let sums = "select coalesce(sum(delta), 0) from comment_change where batch_id is not null and post_id = p.post_id";
    let integer = match world.fresh.db().get_database_backend() {
        sea_orm::DbBackend::MySql => "signed",
        _ => "bigint",
    };
    let sql = format!(
        "select cast(sum(abs(comment_count - comment_base - ({sums}))) as {integer}) as n from community_post p"
    );
    world.number(&sql).await
}

/// The batch is committed, and its changes are still in the tally: nothing is shown twice, and the next run settles it.
async fn n_12_a_flusher_that_was_killed_before_it_settled_is_made_good_for(place: Place) {
    let world = World::on(place).await;
    let ada = world.member(1);
    let post = ada.publish("Noodles").await;
    for number in 0..3 {
        ada.comment(post, &number.to_string()).await;
    }
    until_flushed(&world).await;
    let counter = format!("count:comment:delta:{{{post}}}");
    let change = postroom_shared::tally::Change {
        counter: counter.clone(),
        id: "killed".to_owned(),
        delta: 5,
    };
    world.shared().tally.add(&[change]).await.unwrap();
    assert_eq!(shown(&ada, post).await, (8, 5), "what the tally has is shown");
    let killed = "insert into comment_change (event_id, post_id, delta, created_ms, batch_id) \
                  select 'killed', post_id, 5, created_ms, batch_id from community_post";
    run(&world.fresh, killed).await;
    run(
        &world.fresh,
        "update community_post set comment_count = comment_count + 5",
    )
    .await;
    run(
        &world.fresh,
        "update count_batches set settled_ms = null, delta_sum = delta_sum + 5",
    )
    .await;
    for _ in 0..20 {
        assert_eq!(shown(&ada, post).await.0, 8, "never twice");
    }
    until_flushed(&world).await;
    assert_eq!(shown(&ada, post).await, (8, 0));
    assert_eq!(world.shared().tally.read(&[counter]).await.unwrap(), [0]);
    world.close().await;
}

const WRITERS: i64 = 100;
const POSTS: usize = 5;

mod storm {
    use super::*;

    /// Writers on few posts, on a MariaDB and a Redis of this test alone. The log of the database shows every statement.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn n_13_a_hundred_writers_leave_exact_counts_through_faults_and_without_a_deadlock_on_mariadb() {
        let database = server::mariadb(&["general-log=1", "log-output=TABLE"]).await;
        let mut redis = redis_server::redis(&["--appendonly", "no"]).await;
        let place = Place::from(fresh::mysql_on(&database.url()).await);
        let world = storm(place, &mut redis).await;
        let deadlocks = "select cast(variable_value as signed) as n from information_schema.global_status \
                         where variable_name = 'INNODB_DEADLOCKS'";
        assert_eq!(world.number(deadlocks).await, 0, "deadlocks");
        // This statement is in the log too: it does not contain itself.
        let counted = "select count(*) as n from mysql.general_log where argument like '%unt(%' \
                       and argument like '%community\\_comment%' and argument not like '%general\\_log%' \
                       and argument not like '%/* test */%'";
        assert_eq!(world.number(counted).await, 0, "statements that count comments");
        let known = "select count(*) as n from mysql.general_log where argument like '%community\\_comment%'";
        assert!(world.number(known).await > 100, "the log has the statements");
        finish(world).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn n_13_a_hundred_writers_leave_exact_counts_through_faults_and_without_a_deadlock_on_postgres() {
        let mut redis = redis_server::redis(&["--appendonly", "no"]).await;
        let world = storm(fresh::postgres().await.into(), &mut redis).await;
        let deadlocks = "select deadlocks as n from pg_stat_database where datname = current_database()";
        assert_eq!(world.number(deadlocks).await, 0, "deadlocks");
        finish(world).await;
    }
}

/// Writers write and delete while Redis is emptied, restored from an old state and killed, and instances, with their flushers, are
/// killed.
async fn storm(place: Place, redis: &mut RedisServer) -> World {
    let mut world = World::with(place.on_redis(redis.url()), 2, json!({ "flush_interval_ms": 500 })).await;
    let author = world.member(1);
    let mut posts = Vec::new();
    for number in 0..POSTS {
        posts.push(author.publish(&number.to_string()).await);
    }
    let writers: Vec<Member> = (0..WRITERS).map(|id| world.member(100 + id)).collect();
    let is_over = AtomicBool::new(false);
    let (written, lowest, ()) = tokio::join!(
        join_all(writers.iter().map(|writer| write(writer, &posts, &is_over))),
        watch(&author, &posts, &is_over),
        async {
            break_things(&mut world, redis).await;
            is_over.store(true, Ordering::Relaxed);
        }
    );
    assert!(lowest >= 0, "a count of {lowest} was shown");
    let written: i64 = written.into_iter().sum();
    assert!(written > WRITERS, "{written}");
    world
}

/// Writes and deletes until the end; answers how often. Each request is answered with a success.
async fn write(writer: &Member, posts: &[i64], is_over: &AtomicBool) -> i64 {
    let (mut turn, mut own) = (usize::try_from(writer.id).unwrap(), Vec::new());
    let mut count = 0;
    while !is_over.load(Ordering::Relaxed) {
        turn += 1;
        if turn.is_multiple_of(3) && !own.is_empty() {
            let comment: i64 = own.swap_remove(turn % own.len());
            assert_eq!(
                writer.delete(&format!("/community/comments/{comment}")).await.status,
                204
            );
        } else {
            own.push(writer.comment(posts[turn * 7 % posts.len()], "맛있다").await);
        }
        count += 1;
    }
    count
}

/// Reads the counts until the end; answers the lowest.
async fn watch(reader: &Member, posts: &[i64], is_over: &AtomicBool) -> i64 {
    let mut lowest = 0;
    while !is_over.load(Ordering::Relaxed) {
        for post in posts {
            lowest = lowest.min(reader.comment_count(*post).await);
        }
        sleep(Duration::from_millis(20)).await;
    }
    lowest
}

/// The requests go to the first instance. The second one, which may have the job, is killed and started again and again.
/// `POSTROOM_TEST_FAULT_SECONDS=60` makes it the minute of the specification.
async fn break_things(world: &mut World, redis: &mut RedisServer) {
    let end = Instant::now() + fault_time(15);
    let mut turn = 0;
    command(redis, "SAVE");
    while Instant::now() < end {
        sleep(Duration::from_millis(700)).await;
        match turn % 5 {
            0 => command(redis, "FLUSHALL"),
            1 => world.kill(1),
            2 => world.start(1).await,
            3 => command(redis, "SAVE"), // the state that comes back with the next restart
            _ => {
                redis.kill().unwrap();
                redis.restart().await.unwrap();
            }
        }
        turn += 1;
    }
    world.start(1).await;
}

/// Runs a command on Redis, as an operator would.
fn command(redis: &RedisServer, command: &str) {
    redis_cli(&redis.url(), &[command]);
}

/// When all is quiet: every count is the number of comments, of their changes, and of the batches.
async fn finish(world: World) {
    until_flushed(&world).await;
    let reader = world.member(1);
    let mut total = 0;
    for post in 1..=POSTS {
        let live = format!(
            "select count(*) /* test */ as n from community_comment where post_id = {post} and deleted_ms is null"
        );
        let (live, row) = (
            world.number(&live).await,
            world
                .number(&format!(
                    "select comment_count as n from community_post where post_id = {post}"
                ))
                .await,
        );
        assert_eq!(row, live, "the row of post {post}");
        // A restored tally may repeat changes that the posts already contain. It forgets them after a minute.
        until("what is shown is exact", || async {
            shown(&reader, post as i64).await == (live, 0)
        })
        .await;
        total += live;
    }
    assert_eq!(batches(&world).await, (total, 0));
    assert_eq!(drift(&world).await, 0);
    world.close().await;
}
