//! Clauses about what operators and time do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use postroom::dead::Selection;
use postroom::operate::token::{self, NewToken, Role, Scope};
use postroom::operate::{self, DeliveryState, NextStep, ReasonKind};
use postroom::{DomainEvent, ErrorKind, Fault, Job, Subscriber, Trouble, When, clock, migration, table};
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbBackend, TransactionTrait};
use uuid::Uuid;

use super::fixture::{Noted, Office, Scripted, noted};
use crate::Fresh;

/// A scheduled event waits for its time, also through a restart, and is then delivered.
pub async fn a_scheduled_event_is_released_when_it_is_due(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let tx = table::begin(office.fresh.db()).await.expect("begin");
    let due = clock::now() + Duration::from_secs(2);
    postroom::emit_at(&tx, &noted("a", "later"), due)
        .await
        .expect("schedule");
    tx.commit().await.expect("commit");
    office.start(office.relay().subscriber(Scripted::new("s").subscriber(3)));
    office.emit(&[("a", "now")]).await;
    office.expect("s", &["now"]).await;
    office.stop().await;
    office.start(office.relay().subscriber(Scripted::new("s").subscriber(3)));
    office.expect("s", &["now", "later"]).await;
    let late = clock::now() - due;
    assert!(
        late > time::Duration::milliseconds(-50),
        "released {late} before its time"
    );
    let entries = operate::newest(&*office.store(), &[Noted::TYPE], 1)
        .await
        .expect("entries");
    let late = entries[0].created_at - due;
    assert!(
        late < time::Duration::seconds(5),
        "it entered the outbox {late} after its time"
    );
    office.stop().await;
    assert_eq!(office.number("select count(*) from postroom.outbox_scheduled").await, 0);
}

/// A process that dies while it releases what is due holds that up for seconds only. (Here a lock keeps the event from entering
/// the outbox, so that the process dies in the middle.)
pub async fn what_is_due_is_released_soon_after_a_crash(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let tx = table::begin(office.fresh.db()).await.expect("begin");
    postroom::emit_at(&tx, &noted("a", "due"), clock::now())
        .await
        .expect("schedule");
    tx.commit().await.expect("commit");
    let lock = lock_out_emitters(&office).await;
    office.start(office.relay().subscriber(Scripted::new("s").subscriber(3)));
    let claimed = "select count(*) from postroom.outbox_job where name = 'schedule' and claimed_until is not null";
    office
        .until("it is about to be released", async || office.number(claimed).await == 1)
        .await;
    office.abort().await;
    lock.rollback().await.expect("let go");
    assert_eq!(office.number(claimed).await, 1, "it did not die in the middle");
    office.start(office.relay().subscriber(Scripted::new("s").subscriber(3)));
    office.expect("s", &["due"]).await;
    office.stop().await;
}

/// A row that a plain statement has spoiled stays on the schedule, and the job says why. All others are released. (SQLite refuses
/// such a row at once.)
pub async fn a_scheduled_event_that_the_outbox_refuses_holds_up_no_other(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let tx = table::begin(office.fresh.db()).await.expect("begin");
    for (note, ago) in [("spoiled", 3), ("also spoiled", 2), ("first", 2), ("second", 1)] {
        let due = clock::now() - Duration::from_secs(ago);
        postroom::emit_at(&tx, &noted("a", note), due).await.expect("schedule");
    }
    tx.commit().await.expect("commit");
    let db = office.fresh.db();
    let (spoil, payload) = match db.get_database_backend() {
        DbBackend::Postgres => ("aggregate_id = repeat('x', 300)", "payload::text"),
        _ => ("event_id = replace(event_id, '-', '_')", "payload"),
    };
    let prefix = office.prefix();
    let spoil = format!("update {prefix}outbox_scheduled set {spoil} where {payload} like '%spoiled%'");
    let spoiled = db.execute_unprepared(&spoil).await;
    if db.get_database_backend() == DbBackend::Sqlite {
        assert!(spoiled.is_err(), "a check of the schedule refuses it");
        return;
    }
    assert_eq!(spoiled.expect("spoil two rows").rows_affected(), 2);
    office.start(office.relay().subscriber(Scripted::new("s").subscriber(3)));
    office.expect("s", &["first", "second"]).await;
    let failed = "select count(*) from postroom.outbox_job where name = 'schedule' and last_error is not null";
    office
        .until("the job says why", async || office.number(failed).await == 1)
        .await;
    office.stop().await;
    assert_eq!(office.number("select count(*) from postroom.outbox_scheduled").await, 2);
}

