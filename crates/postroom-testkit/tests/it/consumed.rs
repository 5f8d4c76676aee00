//! Messages that a broker delivers more than once, and messages that no subscriber can read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postroom::dead::LetterState;
use postroom::envelope::CLOUDEVENTS_JSON;
use postroom::operate::{NextStep, Reason, ReasonKind};
use postroom::{
    BoxError, Broker as _, Database, Delays, Entry, Envelope, Error, ErrorKind, Event, ExternalTask, Filter, Handler,
    Relay, Result, Retry, Start, Subscriber, Tx, clock, dead, operate, table,
};
use postroom_testkit::broker_suite::Site as _;
use postroom_testkit::memory_broker::MemoryBroker;
use postroom_testkit::wait::{until, until_some};
use postroom_testkit::{Fresh, fresh};
use sea_orm::{ConnectionTrait as _, DbBackend, Statement};
use serde_json::value::to_raw_value;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

async fn handle(_tx: &mut Tx, event: &Event) -> Result<()> {
    match event.decode::<String>()?.as_str() {
        "poison" => Err(Error::new(ErrorKind::Failed, "no")),
        _ => Ok(()),
    }
}

fn structured(key: &str, note: &str) -> Vec<u8> {
    structured_as("a.b.v1", key, note)
}

fn structured_as(event_type: &str, key: &str, note: &str) -> Vec<u8> {
    let event = Event::new(event_type, "thing", key, to_raw_value(note).unwrap()).unwrap();
    let entry = Entry {
        id: 1,
        event,
        created_at: clock::now(),
    };
    Envelope::of(&entry).to_structured()
}

async fn letters(fresh: &Fresh) -> Vec<dead::DeadLetter> {
    let all = dead::Selection::default();
    dead::list(fresh.db(), &all, None, 10).await.unwrap()
}

/// Lets the subscriber work what the broker holds until it has delivered `count`.
async fn consume(fresh: &Fresh, broker: &MemoryBroker, attempts_max: u32, count: i64) -> operate::RouteStatus {
    consume_by(
        Subscriber::matching("s", ["a.**"], handle),
        fresh,
        broker,
        (attempts_max, count),
    )
    .await
}

async fn consume_by(
    mut subscriber: Subscriber,
    fresh: &Fresh,
    broker: &MemoryBroker,
    (attempts_max, count): (u32, i64),
) -> operate::RouteStatus {
    subscriber.joins_at = Start::Beginning; // what the broker holds is older than the group
    subscriber.retry = Retry {
        attempts_max: Some(attempts_max),
        ..Retry::default()
    };
    let route = subscriber.fed_by(Arc::new(broker.clone()), vec!["t".to_owned()], Filter::all());
    let stop = CancellationToken::new();
    let relay = Relay::new(fresh.store()).route(route).run(stop.clone());
    let delivered = || async {
        let status = operate::status(&**fresh).await.unwrap();
        status.routes.into_iter().find(|route| route.delivered == count)
    };
    let watch = async {
        let route = until_some("they are delivered", delivered).await;
        stop.cancel();
        route
    };
    let (ended, route) = tokio::join!(relay, watch);
    ended.unwrap();
    route
}

/// A member that dies after it has parked a message and before it has acknowledged it gets it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_parked_and_comes_again_is_parked_once() {
    let fresh = fresh::sqlite().await;
    let mut broker = MemoryBroker::default();
    let poison = structured("a", "poison");
    for body in [&poison, &structured("b", "well"), &poison, &structured("c", "well")] {
        broker.put("t", CLOUDEVENTS_JSON, body).await;
    }
    let route = consume(&fresh, &broker, 100, 2).await;
    assert_eq!(
        (route.retrying, route.waiting),
        (1, 0),
        "one row, not one for each time it came"
    );
}

