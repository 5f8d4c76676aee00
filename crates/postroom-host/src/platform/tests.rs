//! How routes, modules and brokers are joined, and which mistakes are refused.

use async_trait::async_trait;
use postroom::{Batch, Broker, Dead, Destination, DomainEvent, Event, Filter, Receipt, Source, Subscriber, To, Tx};
use postroom_testkit::memory_broker::MemoryBroker;
use postroom_testkit::{Fresh, fresh};
use schemars::JsonSchema;
use serde::Serialize;

use super::*;

#[derive(Serialize, JsonSchema)]
struct Paid;

impl DomainEvent for Paid {
    const TYPE: &'static str = "shop.order.paid.v1";
    const AGGREGATE_TYPE: &'static str = "order";
    fn aggregate_id(&self) -> String {
        "1".to_owned()
    }
}

#[derive(Serialize, JsonSchema)]
struct Posted;

impl DomainEvent for Posted {
    const TYPE: &'static str = "Posted";
    const AGGREGATE_TYPE: &'static str = "account";
    fn aggregate_id(&self) -> String {
        "1".to_owned()
    }
}

/// Takes nothing.
#[derive(Debug)]
struct Nowhere;

#[async_trait]
impl Destination for Nowhere {
    async fn deliver(&self, _batch: &Batch<'_>) -> Vec<Receipt> {
        Vec::new()
    }
}

fn nowhere(name: &str, pattern: &str) -> Route {
    Route {
        filter: Filter::any_of([pattern]),
        ..Route::new(name, To::Destination(Arc::new(Nowhere)))
    }
}

fn group(name: &str, pattern: &str) -> Subscriber {
    async fn ignore(_tx: &mut Tx, _event: &Event) -> Result<()> {
        Ok(())
    }
    Subscriber::matching(name, [pattern], ignore)
}

fn shop() -> Module {
    let shop = Module::new("shop").event::<Paid>();
    shop.subscriber(group("sales", "shop.**"))
        .subscriber(group("audit", "**"))
}

fn bank() -> Module {
    let bank = Module::new("bank").event::<Posted>();
    bank.topic("bank-events".parse().unwrap())
        .subscriber(group("balances", "Posted"))
}

fn broker() -> Arc<dyn Broker> {
    Arc::new(MemoryBroker::default())
}

/// The routes of a process, each with the groups that it awaits and the topics that feed it.
fn joined(platform: Platform) -> Vec<(String, Vec<String>, Vec<String>)> {
    let process = platform.build().unwrap();
    let routes = process.relay.routes().iter().map(|route| {
        let topics = match &route.from {
            Source::Outbox => Vec::new(),
            Source::Broker { topics, .. } => topics.clone(),
        };
        (route.name.clone(), route.awaits.clone(), topics)
    });
    routes.collect()
}

fn route(name: &str, awaits: &[&str], topics: &[&str]) -> (String, Vec<String>, Vec<String>) {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    (name.to_owned(), owned(awaits), owned(topics))
}

#[tokio::test]
async fn a_publishing_route_awaits_the_groups_that_read_its_topics() {
    let (fresh, feed) = (fresh::sqlite().await, Feed::new("x", broker()));
    let platform = Platform::new(fresh.store()).modules([shop(), bank()]);
    let expected = [
        route("sales", &[], &["order-events"]),
        route("audit", &[], &["bank-events", "order-events"]),
        route("balances", &[], &["bank-events"]),
        route("to-x", &["sales", "audit"], &[]),
        route("to-x-bank-events", &["audit", "balances"], &[]),
    ];
    assert_eq!(joined(platform.feed("shop", feed.clone()).feed("bank", feed)), expected);
}