/// The store keeps the hash of a token, never the token; each act is in the operators' log.
pub async fn a_token_is_made_used_and_revoked(fresh: Fresh) {
    let office = Office::open(fresh).await;
    let db = office.fresh.db();
    let new = NewToken {
        name: "till".to_owned(),
        role: Role::Service,
        scope: Scope {
            modules: ["shop".to_owned()].into(),
            emit: ["shop.order.*".to_owned()].into(),
        },
        expires_at: Some(clock::now() + Duration::from_secs(3600)),
    };
    let secret = token::create(db, &new, "kim").await.expect("create").to_string();
    let twice = token::create(db, &new, "kim").await.expect_err("the name is in use");
    assert_eq!(twice.kind(), ErrorKind::Conflict);
    let admitted = token::admitted(db).await.expect("admitted");
    assert_eq!(admitted.len(), 1);
    let found = &admitted[0];
    assert_eq!((found.name.as_str(), found.role), ("till", Role::Service));
    assert_eq!((&found.scope, found.created_by.as_str()), (&new.scope, "kim"));
    assert_eq!(found.hash(), token::hash(&secret));
    assert_eq!(found.digest(), Some(token::digest(&secret)));
    assert!(secret.starts_with(&found.hint) && found.hint.len() < secret.len() / 2);
    assert!(found.last_used_at.is_none() && found.is_valid(clock::now()));
    assert!(!found.is_valid(clock::now() + Duration::from_secs(3601)), "it expires");
    let used_at = clock::now();
    let used = [(found.hash().to_owned(), used_at)].into();
    token::record_use(db, &used).await.expect("use");
    let written = token::list(db).await.expect("list")[0]
        .last_used_at
        .expect("it was used");
    assert!(
        (written - used_at).abs() < time::Duration::milliseconds(2),
        "{written} {used_at}"
    );
    let text = format!("select count(*) from postroom.access_token where hash = '{secret}'");
    assert_eq!(office.number(&text).await, 0, "only the hash is kept");

    token::revoke(db, "till", "lee").await.expect("revoke");
    assert!(token::admitted(db).await.expect("admitted").is_empty());
    let listed = token::list(db).await.expect("list");
    assert_eq!(listed[0].revoked_by.as_deref(), Some("lee"));
    let again = token::revoke(db, "till", "lee").await.expect_err("it is revoked");
    assert!(again.to_string().contains("revoked already"), "{again}");
    let unknown = token::revoke(db, "tall", "lee").await.expect_err("no such token");
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
    token::create(db, &new, "kim").await.expect("the name is free again");
    let acts = "select count(*) from postroom.admin_audit where action in ('token.create', 'token.revoke') and target = 'till'";
    assert_eq!(office.number(acts).await, 3);
}

/// A transaction that no insert into the outbox gets past.
async fn lock_out_emitters(office: &Office) -> DatabaseTransaction {
    let db = office.fresh.writers(1).await;
    let lock = db.begin().await.expect("begin");
    let sql = match lock.get_database_backend() {
        DbBackend::Postgres => "lock table postroom.outbox in share mode",
        _ => "select * from postroom_incoming for update", // repeatable read: with the gap behind the last row
    };
    lock.execute_unprepared(sql).await.expect("lock the outbox");
    lock
}

