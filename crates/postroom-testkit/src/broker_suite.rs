//! The contract of a [`Broker`], one function per clause; the messages that it publishes are also checked by the
//! suite of destinations.
//!
//! An adapter runs all of them on the real broker with one line: `postroom_testkit::broker_suite!(shared, private);`,
//! two functions that open a [`Site`] on a broker that others use too, and on one of the test's own.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a clause asserts: what it meets in vain has failed"
)]

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom::{
    Batch, Broker, Destination, Entry, Event, Join, Mark, Message, Mode, Ordering, Receipt, Start, Subscription, Topic,
};
use tokio::time::timeout;
use uuid::Uuid;

mod copies;
mod form;
mod published;

pub use copies::{a_copy_of_a_dead_letter_goes_when_it_is_acknowledged, a_dead_letter_says_where_from_and_why};
pub use form::{
    a_message_in_a_form_of_its_own_comes_back_as_its_event, a_message_that_is_sent_again_names_the_same_event,
    an_event_that_cannot_be_written_is_rejected_and_holds_its_key, form,
};
pub use published::Published;

/// Nothing that must happen takes longer.
const PATIENCE: Duration = Duration::from_secs(60);
/// A message that does not arrive within this time counts as not sent.
const QUIET: Duration = Duration::from_secs(4);

/// A broker of one test's own.
#[async_trait]
pub trait Site: Send {
    /// The broker under test.
    fn broker(&self) -> Arc<dyn Broker>;

    /// How the broker divides messages between the members of a group.
    fn sharing(&self) -> Sharing {
        Sharing::Spread
    }

    /// Makes a topic, with so many partitions if the broker has such.
    async fn create(&mut self, topic: &str, partitions: u16);

    /// Makes a topic that takes nothing; or none of this name, if the broker then refuses what is published to it.
    async fn create_refusing(&mut self, topic: &str);

    /// Puts bytes into a topic as a foreign program would, whatever they are.
    async fn put(&mut self, topic: &str, content_type: &str, body: &[u8]);

    /// Whether the broker can remove the copy of a dead letter.
    fn removes_copies(&self) -> bool {
        true
    }

    /// The broker's own dead letters of this topic, as text: origin, reason and body.
    async fn dead_letters(&mut self, topic: &str) -> Vec<String>;

    /// Stops the broker.
    async fn stop(&mut self);

    /// Starts the broker again with its stored messages.
    async fn start(&mut self);
}

/// How a broker divides messages between the members of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Each member gets some of the keys.
    Spread,
    /// One member gets all messages, and another takes over when it leaves: such a broker keeps keys in order by feeding one
    /// member at a time, and does not report the number of members.
    Standby,
}

/// Makes every clause a test of its own: `broker_suite!(shared, private);`. Only clauses that take the broker away use a
/// private one.
#[macro_export]
macro_rules! broker_suite {
    ($shared:path, $private:path) => {
        $crate::broker_suite! { $private; a_restarted_broker_is_found_again }
        $crate::broker_suite! { $shared;
            what_is_published_is_received_whole_in_both_modes
            keys_are_received_in_order
            what_is_not_acknowledged_comes_again_in_order
            what_is_acknowledged_does_not_come_again
            what_is_given_back_comes_again
            members_share_a_group
            each_group_gets_everything
            a_new_group_can_begin_at_the_head
            what_is_no_event_is_handed_out_too
            a_dead_letter_says_where_from_and_why
            a_copy_of_a_dead_letter_goes_when_it_is_acknowledged
            a_message_in_a_form_of_its_own_comes_back_as_its_event
            a_message_that_is_sent_again_names_the_same_event
            an_event_that_cannot_be_written_is_rejected_and_holds_its_key
            a_slow_member_loses_nothing
            what_waits_for_a_group_is_counted
        }
    };
    ($open:path; $($clause:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $clause() {
                let site = $open().await;
                $crate::outbox_suite::check(site, $crate::broker_suite::$clause).await;
            }
        )*
    };
}

fn entry(id: i64, key: &str) -> Entry {
    let payload = serde_json::value::RawValue::from_string(format!("{{\"n\":{id}}}")).expect("JSON");
    Entry {
        id,
        event: Event::new("suite.noted.v1", "suite", key, payload).expect("an event"),
        created_at: postroom::clock::now(),
    }
}