/// Later events of a key would otherwise overtake a failed one on the way to a subscriber that holds it.
#[tokio::test]
async fn a_publishing_route_holds_the_keys_that_one_of_its_readers_holds() {
    let fresh = fresh::sqlite().await;
    let mut bank = bank();
    bank.subscribers[0].dead = Dead::Hold;
    bank.subscribers[0].records = true;
    let feed = Feed::new("x", broker());
    let platform = Platform::new(fresh.store()).modules([shop(), bank]);
    let process = platform.feed("shop", feed.clone()).feed("bank", feed).build().unwrap();
    let policy = |name: &str| {
        let route = process.relay.routes().iter().find(|route| route.name == name).unwrap();
        (route.dead, route.records)
    };
    assert_eq!(policy("to-x"), (Dead::Skip, false));
    assert_eq!(policy("to-x-bank-events"), (Dead::Hold, true));
}

#[tokio::test]
async fn several_brokers_feed_a_module_each_and_a_module_without_one_reads_the_log() {
    let fresh = fresh::sqlite().await;
    let three = [
        shop(),
        bank(),
        Module::new("cellar").subscriber(group("stock", "shop.**")),
    ];
    let platform = Platform::new(fresh.store()).modules(three);
    let platform = platform
        .feed("bank", Feed::new("y", broker()))
        .feed("shop", Feed::new("x", broker()));
    let expected = [
        route("balances", &[], &["bank-events"]),
        route("to-y-bank-events", &["balances"], &[]),
        route("sales", &[], &["order-events"]),
        route("audit", &[], &["bank-events", "order-events"]),
        route("to-x", &["sales", "audit"], &[]),
        route("to-x-bank-events", &["audit"], &[]),
        route("stock", &[], &[]),
    ];
    assert_eq!(joined(platform), expected);
}

#[tokio::test]
async fn events_that_a_route_publishes_are_not_published_twice() {
    let fresh = fresh::sqlite().await;
    let platform = |broker_name: &str| {
        Platform::new(fresh.store())
            .module(shop())
            .feed("shop", Feed::new("x", broker()))
            .publish(nowhere("orders", "shop.**"), broker_name, Topic::default())
    };
    let groups = [
        route("sales", &[], &["order-events"]),
        route("audit", &[], &["order-events"]),
    ];
    let [sales, audit] = groups;
    let once = [route("orders", &["sales", "audit"], &[]), sales.clone(), audit.clone()];
    assert_eq!(joined(platform("x")), once);
    let to_another = [
        route("orders", &[], &[]),
        sales,
        audit,
        route("to-x", &["sales", "audit"], &[]),
    ];
    assert_eq!(joined(platform("y")), to_another);
}

/// Nothing is published because a straight subscriber listens, and no route waits for it.
#[tokio::test]
async fn a_straight_subscriber_of_a_fed_module_reads_the_log() {
    let fresh = fresh::sqlite().await;
    let bank = || bank().subscriber(group("bank-mapper", "shop.**").straight());
    let platform = || Platform::new(fresh.store()).modules([shop(), bank()]);
    let expected = [
        route("balances", &[], &["bank-events"]),
        route("bank-mapper", &[], &[]),
        route("to-x-bank-events", &["balances"], &[]),
        route("sales", &[], &[]),
        route("audit", &[], &[]),
    ];
    let fed = || platform().feed("bank", Feed::new("x", broker()));
    assert_eq!(joined(fed()), expected);
    let published = fed().publish(nowhere("orders", "shop.**"), "x", Topic::default());
    assert_eq!(
        joined(published).first(),
        Some(&route("orders", &[], &[])),
        "it awaits nobody"
    );
    let modules = [shop(), bank()];
    let groups = Topics::of(&modules).groups(&modules[1]);
    assert_eq!(groups, [("balances".to_owned(), vec!["bank-events".to_owned()])]);
}

#[tokio::test]
async fn the_catalogue_tells_which_subscribers_are_straight() {
    let modules = [shop(), bank().subscriber(group("bank-mapper", "shop.**").straight())];
    let catalogue = Catalogue::of(&modules);
    let paid = catalogue
        .events
        .iter()
        .find(|listed| listed.event.name == Paid::TYPE)
        .unwrap();
    assert_eq!(paid.subscribers, ["sales", "audit", "bank-mapper"]);
    assert_eq!(paid.straight, ["bank-mapper"]);
    assert_eq!(paid.listeners(), ["sales", "audit", "bank-mapper (straight)"]);
    assert!(catalogue.graph().contains(">bank-mapper (straight)<"));
    let operations = catalogue.asyncapi()["operations"].clone();
    assert!(operations.get("sales.receive.order-events").is_some(), "{operations}");
    assert!(
        operations.get("bank-mapper.receive.order-events").is_none(),
        "{operations}"
    );
}