/// A cancelled event is never released; cancelling it again says so.
pub async fn a_cancelled_event_is_never_released(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let tx = table::begin(office.fresh.db()).await.expect("begin");
    let soon = clock::now() + Duration::from_secs(1);
    let id = postroom::emit_at(&tx, &noted("a", "cancelled"), soon)
        .await
        .expect("schedule");
    postroom::emit_at(&tx, &noted("a", "kept"), soon)
        .await
        .expect("schedule");
    tx.commit().await.expect("commit");
    let tx = table::begin(office.fresh.db()).await.expect("begin");
    assert!(postroom::cancel(&tx, id).await.expect("cancel"));
    assert!(!postroom::cancel(&tx, id).await.expect("cancel once more"));
    tx.commit().await.expect("commit");
    office.start(office.relay().subscriber(Scripted::new("s").subscriber(3)));
    office.expect("s", &["kept"]).await;
    office.stop().await;
}

/// An office with the subscribers `s` and `other` at work.
pub(super) async fn with_two_subscribers(fresh: Fresh) -> Office {
    let mut office = Office::open(fresh).await;
    let relay = office
        .relay()
        .subscriber(Scripted::new("s").subscriber(3))
        .subscriber(Scripted::new("other").subscriber(3));
    office.start(relay);
    office
}

/// A paused route delivers nothing; the others go on; resumed, it delivers what waited.
pub async fn a_paused_route_waits_until_it_is_resumed(fresh: Fresh) {
    let mut office = with_two_subscribers(fresh).await;
    office.emit(&[("a", "one")]).await;
    office.expect("s", &["one"]).await;
    operate::set_paused(&*office.store(), "s", true, "me")
        .await
        .expect("pause");
    // The line may be in the middle of a turn when the pause commits; its next look at the pulse sees it.
    let seen = async || {
        office.emit(&[("x", "probe")]).await;
        office.until_settled("other").await;
        office.effects("other").await.len() > office.effects("s").await.len() + 2
    };
    office.until("the pause is seen", seen).await;
    let before = office.effects("s").await.len();
    office.emit(&[("a", "two")]).await;
    office.until_settled("other").await;
    assert_eq!(office.effects("s").await.len(), before);
    operate::set_paused(&*office.store(), "s", false, "me")
        .await
        .expect("resume");
    office
        .until("it has caught up", async || {
            office.effects("s").await == office.effects("other").await
        })
        .await;
    let unknown = operate::set_paused(&*office.store(), "nobody", true, "me")
        .await
        .expect_err("no such route");
    assert!(unknown.to_string().contains("no route \"nobody\""), "{unknown}");
    office.stop().await;
}

/// Retention removes what every route has passed, and archives it if asked.
pub async fn retention_removes_what_everybody_has(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let sweep = Job::every("sweep", Duration::from_millis(200), |outbox| async move {
        let prune = postroom::Prune {
            keep: Duration::ZERO,
            batch: 10,
            archive: true,
        };
        outbox.prune(&prune).await
    });
    let slow = Scripted::new("slow").fails_on("three");
    office.start(office.relay().subscriber(Scripted::new("s").subscriber(3)).job(sweep));
    let ids = office.emit(&[("a", "one"), ("a", "two"), ("a", "three")]).await;
    office.expect("s", &["one", "two", "three"]).await;
    office
        .until("the outbox is empty", async || {
            office.number("select count(*) from postroom.outbox").await == 0
        })
        .await;
    assert_eq!(office.number("select count(*) from postroom.audit_events").await, 3);
    let timeline = operate::timeline(&*office.store(), ids[0])
        .await
        .expect("an archived event can be read");
    assert!(timeline.is_archived);
    office.stop().await;
    drop(slow);
}

/// A job of the day waits for its hour, goes on until nothing is left to do, and then waits for the next day.
pub async fn a_daily_job_runs_at_its_hour_until_nothing_is_left(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let hour = clock::now() + Duration::from_secs(4);
    let steps = Arc::new(AtomicU64::new(0));
    let taken = Arc::clone(&steps);
    let mut job = Job::every("dawn", Duration::from_secs(1), move |_outbox| {
        let is_time = clock::now() >= hour - Duration::from_millis(100); // two clocks may differ a little
        let step = if is_time { taken.fetch_add(1, SeqCst) + 1 } else { 0 };
        async move { Ok(if (1..3).contains(&step) { 1 } else { 0 }) }
    });
    job.when = When::Daily(hour.time());
    office.start(office.relay().job(job));
    office
        .until("all three steps are taken", async || steps.load(SeqCst) == 3)
        .await;
    let tomorrow = match office.fresh.db().get_database_backend() {
        DbBackend::Postgres => "clock_timestamp() + interval '20 hours'",
        DbBackend::MySql => "utc_timestamp(6) + interval 20 hour",
        _ => "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+20 hours')",
    };
    let sql = format!("select count(*) from postroom.outbox_job where name = 'dawn' and next_at > {tomorrow}");
    office
        .until("it waits for the next day", async || office.number(&sql).await == 1)
        .await;
    assert_eq!(steps.load(SeqCst), 3);
    office.stop().await;
}

