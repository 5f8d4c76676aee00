//! A subscriber that moves between the outbox and a broker loses nothing, has each effect once, and keeps the order of keys.

use std::time::Duration;

use postroom::{Event, Filter, Join, PAGE_BYTES, Prune, Start, Subscriber, operate, table};

use super::fixture::{Office, Posts, Scripted};
use crate::Fresh;

/// How many events wait for the subscriber when it moves.
const WAITING: usize = 50;
/// Pages of other events in between.
const PAGES: usize = 6;

/// A relay in which the broker feeds `other`, and the subscriber `s` is fed from the outbox.
fn from_the_outbox(office: &Office) -> Posts {
    let posts = office.relay().subscriber(Scripted::new("other").subscriber(1));
    posts.route(moved().into_route())
}

/// A relay in which the broker feeds both.
fn from_the_broker(office: &Office) -> Posts {
    let posts = office.relay().subscriber(Scripted::new("other").subscriber(1));
    posts.subscriber(moved())
}

fn moved() -> Subscriber {
    Scripted::new("s").subscriber(3)
}

async fn pause(office: &Office, is_paused: bool) {
    let changed = operate::set_paused(&*office.store(), "s", is_paused, "me").await;
    changed.expect("pause or resume");
}

/// Emits so many notes on three keys, and answers them.
async fn emit(office: &Office, word: &str, count: usize) -> Vec<String> {
    let notes: Vec<String> = (0..count).map(|number| format!("{word}-{number}")).collect();
    for (number, note) in notes.iter().enumerate() {
        let key = ["a", "b", "c"][number % 3];
        office.emit(&[(key, note)]).await;
    }
    notes
}

/// Lets `s` handle one event, pauses it, emits others and waits until the broker has brought them to `other`.
async fn with_a_backlog(office: &mut Office, posts: Posts) -> Vec<String> {
    office.start(posts);
    let mut notes = emit(office, "first", 1).await;
    expect(office, &notes).await;
    pause(office, true).await;
    office.stop().await; // a relay that starts knows of the pause
    notes.extend(emit(office, "waits", WAITING).await);
    notes
}

/// Waits until `other` has been brought all of these: their publisher is ahead of `s`.
async fn until_published(office: &Office, notes: &[String]) {
    let is_there = async || office.effects("other").await.len() >= notes.len();
    office.until("the other group has everything", is_there).await;
    assert_eq!(office.effects("s").await.len(), 1, "s is paused");
}

/// `s` has each effect once, each key in order.
async fn expect(office: &Office, notes: &[String]) {
    let numbered = async || {
        let effects = office.effects("s").await.into_iter();
        effects.filter(|note| note.contains('-')).collect::<Vec<_>>()
    };
    office
        .until("s has everything", async || numbered().await.len() >= notes.len())
        .await;
    let effects = office.effects("s").await;
    for lane in 0..3 {
        let of_lane = |note: &&String| {
            note.rsplit('-')
                .next()
                .and_then(|n| n.parse::<usize>().ok())
                .map(|n| n % 3)
                == Some(lane)
        };
        let (wanted, had): (Vec<_>, Vec<_>) = (
            notes.iter().filter(of_lane).collect(),
            effects.iter().filter(of_lane).collect(),
        );
        assert_eq!(had, wanted, "the effects of key {lane}");
    }
}

/// Moves `s`, resumes it, and goes on emitting: nothing is missing, doubled or out of order.
async fn expect_after_the_move(office: &mut Office, posts: Posts, mut notes: Vec<String>) {
    office.start(posts);
    pause(office, false).await;
    notes.extend(emit(office, "later", 10).await);
    expect(office, &notes).await;
    notes.extend(emit(office, "last", 10).await);
    expect(office, &notes).await;
    office.stop().await;
}

/// Events that wait in the outbox follow several pages of other events: the broker feeds the subscriber only after the last of
/// them.
pub async fn a_backlog_of_several_pages_survives_the_move_to_a_broker(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let posts = from_the_outbox(&office);
    let mut notes = with_a_backlog(&mut office, posts).await;
    for _ in 0..PAGES {
        emit_page(&office).await;
    }
    notes.extend(emit(&office, "behind", WAITING).await);
    office.start(from_the_outbox(&office));
    until_published(&office, &notes).await;
    office.stop().await;
    let posts = from_the_broker(&office);
    expect_after_the_move(&mut office, posts, notes).await;
}

/// A page of events that no subscriber wants.
async fn emit_page(office: &Office) {
    let payload = || postroom::parse_payload(&format!("\"{}\"", "x".repeat(PAGE_BYTES / 4))).expect("a payload");
    let event = |number: i32| Event::new("other.thing.v1", "thing", number.to_string(), payload()).expect("an event");
    let tx = table::begin(office.fresh.db()).await.expect("begin");
    let events: Vec<Event> = (0..5).map(event).collect();
    postroom::append(&tx, &events).await.expect("append");
    tx.commit().await.expect("commit");
}

