//! Clauses about several relays on one database.

use postroom::{ErrorKind, Job, Relay, Subscriber, table};
use sea_orm::{ConnectionTrait, DbBackend};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::fixture::{Office, Scripted};
use crate::Fresh;

/// Of two relays one works the route; the other waits.
pub async fn one_relay_works_a_route_at_a_time(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let (first, second) = (Scripted::new("s"), Scripted::new("s"));
    office.start(office.relay().subscriber(first.subscriber(3)));
    office.start(office.relay().subscriber(second.subscriber(3)));
    let notes: Vec<String> = (0..50).map(|n| format!("{n:02}")).collect();
    for note in &notes {
        office.emit(&[("a", note)]).await;
    }
    office
        .expect("s", &notes.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    let calls = |script: &Scripted| notes.iter().map(|note| script.calls(note)).sum::<usize>();
    assert_eq!(calls(&first) + calls(&second), notes.len());
    assert!(calls(&first) == 0 || calls(&second) == 0, "both worked the route");
    office.stop().await;
}

/// When the holder stops, it gives its lease back and the other goes on.
pub async fn a_second_relay_takes_over_when_the_first_stops(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    office.start(
        office
            .relay()
            .lease_ttl(Duration::from_secs(600))
            .subscriber(Scripted::new("s").subscriber(3)),
    );
    office.emit(&[("a", "one")]).await;
    office.expect("s", &["one"]).await;
    office.stop().await; // a lease of ten minutes that was not given back would fail this test
    office.start(office.relay().subscriber(Scripted::new("s").subscriber(3)));
    office.emit(&[("a", "two")]).await;
    office.expect("s", &["one", "two"]).await;
    office.stop().await;
}

/// A relay that stops gives its leases back at once, also while a job of its own goes on.
pub async fn a_job_that_takes_long_keeps_no_lease(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let (is_running, may_end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begun, end) = (Arc::clone(&is_running), Arc::clone(&may_end));
    let job = Job::every("long", Duration::from_millis(50), move |_outbox| {
        let (begun, end) = (Arc::clone(&begun), Arc::clone(&end));
        async move {
            begun.notify_one();
            end.notified().await;
            Ok(1)
        }
    });
    let relay = office.relay().lease_ttl(Duration::from_secs(600)).job(job);
    let (first, stop) = (
        relay.subscriber(Scripted::new("s").subscriber(3)).relay(),
        CancellationToken::new(),
    );
    let mut firsts = JoinSet::new();
    firsts.spawn(first.run(stop.clone()));
    office.emit(&[("a", "one")]).await;
    office.expect("s", &["one"]).await;
    is_running.notified().await;
    stop.cancel();
    office.start(office.relay().subscriber(Scripted::new("s").subscriber(3)));
    office.emit(&[("a", "two")]).await;
    office.expect("s", &["one", "two"]).await;
    assert!(firsts.try_join_next().is_none(), "the job is at its end already");
    may_end.notify_one();
    let ended = firsts.join_next().await.expect("the first relay");
    ended.expect("no panic").expect("what had begun is finished");
    office.stop().await;
}

/// A relay whose lease was taken (its epoch is not the current one) settles nothing, stops, and leaves the work to the other.
pub async fn a_deposed_relay_stops_itself(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let deposed = Scripted::new("s");
    let relay = office.relay().lease_ttl(Duration::from_secs(600));
    office.start(relay.subscriber(deposed.subscriber(3)));
    office.emit(&[("a", "one")]).await;
    office.expect("s", &["one"]).await;
    let cursor = format!("{}outbox_cursor", office.prefix());
    office
        .execute(&format!(
            "update {cursor} set epoch = epoch + 1, owner = 'somebody else'"
        ))
        .await;
    office.emit(&[("a", "two")]).await;
    office
        .until("the deposed relay has tried", async || deposed.calls("two") > 0)
        .await;
    office.stop().await; // what it has begun is at its end
    assert_eq!(office.effects("s").await, ["one"], "a deposed relay has no effect");
    let others = format!("select count(*) from {cursor} where owner = 'somebody else'");
    assert_eq!(
        office.number(&others).await,
        1,
        "it gave back a lease that was not its own"
    );
    office.execute(&format!("update {cursor} set owner = null")).await;
    office.start(office.relay().subscriber(Scripted::new("s").subscriber(3)));
    office.expect("s", &["one", "two"]).await;
    office.stop().await;
}

/// A route whose number of shards was changed is refused with the way out, because its keys would change cursors.
pub async fn the_number_of_shards_cannot_change(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    office.start(office.relay().subscriber(Scripted::new("s").subscriber(3)));
    office.emit(&[("a", "one")]).await;
    office.expect("s", &["one"]).await;
    office.stop().await;
    let relay = office.relay().subscriber(Subscriber {
        shards: 2,
        ..Scripted::new("s").subscriber(3)
    });
    let error = relay.relay().run(CancellationToken::new()).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(
        error
            .to_string()
            .contains("has 1 shards in the database and 2 in the configuration"),
        "{error}"
    );
}

/// Two routes of one name would share their progress: refused.
pub async fn two_routes_of_one_name_are_refused(fresh: Fresh) {
    let outbox: Arc<dyn postroom::Outbox> = fresh.store();
    let relay = Relay::new(outbox)
        .subscriber(Scripted::new("s").subscriber(3))
        .subscriber(Scripted::new("s").subscriber(3));
    let error = relay.run(CancellationToken::new()).await.expect_err("refused");
    assert!(error.to_string().contains("two routes are named \"s\""), "{error}");
}

/// A group with the name under which the inbox keeps what was accepted from outside would skip all of that: refused.
pub async fn a_group_named_as_the_inbox_needs_it_is_refused(fresh: Fresh) {
    let outbox: Arc<dyn postroom::Outbox> = fresh.store();
    let relay = Relay::new(outbox).subscriber(Scripted::new("accepted").subscriber(3));
    let ended = tokio::time::timeout(Duration::from_secs(10), relay.run(CancellationToken::new())).await;
    let error = ended.expect("it does not begin to work").expect_err("refused");
    assert!(error.to_string().contains("may be named \"accepted\""), "{error}");
}

/// A subscriber whose pattern can match nothing would pass every event in silence.
pub async fn a_misspelt_pattern_is_refused(fresh: Fresh) {
    for pattern in ["", "suite.noted*", "suite.**.v1"] {
        let subscriber = Subscriber::matching("s", [pattern], Scripted::new("s"));
        let outbox: Arc<dyn postroom::Outbox> = fresh.store();
        let running = Relay::new(outbox).subscriber(subscriber).run(CancellationToken::new());
        let ended = tokio::time::timeout(Duration::from_secs(10), running).await;
        let error = ended
            .expect("it does not begin to work")
            .expect_err("refused")
            .to_string();
        assert!(
            error.contains("\"s\"") && error.contains(&format!("{pattern:?}")),
            "{error}"
        );
    }
}

/// A lease that cannot be taken, because somebody has locked its row, keeps the process neither from the leases it has nor
/// from others.
pub async fn a_lease_that_cannot_be_taken_holds_up_no_other(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let relay = |office: &Office| {
        let relay = office.relay().lease_ttl(Duration::from_secs(3));
        ["a", "b", "c"]
            .into_iter()
            .fold(relay, |relay, who| relay.subscriber(Scripted::new(who).subscriber(3)))
    };
    let mut notes = vec!["0".to_owned(), "1".to_owned()];
    office.start(relay(&office));
    office.emit(&[("k", "0")]).await;
    office.expect("b", &["0"]).await;
    office.stop().await;
    let cursor = format!("{}outbox_cursor", office.prefix());
    let soon = match office.fresh.db().get_database_backend() {
        DbBackend::Postgres => "clock_timestamp() + interval '20 seconds'",
        _ => "timestampadd(second, 20, utc_timestamp(6))",
    };
    let other = format!("update {cursor} set owner = 'somebody else', expires_at = {soon} where route = 'b'");
    office.execute(&other).await;
    let taken = Instant::now();
    office.start(relay(&office));
    office.emit(&[("k", "1")]).await;
    office.expect("c", &["0", "1"]).await;
    let lock = table::begin(office.fresh.db()).await.expect("begin");
    let row = format!("update {cursor} set is_paused = is_paused where route = 'b' and owner = 'somebody else'");
    let locked = lock.execute_unprepared(&row).await.expect("lock a lease");
    assert_eq!(locked.rows_affected(), 1, "the lease ran out before it was locked");
    while taken.elapsed() < Duration::from_secs(26) {
        notes.push(notes.len().to_string());
        office.emit(&[("k", notes[notes.len() - 1].as_str())]).await;
        let all: Vec<&str> = notes.iter().map(String::as_str).collect();
        office.expect("a", &all).await;
        office.expect("c", &all).await;
    }
    lock.rollback().await.expect("let go");
    office
        .expect("b", &notes.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    office.stop().await;
}