/// A job of the day whose time was changed runs at the new time, and does not wait for the old one.
pub async fn a_daily_job_follows_a_changed_time(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let runs = Arc::new(AtomicU64::new(0));
    let at = |hour: time::Time| {
        let taken = Arc::clone(&runs);
        let mut job = Job::every("dawn", Duration::from_secs(1), move |_outbox| {
            taken.fetch_add(1, SeqCst);
            async { Ok(0) }
        });
        job.when = When::Daily(hour);
        job
    };
    let later = (clock::now() + Duration::from_secs(12 * 3600)).time();
    office.start(office.relay().job(at(later)));
    office.until("it has run once", async || runs.load(SeqCst) == 1).await;
    let waits = "select count(*) from postroom.outbox_job where name = 'dawn' and claimed_until is null and runs = 1";
    office.until("it waits", async || office.number(waits).await == 1).await;
    office.stop().await;
    let soon = (clock::now() + Duration::from_secs(4)).time();
    office.start(office.relay().job(at(soon)));
    office
        .until("it runs at its new time", async || runs.load(SeqCst) == 2)
        .await;
    office.stop().await;
}

/// The inbox keeps the ids of handled events for the configured time, seven days by default, and then removes them.
pub async fn the_inbox_forgets_after_its_time(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    office.start(office.relay().subscriber(Scripted::new("s").subscriber(3)));
    let ids = office.emit(&[("a", "old"), ("a", "young")]).await;
    office.expect("s", &["old", "young"]).await;
    office.stop().await;
    let week = 7 * 24 * 60 * 60;
    for (id, age_s) in [(ids[0], week + 60), (ids[1], week - 3600)] {
        let ago = ago(&office, age_s);
        let table = format!("{}event_handled", office.prefix());
        let sql = format!("update {table} set handled_at = {ago} where idempotency_key = 's:{id}'");
        office.execute(&sql).await;
    }
    let mut job = Job::inbox_retention(Duration::from_secs(week));
    job.when = When::Every(Duration::from_millis(200)); // a minute otherwise
    office.start(office.relay().job(job));
    let remembered = async |id: Uuid| {
        let sql = format!("select count(*) from postroom.event_handled where idempotency_key = 's:{id}'");
        office.number(&sql).await
    };
    office
        .until("the old one is forgotten", async || remembered(ids[0]).await == 0)
        .await;
    assert_eq!(remembered(ids[1]).await, 1);
    office.stop().await;
}

/// The inbox keeps an event beyond the configured time if the subscriber's broker has not brought an earlier event: when the
/// subscriber reads the log again, only the inbox tells that the later event was handled.
pub async fn the_inbox_remembers_what_may_be_read_again(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    office.start(office.relay().subscriber(Scripted::new("s").subscriber(3)));
    office.emit(&[("a", "one"), ("a", "two")]).await;
    office.expect("s", &["one", "two"]).await;
    office.stop().await;
    let cursor = format!("{}outbox_cursor", office.prefix());
    let feeds = |handled_to: &str| format!("update {cursor} set fed_by = 'broker', handled_to = {handled_to}");
    let remembered = "select count(*) from postroom.event_handled";
    office.execute(&feeds("'0:0:0'")).await;
    let mut retention = Job::inbox_retention(Duration::ZERO);
    retention.when = When::Every(Duration::from_millis(100));
    let runs = "select coalesce(max(runs), 0) from postroom.outbox_job where name = 'inbox-retention'";
    office.start(office.relay().job(retention));
    office
        .until("the job has run", async || office.number(runs).await > 3)
        .await;
    assert_eq!(
        office.number(remembered).await,
        2,
        "what may be read again was forgotten"
    );
    office.execute(&feeds("position")).await;
    office
        .until("the inbox forgets", async || office.number(remembered).await == 0)
        .await;
    office.stop().await;
}