/// A topic carries several types. One that the subscriber does not want is no handler's, although an event of its key is parked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_wanted_does_not_wait_behind_its_key() {
    let fresh = fresh::sqlite().await;
    let mut broker = MemoryBroker::default();
    let unwanted = structured_as("c.d.v1", "a", "poison");
    for body in [&structured("a", "poison"), &unwanted, &structured("b", "well")] {
        broker.put("t", CLOUDEVENTS_JSON, body).await;
    }
    let route = consume(&fresh, &broker, 100, 1).await;
    assert_eq!(
        (route.retrying, route.waiting),
        (1, 0),
        "the one that is not wanted is parked"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_dead_and_comes_again_is_dead_once() {
    let fresh = fresh::sqlite().await;
    let mut broker = MemoryBroker::default();
    let poison = structured("a", "poison");
    for body in [&poison, &structured("b", "well"), &poison, &structured("c", "well")] {
        broker.put("t", CLOUDEVENTS_JSON, body).await;
    }
    consume(&fresh, &broker, 1, 2).await;
    assert_eq!(letters(&fresh).await.len(), 1);
    assert_eq!(broker.dead_letters("t").await.len(), 1, "one copy");
}

/// A broker may bring a message again long after its letter was decided on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_discarded_and_comes_again_is_not_handled() {
    let fresh = fresh::sqlite().await;
    let mut broker = MemoryBroker::default();
    let poison = structured("a", "poison");
    for body in [&poison, &structured("b", "well")] {
        broker.put("t", CLOUDEVENTS_JSON, body).await;
    }
    consume(&fresh, &broker, 1, 1).await;
    let all = dead::Selection::default();
    assert_eq!(dead::discard(fresh.db(), &all, "me", "no use").await.unwrap(), 1);
    for body in [&poison, &structured("c", "well")] {
        broker.put("t", CLOUDEVENTS_JSON, body).await;
    }
    consume(&fresh, &broker, 1, 2).await;
    let letters = letters(&fresh).await;
    let states: Vec<LetterState> = letters.iter().map(|letter| letter.state).collect();
    assert_eq!(
        states,
        [LetterState::Discarded],
        "the handler got it again, and failed again"
    );
}

/// Counts the external tasks that it runs, and fails as the handler does.
struct Counting(Arc<AtomicUsize>);

impl ExternalTask for Counting {
    async fn run(&self, _db: &Database, event: &Event) -> Result<(), BoxError> {
        match event.decode::<String>()?.as_str() {
            "poison" => {
                self.0.fetch_add(1, Ordering::Relaxed);
                Err("no".into())
            }
            _ => Ok(()),
        }
    }
}

/// An external task has its effect when it runs: one that was given up is not run for a message that comes again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_external_task_that_was_given_up_does_not_run_again() {
    let (fresh, runs) = (fresh::sqlite().await, Arc::new(AtomicUsize::new(0)));
    let mut broker = MemoryBroker::default();
    let task = || Subscriber::external("s", ["a.**"], Counting(Arc::clone(&runs)));
    let poison = structured("a", "poison");
    for body in [&poison, &structured("b", "well")] {
        broker.put("t", CLOUDEVENTS_JSON, body).await;
    }
    consume_by(task(), &fresh, &broker, (1, 1)).await;
    for body in [&poison, &structured("c", "well")] {
        broker.put("t", CLOUDEVENTS_JSON, body).await;
    }
    consume_by(task(), &fresh, &broker, (1, 2)).await;
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}

/// A handler that stands still until the test lets it go on, and then does as its note says.
#[derive(Clone, Debug, Default)]
struct Standing {
    stands: Arc<Notify>,
    goes_on: Arc<Notify>,
}

impl Handler for Standing {
    async fn handle(&self, tx: &mut Tx, event: &Event) -> Result<(), BoxError> {
        self.stands.notify_one();
        self.goes_on.notified().await;
        Ok(handle(tx, event).await?)
    }
}

/// A relay whose subscriber has got one message from a broker and stands still with it.
struct StandingRelay {
    handler: Standing,
    broker: MemoryBroker,
    event: Uuid,
    stop: CancellationToken,
    running: JoinSet<Result<()>>,
}

impl StandingRelay {
    async fn start(fresh: &Fresh, note: &str, attempts_max: u32) -> Self {
        let (mut broker, handler) = (MemoryBroker::default(), Standing::default());
        let body = structured("a", note);
        broker.put("t", CLOUDEVENTS_JSON, &body).await;
        let mut subscriber = Subscriber::matching("s", ["**"], handler.clone());
        subscriber.joins_at = Start::Beginning;
        subscriber.retry = Retry {
            attempts_max: Some(attempts_max),
            delays: Delays::Fixed(Duration::from_millis(50)),
            ..Retry::default()
        };
        let route = subscriber.fed_by(Arc::new(broker.clone()), vec!["t".to_owned()], Filter::all());
        let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
        running.spawn(Relay::new(fresh.store()).route(route).run(stop.clone()));
        handler.stands.notified().await;
        Self {
            handler,
            broker,
            event: Envelope::from_structured(&body).unwrap().into_event().unwrap().id,
            stop,
            running,
        }
    }

    /// Lets the handler go on until something is so.
    async fn goes_on_until<F: Future<Output = bool>>(&self, what: &str, is_so: impl Fn() -> F) {
        until(what, || {
            self.handler.goes_on.notify_one();
            is_so()
        })
        .await;
    }

    async fn end(mut self) {
        self.stop.cancel();
        self.running.join_next().await.unwrap().unwrap().unwrap();
    }
}