fn entries(from: i64, to: i64, keys: i64) -> Vec<Entry> {
    (from..to).map(|n| entry(n, &format!("key-{}", n % keys))).collect()
}

/// A topic that nobody else uses.
async fn topic_of(site: &mut impl Site) -> String {
    let topic = format!("suite-{}", Uuid::now_v7());
    site.create(&topic, 3).await;
    topic
}

fn group() -> String {
    format!("suite-{}", Uuid::now_v7())
}

fn publisher(site: &impl Site, topic: &str, mode: Mode) -> Arc<dyn Destination> {
    site.broker().publisher(topic.parse::<Topic>().expect("a topic"), mode)
}

/// Publishes until everything is delivered: a broker that was restarted may be away for a while.
async fn publish(publisher: &Arc<dyn Destination>, entries: &[Entry]) {
    let mut rest: Vec<&Entry> = entries.iter().collect();
    let all = async {
        while !rest.is_empty() {
            let batch = Batch {
                entries: &rest,
                ordering: Ordering::Key,
            };
            let receipts = publisher.deliver(&batch).await;
            let mut answers = receipts.iter();
            rest.retain(|_| answers.next() != Some(&Receipt::Delivered));
            if !rest.is_empty() {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    };
    timeout(PATIENCE, all).await.expect("everything is published in time");
}

async fn join(site: &impl Site, group: &str, topic: &str, start: Start) -> Box<dyn Subscription> {
    let topics = [topic.to_owned()];
    let joining = async {
        loop {
            match site.broker().subscribe(Join::new(group, &topics, start)).await {
                Ok(subscription) => return subscription,
                Err(error) => {
                    tracing::debug!(error = error.report(), "joining again");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        }
    };
    timeout(PATIENCE, joining).await.expect("the group is joined in time")
}

/// The number in a message of [`entry`].
fn number(message: &Message) -> i64 {
    let event = message.event().expect("an event");
    let payload: HashMap<String, i64> = event.decode().expect("a number");
    payload["n"]
}

fn marks(messages: &[Message]) -> Vec<Mark> {
    messages.iter().map(|message| message.mark.clone()).collect()
}

/// The next messages, at most `max`.
async fn next(subscription: &mut Box<dyn Subscription>, max: usize) -> Vec<Message> {
    let next = timeout(PATIENCE, subscription.next(max)).await;
    next.expect("messages come in time").expect("messages")
}

/// Receives so many messages and acknowledges them.
async fn receive(subscription: &mut Box<dyn Subscription>, count: usize) -> Vec<i64> {
    let mut numbers = Vec::new();
    while numbers.len() < count {
        let next = timeout(PATIENCE, subscription.next(100)).await;
        let messages = next
            .unwrap_or_else(|_late| panic_missing(&numbers, count))
            .expect("messages");
        numbers.extend(messages.iter().map(number));
        subscription.ack(&marks(&messages)).await.expect("acknowledged");
    }
    numbers
}

/// Receives so many messages, whatever they are, and acknowledges them; answers their bodies.
async fn receive_bodies(subscription: &mut Box<dyn Subscription>, count: usize) -> Vec<String> {
    let mut bodies = Vec::new();
    while bodies.len() < count {
        let messages = next(subscription, 100).await;
        bodies.extend(
            messages
                .iter()
                .map(|message| String::from_utf8_lossy(&message.body).into_owned()),
        );
        subscription.ack(&marks(&messages)).await.expect("acknowledged");
    }
    bodies
}

#[expect(clippy::panic, reason = "a clause asserts")]
fn panic_missing(numbers: &[i64], count: usize) -> ! {
    panic!(
        "{} of {count} messages came in {PATIENCE:?}: {numbers:?}",
        numbers.len()
    )
}

/// Nothing comes for a while.
async fn nothing_comes(subscription: &mut Box<dyn Subscription>) {
    if let Ok(messages) = timeout(QUIET, subscription.next(100)).await {
        let numbers: Vec<i64> = messages.expect("messages").iter().map(number).collect();
        assert!(numbers.is_empty(), "came: {numbers:?}");
    }
}

/// Whether each key's numbers come in order, the first time each comes.
fn assert_ordered(numbers: &[i64], keys: i64) {
    let mut seen = BTreeSet::new();
    let firsts: Vec<i64> = numbers.iter().copied().filter(|n| seen.insert(*n)).collect();
    for key in 0..keys {
        let of_key: Vec<i64> = firsts.iter().copied().filter(|n| n % keys == key).collect();
        assert!(of_key.is_sorted(), "key {key}: {of_key:?}");
    }
}

/// An event comes back as it was published, attributes beside the data or around it.
pub async fn what_is_published_is_received_whole_in_both_modes(mut site: impl Site) {
    for mode in [Mode::Binary, Mode::Structured] {
        let topic = topic_of(&mut site).await;
        let mut subscription = join(&site, &group(), &topic, Start::Beginning).await;
        let payload = r#"{"text":"한글 \"q\" é","big":12345678901234567890.5,"list":[null,true]}"#;
        let mut sent = entry(7, "a key / with: ünusual 문자");
        sent.event.payload = serde_json::value::RawValue::from_string(payload.to_owned()).expect("JSON");
        sent.event.source = "suite".to_owned();
        sent.event = sent.event.header("tenant", "acme é").header("X-Odd", "1");
        publish(&publisher(&site, &topic, mode.clone()), &[sent.clone()]).await;
        let messages = next(&mut subscription, 10).await;
        let event = messages[0].event().expect("an event");
        let shown = |event: &Event| serde_json::to_string_pretty(event).expect("JSON");
        assert_eq!(shown(&event), shown(&sent.event), "{mode:?}");
        assert_eq!(messages[0].origin.topic, topic);
    }
}

/// People who watch see how far a group is behind.
pub async fn what_waits_for_a_group_is_counted(mut site: impl Site) {
    /// A broker may count a mark of its own for each of the three partitions.
    const MARKS: u64 = 3;
    let (topic, group) = (topic_of(&mut site).await, group());
    drop(join(&site, &group, &topic, Start::Beginning).await);
    publish(&publisher(&site, &topic, Mode::Binary), &entries(0, 30, 5)).await;
    let topics = [topic.clone()];
    let until = async |is_so: fn(u64) -> bool| {
        let mut waiting = u64::MAX;
        let looking = async {
            while !is_so(waiting) {
                tokio::time::sleep(Duration::from_millis(100)).await;
                waiting = site.broker().waiting(&group, &topics).await.expect("a number");
            }
        };
        let is_seen = timeout(PATIENCE, looking).await.is_ok();
        assert!(is_seen, "{waiting} wait");
    };
    until(|waiting| (30..=30 + MARKS).contains(&waiting)).await;
    let mut member = join(&site, &group, &topic, Start::Beginning).await;
    receive(&mut member, 30).await;
    until(|waiting| waiting <= MARKS).await;
}

/// Contract 1: order by key, over many messages.
pub async fn keys_are_received_in_order(mut site: impl Site) {
    let topic = topic_of(&mut site).await;
    let mut subscription = join(&site, &group(), &topic, Start::Beginning).await;
    let sent = entries(0, 1000, 17);
    let publisher = publisher(&site, &topic, Mode::Binary);
    for batch in sent.chunks(150) {
        publish(&publisher, batch).await;
    }
    let came = receive(&mut subscription, sent.len()).await;
    assert_eq!(came.iter().collect::<BTreeSet<_>>().len(), sent.len());
    assert_ordered(&came, 17);
}

/// Contract 2: a member that leaves without acknowledging gives everything back, in order.
pub async fn what_is_not_acknowledged_comes_again_in_order(mut site: impl Site) {
    let (topic, group) = (topic_of(&mut site).await, group());
    let mut first = join(&site, &group, &topic, Start::Beginning).await;
    publish(&publisher(&site, &topic, Mode::Binary), &entries(0, 60, 5)).await;
    let mut taken = Vec::new();
    while taken.len() < 60 {
        let messages = next(&mut first, 25).await;
        taken.extend(messages.iter().map(number));
    }
    drop(first);
    let mut second = join(&site, &group, &topic, Start::Beginning).await;
    let came = receive(&mut second, 60).await;
    assert_eq!(came.iter().copied().collect::<BTreeSet<_>>(), (0..60).collect());
    assert_ordered(&came, 5);
}

/// Contract 2: what is acknowledged is done, for the next member too.
pub async fn what_is_acknowledged_does_not_come_again(mut site: impl Site) {
    let (topic, group) = (topic_of(&mut site).await, group());
    let publisher = publisher(&site, &topic, Mode::Binary);
    let mut first = join(&site, &group, &topic, Start::Beginning).await;
    publish(&publisher, &entries(0, 20, 3)).await;
    receive(&mut first, 20).await;
    drop(first);
    publish(&publisher, &entries(20, 30, 3)).await;
    let mut second = join(&site, &group, &topic, Start::Beginning).await;
    let came = receive(&mut second, 10).await;
    assert_eq!(came.into_iter().collect::<BTreeSet<_>>(), (20..30).collect());
    nothing_comes(&mut second).await;
}

/// Contract 2: what is given back comes again, before anything later of its key.
pub async fn what_is_given_back_comes_again(mut site: impl Site) {
    let topic = topic_of(&mut site).await;
    let mut subscription = join(&site, &group(), &topic, Start::Beginning).await;
    publish(&publisher(&site, &topic, Mode::Binary), &entries(0, 30, 4)).await;
    let messages = next(&mut subscription, 10).await;
    let (kept, back) = messages.split_at(messages.len() / 2);
    subscription.ack(&marks(kept)).await.expect("acknowledged");
    subscription.nack(&marks(back)).await.expect("given back");
    let mut came: Vec<i64> = kept.iter().map(number).collect();
    came.extend(receive(&mut subscription, 30 - kept.len()).await);
    assert_eq!(came.iter().copied().collect::<BTreeSet<_>>(), (0..30).collect());
    assert_ordered(&came, 4);
}

/// Contract 2: two members of a group together get everything, in order by key. Both get some of it; or one does, and the
/// other takes over from it, if the broker cannot do better.
pub async fn members_share_a_group(mut site: impl Site) {
    let (topic, group) = (topic_of(&mut site).await, group());
    let publisher = publisher(&site, &topic, Mode::Binary);
    let mut pair = Pair::join(&site, &group, &topic).await;
    let is_spread = site.sharing() == Sharing::Spread;
    let mut sent = 0;
    let working = async {
        // It may take a while until a group is shared out: until then there is more to do.
        while sent < 300 || (is_spread && pair.shares.contains(&0)) {
            publish(&publisher, &entries(sent, sent + 30, 30)).await;
            sent += 30;
            pair.receive(sent).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let worked = timeout(PATIENCE, working).await;
    assert!(worked.is_ok(), "{sent} were sent, the two got {:?}", pair.shares);
    assert_ordered(&pair.came, 30);
    if !is_spread {
        // Each queue goes to the member that asked for it first; the other one stands by.
        let mut other = pair.leave();
        publish(&publisher, &entries(sent, sent + 30, 30)).await;
        let came = receive(&mut other, 30).await;
        assert!(
            came.into_iter()
                .collect::<BTreeSet<_>>()
                .into_iter()
                .eq(sent..sent + 30)
        );
    }
}

/// Two members of a group.
struct Pair {
    members: [Box<dyn Subscription>; 2],
    /// How many messages each got.
    shares: [usize; 2],
    came: Vec<i64>,
    seen: BTreeSet<i64>,
}

impl Pair {
    async fn join(site: &impl Site, group: &str, topic: &str) -> Self {
        let one = join(site, group, topic, Start::Beginning).await;
        let other = join(site, group, topic, Start::Beginning).await;
        Self {
            members: [one, other],
            shares: [0, 0],
            came: Vec::new(),
            seen: BTreeSet::new(),
        }
    }

    /// Receives until so many different messages have come.
    async fn receive(&mut self, count: i64) {
        while i64::try_from(self.seen.len()) != Ok(count) {
            let [one, other] = &mut self.members;
            let (messages, at) = tokio::select! {
                messages = one.next(20) => (messages, 0),
                messages = other.next(20) => (messages, 1),
            };
            let messages = messages.expect("messages");
            self.shares[at] += messages.len();
            self.came.extend(messages.iter().map(number));
            self.seen.extend(messages.iter().map(number));
            // A member that just lost a partition cannot acknowledge it; the message comes again at the other.
            if let Err(error) = self.members[at].ack(&marks(&messages)).await {
                tracing::debug!(error = error.report(), "not acknowledged");
            }
        }
    }

    /// The one that got something leaves; answers the other.
    fn leave(self) -> Box<dyn Subscription> {
        let [one, other] = self.members;
        if self.shares[0] > 0 { other } else { one }
    }
}

/// Contract 1: every group that joined gets everything.
pub async fn each_group_gets_everything(mut site: impl Site) {
    let topic = topic_of(&mut site).await;
    let mut one = join(&site, &group(), &topic, Start::Beginning).await;
    let mut other = join(&site, &group(), &topic, Start::Beginning).await;
    publish(&publisher(&site, &topic, Mode::Binary), &entries(0, 20, 3)).await;
    for subscription in [&mut one, &mut other] {
        let came = receive(subscription, 20).await;
        assert_eq!(came.into_iter().collect::<BTreeSet<_>>(), (0..20).collect());
    }
}

/// A group that joins at the head gets what is published from then on.
pub async fn a_new_group_can_begin_at_the_head(mut site: impl Site) {
    let topic = topic_of(&mut site).await;
    let publisher = publisher(&site, &topic, Mode::Binary);
    let mut old = join(&site, &group(), &topic, Start::Beginning).await;
    publish(&publisher, &entries(0, 10, 3)).await;
    receive(&mut old, 10).await;
    let mut new = join(&site, &group(), &topic, Start::Head).await;
    publish(&publisher, &entries(10, 15, 3)).await;
    let came = receive(&mut new, 5).await;
    assert_eq!(came.into_iter().collect::<BTreeSet<_>>(), (10..15).collect());
}

/// Bytes that are no event are handed out with where they came from, and can be acknowledged.
pub async fn what_is_no_event_is_handed_out_too(mut site: impl Site) {
    let topic = topic_of(&mut site).await;
    let mut subscription = join(&site, &group(), &topic, Start::Beginning).await;
    site.put(&topic, "application/cloudevents+json", b"{broken \xff").await;
    let messages = next(&mut subscription, 10).await;
    assert_eq!(messages[0].body, b"{broken \xff");
    assert!(messages[0].event().is_err());
    subscription.ack(&marks(&messages)).await.expect("acknowledged");
    publish(&publisher(&site, &topic, Mode::Binary), &entries(0, 3, 3)).await;
    let came = receive(&mut subscription, 3).await;
    assert_eq!(came.into_iter().collect::<BTreeSet<_>>(), (0..3).collect());
}

/// A member that takes its time is handed no more than it asks for, and loses nothing.
pub async fn a_slow_member_loses_nothing(mut site: impl Site) {
    let topic = topic_of(&mut site).await;
    let mut subscription = join(&site, &group(), &topic, Start::Beginning).await;
    publish(&publisher(&site, &topic, Mode::Binary), &entries(0, 500, 7)).await;
    let mut came = Vec::new();
    while came.len() < 500 {
        let messages = next(&mut subscription, 7).await;
        assert!(messages.len() <= 7, "{} messages at once", messages.len());
        came.extend(messages.iter().map(number));
        tokio::time::sleep(Duration::from_millis(3)).await;
        subscription.ack(&marks(&messages)).await.expect("acknowledged");
    }
    assert_eq!(came.iter().copied().collect::<BTreeSet<_>>(), (0..500).collect());
    assert_ordered(&came, 7);
}

/// Contract 3: a broker that was restarted is found again by publisher and subscriber, and has lost nothing.
pub async fn a_restarted_broker_is_found_again(mut site: impl Site) {
    let (topic, group) = (topic_of(&mut site).await, group());
    let publisher = publisher(&site, &topic, Mode::Binary);
    let mut subscription = join(&site, &group, &topic, Start::Beginning).await;
    publish(&publisher, &entries(0, 20, 3)).await;
    let mut came = receive(&mut subscription, 10).await;
    site.stop().await;
    site.start().await;
    publish(&publisher, &entries(20, 40, 3)).await;
    let all = async {
        while came.iter().collect::<BTreeSet<_>>().len() < 40 {
            let messages = match subscription.next(100).await {
                Ok(messages) => messages,
                Err(error) => {
                    tracing::debug!(error = error.report(), "joining again");
                    subscription = join(&site, &group, &topic, Start::Beginning).await;
                    continue;
                }
            };
            came.extend(messages.iter().map(number));
            if let Err(error) = subscription.ack(&marks(&messages)).await {
                tracing::debug!(error = error.report(), "not acknowledged");
                subscription = join(&site, &group, &topic, Start::Beginning).await;
            }
        }
    };
    timeout(PATIENCE, all).await.expect("everything comes in time");
    assert_ordered(&came, 3);
}