/// The database's clock, so many seconds back.
fn ago(office: &Office, seconds: u64) -> String {
    match office.fresh.db().get_database_backend() {
        DbBackend::Postgres => format!("clock_timestamp() - interval '{seconds} seconds'"),
        DbBackend::MySql => format!("timestampadd(second, -{seconds}, utc_timestamp(6))"),
        _ => format!("strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-{seconds} seconds')"),
    }
}

/// How many dead letters are such.
async fn letters(office: &Office, such: &str) -> i64 {
    let sql = format!("select count(*) from postroom.outbox_failed where {such}");
    office.number(&sql).await
}

/// A dead letter that was decided on goes when its time is over; one that waits stays, however old.
pub async fn decided_dead_letters_go_after_their_time(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let script = Scripted::new("s").fails_on("old").fails_on("young").fails_on("waits");
    office.start(office.relay().subscriber(script.subscriber(1)));
    office.emit(&[("a", "old"), ("b", "young"), ("c", "waits")]).await;
    office
        .until("all are dead", async || letters(&office, "state = 'dead'").await == 3)
        .await;
    let month = 30 * 24 * 60 * 60;
    let table = format!("{}outbox_failed", office.prefix());
    for (key, age_s) in [("a", month + 60), ("b", month - 3600)] {
        let ago = ago(&office, age_s);
        let sql = format!("update {table} set state = 'discarded', decided_at = {ago} where aggregate_id = '{key}'");
        office.execute(&sql).await;
    }
    let sql = format!(
        "update {table} set dead_at = {} where aggregate_id = 'c'",
        ago(&office, 2 * month)
    );
    office.execute(&sql).await;
    let mut job = Job::dead_retention(Duration::from_secs(month));
    job.when = When::Every(Duration::from_millis(200)); // an hour otherwise
    office.start(office.relay().job(job));
    office
        .until("the old one is gone", async || {
            letters(&office, "aggregate_id = 'a'").await == 0
        })
        .await;
    assert_eq!(letters(&office, "aggregate_id in ('b', 'c')").await, 2);
    office.stop().await;
}

/// A route that no relay delivers can be forgotten; it no longer holds back retention. One that is worked cannot.
pub async fn a_route_is_forgotten_when_nobody_works_it(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    office.start(office.relay().subscriber(Scripted::new("s").subscriber(3)));
    office.emit(&[("a", "one")]).await;
    office.expect("s", &["one"]).await;
    let refused = operate::forget(&*office.store(), "s", "me")
        .await
        .expect_err("it is worked");
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    office.stop().await;
    operate::forget(&*office.store(), "s", "me").await.expect("forget");
    assert_eq!(office.number("select count(*) from postroom.outbox_cursor").await, 0);
}

/// Status shows every route and job.
pub async fn status_shows_routes_and_jobs(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let job = Job::every("count", Duration::from_millis(50), |_outbox| async { Ok(1) });
    office.start(
        office
            .relay()
            .subscriber(Scripted::new("s").fails_on("poison").subscriber(1_000_000))
            .job(job),
    );
    office.emit(&[("a", "one"), ("b", "poison"), ("b", "behind")]).await;
    office.expect("s", &["one"]).await;
    let ran = async || {
        operate::status(&*office.store())
            .await
            .expect("status")
            .jobs
            .iter()
            .any(|job| job.name == "count" && job.runs > 1)
    };
    office.until("the job ran", ran).await;
    let seen = async || {
        let status = operate::status(&*office.store()).await.expect("status");
        let route = &status.routes[0];
        route.is_leased && (route.route.as_str(), route.delivered, route.retrying, route.waiting) == ("s", 1, 1, 1)
    };
    office
        .until("one is delivered, one is retried, one waits behind it", seen)
        .await;
    office.stop().await;
}