/// While one member handles a message, another that has it too gives it up. The letter is the operator's to decide on: the message
/// has no effect before it is retried, and one then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_member_gives_up_meanwhile_has_no_effect_until_it_is_retried() {
    let fresh = fresh::postgres().await;
    let relay = StandingRelay::start(&fresh, "well", 1).await;
    let letter = format!(
        "insert into postroom.outbox_failed (event_id, event_type, source, aggregate_type, aggregate_id, payload, headers,
             occurred_at, route, shard, id, created_at, attempts, error)
         values ('{}', 'a.b.v1', '', 'thing', 'a', '\"well\"', '{{}}', now(), 's', 0, 4503599627370497, now(), 1, 'no')",
        relay.event
    );
    fresh.db().execute_unprepared(&letter).await.unwrap();
    let topics = ["t".to_owned()];
    let is_acknowledged = || async { relay.broker.waiting("s", &topics).await.unwrap() == 0 };
    relay.goes_on_until("the message is passed", is_acknowledged).await;
    assert_eq!(handled(&fresh).await, 0, "it had its effect although it was given up");
    let retried = dead::retry(fresh.db(), &dead::Selection::default(), "me").await;
    assert_eq!(retried.unwrap(), 1);
    let has_effect = || async { handled(&fresh).await == 1 };
    relay.goes_on_until("it has its effect", has_effect).await;
    relay.end().await;
}

/// The same the other way round: what was handled meanwhile leaves no letter of one that has failed to handle it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_member_handles_meanwhile_leaves_no_letter() {
    let fresh = fresh::postgres().await;
    let relay = StandingRelay::start(&fresh, "poison", 2).await;
    relay.handler.goes_on.notify_one();
    relay.handler.stands.notified().await; // parked, and retried by the route's line
    let key = format!(
        "insert into postroom.event_handled (idempotency_key) values ('s:{}')",
        relay.event
    );
    fresh.db().execute_unprepared(&key).await.unwrap();
    let is_free = || async {
        let status = operate::status(&*fresh).await.unwrap();
        status.routes.iter().all(|route| route.retrying == 0)
    };
    relay.goes_on_until("nothing is parked", is_free).await;
    assert!(
        letters(&fresh).await.is_empty(),
        "a letter of an event that was handled"
    );
    relay.end().await;
}

async fn handled(fresh: &Fresh) -> i64 {
    let count = Statement::from_string(DbBackend::Postgres, "select count(*) from postroom.event_handled");
    let row = fresh.db().query_one_raw(count).await.unwrap().unwrap();
    row.try_get_by_index(0).unwrap()
}

/// An event in the log that the broker never brings holds back retention: `why` names it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_a_broker_does_not_bring_is_named() {
    let fresh = fresh::sqlite().await;
    let mut broker = MemoryBroker::default();
    broker.put("t", CLOUDEVENTS_JSON, &structured("a", "well")).await;
    consume(&fresh, &broker, 1, 1).await;
    let lost = Event::new("a.b.v1", "thing", "lost", to_raw_value("well").unwrap()).unwrap();
    let tx = table::begin(fresh.db()).await.unwrap();
    postroom::append(&tx, std::slice::from_ref(&lost)).await.unwrap();
    tx.commit().await.unwrap();
    let named = async || {
        let reasons = operate::why(&*fresh).await.unwrap();
        let is_named = |reason: &Reason| reason.kind() == ReasonKind::NotBrought;
        reasons.into_iter().find(is_named)
    };
    assert!(named().await.is_none(), "it may still come");
    let old = "drop trigger postroom_outbox_is_immutable;
               update postroom_outbox set created_at = '2020-01-01T00:00:00.000Z';
               update postroom_outbox_cursor set owner = 'a relay', expires_at = '2999-01-01T00:00:00.000Z'";
    fresh.db().execute_unprepared(old).await.unwrap();
    let reason = named().await.unwrap();
    let is_lost = |reason: &Reason| matches!(reason, Reason::NotBrought { event_id, .. } if *event_id == lost.id);
    assert!(is_lost(&reason), "{reason:?}");
    let replay = NextStep::Replay {
        route: "s".to_owned(),
        from_id: 1,
        to_id: 1,
    };
    assert!(reason.next_steps().contains(&replay), "{reason:?}");
}

