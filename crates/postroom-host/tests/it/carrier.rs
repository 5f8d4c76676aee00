//! Which routes carry a module's events.

use std::sync::Arc;

use postroom::{Filter, Relay, Route, Start, Subscriber, To, Tx};
use postroom_host::Host;
use postroom_testkit::fresh;
use postroom_testkit::memory_broker::MemoryBroker;

async fn nothing(_tx: &mut Tx, _event: &postroom::Event) -> postroom::Result<()> {
    Ok(())
}

/// By the types they take, whatever they are called: subscribers, fed by a broker or not, and routes that publish.
#[tokio::test]
async fn routes_are_found_by_what_they_carry() {
    let fresh = fresh::sqlite().await;
    let broker: Arc<dyn postroom::Broker> = Arc::new(MemoryBroker::default());
    let to = |name: &str, pattern: &str| Route {
        filter: Filter::any_of([pattern]),
        start: Start::Beginning,
        ..Route::new(
            name,
            To::Destination(broker.publisher("books".parse().unwrap(), Default::default())),
        )
    };
    let fed = Subscriber::matching("audit", ["**"], nothing).fed_by(
        Arc::clone(&broker),
        vec!["books".to_owned()],
        Filter::any_of(["book.sold.v1"]),
    );
    let relay = Relay::new(fresh.store() as _)
        .subscriber(Subscriber::matching("shelf", ["book.**"], nothing))
        .subscriber(Subscriber::matching("kitchen", ["cup.**"], nothing))
        .route(fed)
        .route(to("whatever-it-is-called", "book.*.v1"))
        .route(to("cups", "cup.**"));
    let host = Host::new(fresh.store(), &relay);
    let carriers = |types: &[&str]| -> Vec<String> {
        let carriers = host.carriers(types);
        carriers.into_iter().map(|carrier| carrier.route).collect()
    };
    assert_eq!(carriers(&["book.sold.v1"]), ["shelf", "audit", "whatever-it-is-called"]);
    assert_eq!(carriers(&["book.sold.v1", "cup.broken.v1"]).len(), 5);
    assert!(carriers(&[]).is_empty());
}