/// `why` names what does not move and the next step.
pub async fn why_names_what_is_stuck(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let script = Scripted::new("s").fails_on("poison");
    office.start(office.relay().subscriber(Subscriber {
        dead: postroom::Dead::Hold,
        ..script.subscriber(1)
    }));
    office.emit(&[("b", "poison"), ("b", "behind")]).await;
    let says = async |kind: ReasonKind| {
        operate::why(&*office.store())
            .await
            .expect("why")
            .iter()
            .any(|reason| reason.kind() == kind)
    };
    office
        .until("it names the held key", async || says(ReasonKind::Held).await)
        .await;
    assert!(says(ReasonKind::Dead).await);
    operate::set_paused(&*office.store(), "s", true, "me")
        .await
        .expect("pause");
    assert!(says(ReasonKind::Paused).await);
    office.stop().await;
}

/// A relay that finds no tables says what to do, and works as soon as they are there.
pub async fn a_relay_without_tables_names_the_way_out(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let all = office.fresh.migrations();
    while migration::down(office.fresh.db(), "postroom", all)
        .await
        .expect("down")
        .is_some()
    {}
    let posts = office.relay().subscriber(Scripted::new("s").subscriber(3));
    let health = posts.health();
    office.start(posts);
    let first = || health.troubles().into_iter().next();
    office
        .until("it names the missing tables first", async || {
            matches!(
                first(),
                Some(Trouble::Store {
                    fault: Fault::TablesMissing,
                    ..
                })
            )
        })
        .await;
    let trouble = first().expect("a trouble");
    assert_eq!(trouble.next_steps(), [NextStep::Migrate]);
    assert!(trouble.to_string().contains("apply the migrations"), "{trouble}");
    migration::up(office.fresh.db(), "postroom", all).await.expect("up");
    office.emit(&[("a", "one")]).await;
    office.expect("s", &["one"]).await;
    assert_eq!(health.troubles(), []);
    office.stop().await;
}

/// A timeline tells what each route has done with an event.
pub async fn a_timeline_shows_what_became_of_an_event(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    office.start(
        office
            .relay()
            .subscriber(Scripted::new("s").fails_on("poison").subscriber(1_000_000)),
    );
    let ids = office.emit(&[("a", "one"), ("b", "poison"), ("b", "behind")]).await;
    office.expect("s", &["one"]).await;
    let state = async |at: usize| {
        operate::timeline(&*office.store(), ids[at])
            .await
            .expect("timeline")
            .deliveries
            .remove(0)
    };
    office
        .until("the last is parked", async || {
            state(2).await.state == DeliveryState::Waiting
        })
        .await;
    assert_eq!(state(0).await.state, DeliveryState::Passed);
    assert!(state(0).await.handled_at.is_some());
    assert_eq!(state(1).await.state, DeliveryState::Parked);
    office.stop().await;
    let late = office.emit(&[("c", "late")]).await;
    office.store().pulse().await.expect("pulse");
    let timeline = operate::timeline(&*office.store(), late[0]).await.expect("timeline");
    assert_eq!(timeline.deliveries[0].state, DeliveryState::Pending);
    let unknown = operate::timeline(&*office.store(), Uuid::now_v7())
        .await
        .expect_err("no such event");
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
}

/// Every act of an operator is kept with who did it.
pub async fn the_operators_log_keeps_every_act(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    office.start(
        office
            .relay()
            .subscriber(Scripted::new("s").fails_on("poison").subscriber(1)),
    );
    office.emit(&[("a", "poison")]).await;
    let which = Selection::default();
    let letters = async || {
        postroom::dead::list(office.fresh.db(), &which, None, 10)
            .await
            .expect("list")
            .len()
    };
    office.until("it is dead", async || letters().await == 1).await;
    postroom::dead::discard(office.fresh.db(), &which, "kim", "not needed")
        .await
        .expect("discard");
    operate::set_paused(&*office.store(), "s", true, "kim")
        .await
        .expect("pause");
    let acts = office
        .number("select count(*) from postroom.admin_audit where actor = 'kim'")
        .await;
    assert_eq!(acts, 2);
    office.stop().await;
}