/// A message published before the group joins again is newer than all messages that the group has had: it is not skipped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_its_broker_has_forgotten_misses_nothing() {
    let fresh = fresh::sqlite().await;
    let mut broker = MemoryBroker::default();
    broker.put("t", CLOUDEVENTS_JSON, &structured("a", "well")).await;
    let route =
        Subscriber::matching("s", ["**"], handle).fed_by(Arc::new(broker.clone()), vec!["t".to_owned()], Filter::all());
    let stop = CancellationToken::new();
    let relay = Relay::new(fresh.store()).route(route).run(stop.clone());
    let status = async || operate::status(&*fresh).await.unwrap().routes.pop();
    let delivered = async |count| status().await.is_some_and(|route| route.delivered == count);
    let watch = async {
        let has_joined = async || broker.waiting("s", &["t".to_owned()]).await.unwrap() == 0;
        until("the group begins behind what is there", has_joined).await;
        broker.put("t", CLOUDEVENTS_JSON, &structured("b", "well")).await;
        until("it works", || delivered(1)).await;
        broker.stop().await;
        let is_away = async || status().await.is_some_and(|route| route.down.is_some());
        until("the broker is missed", is_away).await;
        broker.lose();
        broker.put("t", CLOUDEVENTS_JSON, &structured("c", "well")).await;
        broker.start().await;
        until("what came meanwhile is handled", || delivered(2)).await;
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(relay, watch);
    ended.unwrap();
}

/// There is no handler to give it to; that an operator asks must not make it vanish.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_event_cannot_be_retried() {
    let fresh = fresh::sqlite().await;
    let mut broker = MemoryBroker::default();
    for (content_type, body) in [
        ("text/plain", &b"no event"[..]),
        (CLOUDEVENTS_JSON, &structured("b", "well")),
    ] {
        broker.put("t", content_type, body).await;
    }
    consume(&fresh, &broker, 1, 1).await;
    let letter = letters(&fresh).await.pop().unwrap();
    let this = dead::Selection {
        dead_ids: vec![letter.dead_id],
        ..dead::Selection::default()
    };
    let refused = dead::retry(fresh.db(), &this, "ada").await.unwrap_err();
    assert!(
        refused.report().contains("is no event, which cannot be retried"),
        "{}",
        refused.report()
    );
    assert_eq!(
        dead::retry(fresh.db(), &dead::Selection::default(), "ada")
            .await
            .unwrap(),
        0
    );
    assert_eq!(letters(&fresh).await.pop().unwrap().state, LetterState::Dead);
    assert_eq!(dead::discard(fresh.db(), &this, "ada", "garbage").await.unwrap(), 1);
}

/// A destination that is never asked.
#[derive(Debug)]
struct Idle;

#[async_trait::async_trait]
impl postroom::Destination for Idle {
    async fn deliver(&self, batch: &postroom::Batch<'_>) -> Vec<postroom::Receipt> {
        vec![postroom::Receipt::Delivered; batch.entries.len()]
    }
}

/// A hot key that fails wakes the line of its own route, and makes no other read its state again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_consumer_parks_disturbs_no_other_route() {
    const MESSAGES: usize = 200;
    let fresh = fresh::sqlite().await;
    let run = async |sql: &str| fresh.db().execute_unprepared(sql).await.unwrap();
    run("create table loads (route text not null)").await;
    // A line that reads its state locks its cursor by writing this column.
    run(
        "create trigger load after update of is_paused on postroom_outbox_cursor begin \
         insert into loads values (new.route); end",
    )
    .await;
    let loads = async |of: &str| {
        let sql = format!("select count(*) from loads where route like '{of}%'");
        let row = fresh
            .db()
            .query_one_raw(Statement::from_string(DbBackend::Sqlite, sql))
            .await;
        row.unwrap().unwrap().try_get_by_index::<i64>(0).unwrap()
    };
    let mut broker = MemoryBroker::default();
    let mut subscriber = Subscriber::matching("s", ["**"], handle);
    subscriber.joins_at = Start::Beginning;
    let mut route = subscriber.fed_by(Arc::new(broker.clone()), vec!["t".to_owned()], Filter::all());
    route.batch = 1;
    let stop = CancellationToken::new();
    let mut relay = Relay::new(fresh.store()).route(route);
    for n in 0..10 {
        let idle = postroom::Route::new(format!("idle{n}"), postroom::To::Destination(Arc::new(Idle)));
        relay = relay.route(idle);
    }
    let status = async || operate::status(&*fresh).await.unwrap().routes;
    let watch = async {
        until("every line has begun", || async { loads("idle").await >= 10 }).await;
        broker.put("t", CLOUDEVENTS_JSON, &structured("a", "poison")).await;
        let is_tried = || async { status().await.iter().any(|route| route.attempts >= 2) };
        until("the line of the route retries it", is_tried).await;
        let before = loads("idle").await;
        for _ in 0..MESSAGES {
            broker.put("t", CLOUDEVENTS_JSON, &structured("a", "behind")).await;
        }
        let is_parked = || async { status().await.iter().any(|route| route.waiting == MESSAGES as u64) };
        until("all wait behind it", is_parked).await;
        assert_eq!(
            loads("idle").await,
            before,
            "lines of other routes have read their state again"
        );
        assert!(loads("s").await > 0);
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(relay.run(stop.clone()), watch);
    ended.unwrap();
}