#[tokio::test]
async fn a_route_of_a_module_leads_to_its_destination() {
    let fresh = fresh::sqlite().await;
    let module = shop().route(nowhere("shop-partner", "shop.**"));
    let expected = [
        route("sales", &[], &[]),
        route("audit", &[], &[]),
        route("shop-partner", &[], &[]),
    ];
    assert_eq!(joined(Platform::new(fresh.store()).module(module)), expected);
}

#[tokio::test]
async fn a_mistake_names_the_module_the_route_or_the_setting() {
    let fresh = fresh::sqlite().await;
    let new = |fresh: &Fresh| Platform::new(fresh.store());
    let check = |platform: Platform, words: &str| {
        let error = platform.build().unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    check(new(&fresh).lease_ttl(Duration::from_millis(999)), "lease_ttl is 999ms");
    check(new(&fresh).alerts_every(Duration::ZERO), "alerts_every is zero");
    let forgetful = Retention {
        inbox: Duration::ZERO,
        ..Retention::default()
    };
    check(new(&fresh).retention(forgetful), "retention.inbox (0ns)");
    check(new(&fresh).modules([shop(), shop()]), "two modules are named \"shop\"");
    check(
        new(&fresh).module(Module::new("postroom")),
        "a module is named \"postroom\"",
    );
    check(
        new(&fresh).route(nowhere("orders", "shop.**.paid")),
        "route or subscriber \"orders\": the pattern \"shop.**.paid\" matches no event type",
    );
    let fed = new(&fresh).module(shop()).feed("shpo", broker());
    check(fed, "the module \"shpo\", which does not exist; there is [\"shop\"]");
    let twice = new(&fresh).module(shop()).feed("shop", broker());
    check(
        twice.feed("shop", Feed::new("x", broker())),
        "the module \"shop\" is fed by the broker \"broker\" and by the broker \"x\"",
    );
    let alike = new(&fresh).modules([shop(), bank()]).feed("shop", broker());
    check(
        alike.feed("bank", broker()),
        "two brokers that are both named \"broker\"",
    );
    let unnamed = new(&fresh).module(shop()).feed("shop", broker());
    check(
        unnamed.publish(nowhere("orders", "shop.**"), "kafka", Topic::default()),
        "the route \"orders\" publishes to the broker \"kafka\", and the broker of the module \"shop\" has no name",
    );
    let other = Module::new("other").route(nowhere("sales", "**"));
    check(
        new(&fresh).modules([shop(), other]),
        "\"sales\" is the name of a subscriber of the module shop and of a route of the module other",
    );
    check(
        new(&fresh).module(shop()).route(nowhere("audit", "**")),
        "\"audit\" is the name of a route of the platform and of a subscriber of the module shop",
    );
    let read = |_message: &postroom::Message| -> Result<_> { Ok(None) };
    let straight = bank().subscriber(group("mapper", "Posted").straight().reads(read));
    check(
        new(&fresh).module(straight),
        "the subscriber \"mapper\" of the module bank has a reader for messages of a broker, but reads the outbox",
    );
    let without_topic = || bank().subscriber(group("reader", "undeclared.v1").reads(read));
    check(
        new(&fresh).module(without_topic()).feed("bank", broker()),
        "has a reader for messages of a broker, but listens to no event type that a module declares",
    );
    let unfed = new(&fresh).module(without_topic());
    assert!(unfed.build().is_ok(), "without a broker, no subscriber has a topic");
    let broken = Feed::new("x", broker()).publisher(|_route, _topic, _mode| Err("no such cluster"));
    check(
        new(&fresh).module(shop()).feed("shop", broken),
        "open the publisher of the route \"to-x\": no such cluster",
    );
}

#[tokio::test]
async fn subscribers_without_a_screen_have_that_of_their_module() {
    struct Nothing;
    impl postroom::Screen for Nothing {
        fn event(&self, _event: &mut Event) -> Result<()> {
            Ok(())
        }
        fn raw(&self, _name: &str, _value: &[u8]) -> Vec<u8> {
            Vec::new()
        }
    }
    let (fresh, own) = (fresh::sqlite().await, Arc::new(Nothing) as Arc<dyn postroom::Screen>);
    let module = Module::new("shop")
        .subscriber(group("sales", "shop.**"))
        .subscriber(group("audit", "**").screen(Arc::clone(&own)));
    let shared = Arc::new(Nothing) as Arc<dyn postroom::Screen>;
    let platform = Platform::new(fresh.store()).modules([module.screen(Arc::clone(&shared)), bank()]);
    let process = platform.build().unwrap();
    let screens = process.relay.routes().iter().map(|route| match &route.to {
        To::Subscriber(subscriber) => subscriber.screen.clone(),
        To::Destination(_) => None,
    });
    let screens: Vec<_> = screens.collect();
    assert_eq!(screens.len(), 3);
    for (screen, expected) in screens.iter().zip([Some(&shared), Some(&own), None]) {
        let is_same = screen.as_ref().map(Arc::as_ptr).map(<*const _>::cast::<()>)
            == expected.map(Arc::as_ptr).map(<*const _>::cast::<()>);
        assert!(is_same, "{screens:?}");
    }
}

/// The topic of a module whose queue other programs know is published by its own feed alone.
#[tokio::test]
async fn an_exclusive_feed_alone_publishes_the_events_of_its_module() {
    let fresh = fresh::sqlite().await;
    let platform = Platform::new(fresh.store()).modules([shop(), bank()]);
    let platform = platform
        .feed("bank", Feed::new("x-bank", broker()).exclusive())
        .feed("shop", Feed::new("x", broker()));
    let expected = [
        route("balances", &[], &["bank-events"]),
        route("to-x-bank-bank-events", &["balances"], &[]),
        route("sales", &[], &["order-events"]),
        route("audit", &[], &["order-events"]),
        route("to-x", &["sales", "audit"], &[]),
    ];
    assert_eq!(joined(platform), expected);
}

/// Everything in the topic has the form of its module, and whoever reads the topic can read it.
#[tokio::test]
async fn the_form_of_a_module_is_written_to_its_topic_and_read_by_its_readers() {
    let fresh = fresh::sqlite().await;
    let form = || postroom_testkit::broker_suite::form();
    let modes = Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = Arc::clone(&modes);
    let feed = Feed::new("x", broker()).publisher(move |route: &str, _topic, mode: postroom::Mode| {
        let is_own = matches!(mode, postroom::Mode::Own(_));
        noted.lock().unwrap().push((route.to_owned(), is_own));
        Ok::<_, BoxError>(Arc::new(Nowhere) as Arc<dyn Destination>)
    });
    let platform = Platform::new(fresh.store()).modules([shop(), bank().form(form())]);
    let process = platform.feed("shop", feed.clone()).feed("bank", feed).build().unwrap();
    let expected = [("to-x".to_owned(), false), ("to-x-bank-events".to_owned(), true)];
    assert_eq!(*modes.lock().unwrap(), expected);
    let reads = |group: &str| {
        let route = process.relay.routes().iter().find(|route| route.name == group).unwrap();
        match &route.to {
            To::Subscriber(subscriber) => subscriber.reader.is_some(),
            To::Destination(_) => false,
        }
    };
    assert_eq!(["sales", "audit", "balances"].map(reads), [false, true, true]);
    let same_topic = Module::new("till")
        .event::<Paid>()
        .topic("bank-events".parse().unwrap());
    let platform = Platform::new(fresh.store()).modules([bank().form(form()), same_topic]);
    let says = platform.build().unwrap_err().to_string();
    assert!(
        says.contains("\"bank\" and \"till\" publish to the topic bank-events"),
        "{says}"
    );
}