/// The route that publishes has passed what waits in the outbox for the subscriber.
pub async fn a_backlog_in_the_outbox_survives_the_move_to_a_broker(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let posts = from_the_outbox(&office);
    let notes = with_a_backlog(&mut office, posts).await;
    office.start(from_the_outbox(&office));
    until_published(&office, &notes).await;
    office.stop().await;
    let posts = from_the_broker(&office);
    expect_after_the_move(&mut office, posts, notes).await;
}

/// A route that publishes is new, and begins at the head of the log.
pub async fn a_backlog_survives_a_publisher_that_begins_at_the_head(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let alone = |office: &Office| office.relay().outbox_only().route(moved().into_route());
    let posts = alone(&office);
    let notes = with_a_backlog(&mut office, posts).await;
    let posts = office.relay().publishing_from(Start::Head).subscriber(moved());
    expect_after_the_move(&mut office, posts, notes).await;
}

/// Another member of the group has what waits in the topic, and dies: it is behind the route's cursor in the log, and older than
/// retention keeps.
pub async fn a_backlog_in_the_topic_survives_the_move_to_the_outbox(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    office.start(from_the_broker(&office));
    let mut notes = emit(&office, "first", 1).await;
    expect(&office, &notes).await;
    office.stop().await;
    let feed = office.fresh.feed.clone().expect("a broker");
    let joined = feed
        .broker
        .subscribe(Join::new("s", std::slice::from_ref(&feed.topic), Start::Head))
        .await;
    let (mut member, (sender, mut taken)) = (joined.expect("joined"), tokio::sync::watch::channel(0));
    let mut holding = tokio::task::JoinSet::new();
    holding.spawn(async move {
        while let Ok(messages) = member.next(100).await {
            sender.send_modify(|count| *count += messages.len());
        }
    });
    office.start(office.relay().subscriber(Scripted::new("other").subscriber(1)));
    notes.extend(emit(&office, "waits", WAITING).await);
    until_published(&office, &notes).await;
    taken
        .wait_for(|count| *count > 0)
        .await
        .expect("the other member takes messages");
    office.stop().await;
    office.start(from_the_broker(&office));
    office.until_settled("s").await;
    let prune = Prune {
        keep: Duration::ZERO,
        batch: 10_000,
        archive: false,
    };
    office.store().prune(&prune).await.expect("prune");
    office.stop().await;
    holding.shutdown().await;
    assert_eq!(office.effects("s").await.len(), 1, "the other member has the rest");
    let posts = from_the_outbox(&office);
    expect_after_the_move(&mut office, posts, notes).await;
}

/// Events that wait behind one that fails keep their order when their subscriber moves from the broker to the outbox.
pub async fn what_waits_behind_a_failure_keeps_its_order_in_a_move(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let failing = Scripted::new("s").fails_on("waits-0");
    let subscriber = || failing.subscriber(1_000_000);
    office.start(office.relay().subscriber(subscriber()));
    let mut notes = emit(&office, "waits", 12).await;
    let others = async || office.effects("s").await.len() == 8;
    office.until("the other keys go on", others).await;
    let parked = async || office.number("select count(*) from postroom.outbox_parked").await == 4;
    office.until("what fails is parked with what follows", parked).await;
    office.stop().await;
    office.start(office.relay().outbox_only().route(subscriber().into_route()));
    notes.extend(emit(&office, "later", 12).await);
    let parked = async || office.number("select count(*) from postroom.outbox_parked").await == 8;
    office.until("what follows waits too", parked).await;
    failing.heal();
    expect(&office, &notes).await;
    office.stop().await;
}

/// A subscriber that wants more types than before, in a topic that its group has not joined yet.
pub async fn a_type_that_the_broker_brings_from_now_on_is_not_missed(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let nothing = || Filter::any_of(["suite.never.v1"]);
    let broker_brings = |office: &Office, brings: Filter| {
        let posts = office.relay().subscriber(Scripted::new("other").subscriber(1));
        posts.subscriber_of(moved(), brings)
    };
    let posts = broker_brings(&office, nothing());
    let notes = with_a_backlog(&mut office, posts).await;
    office.start(broker_brings(&office, nothing()));
    until_published(&office, &notes).await;
    office.stop().await;
    let posts = broker_brings(&office, Filter::all());
    expect_after_the_move(&mut office, posts, notes).await;
}

/// A subscriber that is switched off for a while gets what was published meanwhile.
pub async fn a_subscriber_that_is_switched_off_and_on_misses_nothing(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let posts = from_the_broker(&office);
    let notes = with_a_backlog(&mut office, posts).await;
    office.start(office.relay().subscriber(Scripted::new("other").subscriber(1)));
    until_published(&office, &notes).await;
    office.stop().await;
    let posts = from_the_broker(&office);
    expect_after_the_move(&mut office, posts, notes).await;
}
