//! A platform at work: what a module brings besides subscribers, and how a process ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use postroom::{Batch, CancellationToken, Destination, Event, Receipt, Route, Subscriber, To, Tx};
use postroom_host::prometheus_client::metrics::counter::Counter;
use postroom_host::{Module, Platform};
use postroom_testkit::stage::Stage;
use postroom_testkit::wait::{PATIENCE, until};
use postroom_testkit::{Client, Fresh, fresh};
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

/// Counts what comes.
#[derive(Debug, Default)]
struct Counting(AtomicU32);

#[async_trait]
impl Destination for Counting {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        for _entry in batch.entries {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
        vec![Receipt::Delivered; batch.entries.len()]
    }
}

async fn emit(fresh: &Fresh) {
    let tx = postroom::table::begin(fresh.db()).await.unwrap();
    let payload = serde_json::value::to_raw_value(&json!({})).unwrap();
    let event = Event::new("shop.order.paid.v1", "order", "1", payload).unwrap();
    postroom::append(&tx, &[event]).await.unwrap();
    tx.commit().await.unwrap();
}

/// Runs a platform that ends by itself.
async fn outcome(platform: Platform) -> String {
    let ended = timeout(PATIENCE, platform.run(CancellationToken::new())).await;
    ended.unwrap().unwrap_err().to_string()
}

#[tokio::test]
async fn a_route_of_a_module_delivers() {
    let (fresh, destination) = (fresh::sqlite().await, Arc::new(Counting::default()));
    let to = To::Destination(Arc::clone(&destination) as _);
    let module = Module::new("shop").route(Route::new("shop-partner", to));
    let stage = Stage::open(fresh.store(), vec![module], None).await;
    emit(&fresh).await;
    until("the partner gets it", || async {
        destination.0.load(Ordering::SeqCst) == 1
    })
    .await;
    stage.close().await;
}

#[tokio::test]
async fn a_part_runs_until_the_stop_and_ends_what_it_has_begun() {
    let (fresh, said) = (fresh::sqlite().await, Arc::new(AtomicU32::default()));
    let heard = Arc::clone(&said);
    let module = Module::new("shop").part("mailbox", |host, stop| async move {
        host.begin().await?.commit().await?; // it has the store
        said.store(1, Ordering::SeqCst);
        stop.cancelled().await;
        said.store(2, Ordering::SeqCst);
        Ok::<_, postroom::Error>(())
    });
    let stage = Stage::open(fresh.store(), vec![module], None).await;
    until("the part runs", || async { heard.load(Ordering::SeqCst) == 1 }).await;
    stage.close().await;
    assert_eq!(heard.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_part_that_ends_early_stops_the_others_and_is_named() {
    let fresh = fresh::sqlite().await;
    let platform = |module: Module| {
        let waits = |_host, stop: CancellationToken| async move {
            stop.cancelled().await;
            Ok::<_, postroom::Error>(())
        };
        Platform::new(fresh.store()).module(module).part("waiting", waits)
    };
    let fails = Module::new("shop").part("mailbox", |_host, _stop| async { Err("no mail server") });
    assert_eq!(
        outcome(platform(fails)).await,
        "run the part mailbox of the module shop: no mail server"
    );
    let ends = Module::new("shop").part("mailbox", |_host, _stop| async { Ok::<_, postroom::Error>(()) });
    assert_eq!(
        outcome(platform(ends)).await,
        "the part mailbox of the module shop ended although nothing stopped it"
    );
    let panics = Module::new("shop").part("mailbox", |_host, _stop| async {
        assert!(std::env::args().count() == 0, "a bug");
        Ok::<_, postroom::Error>(())
    });
    let panics_before = Module::new("shop").part("mailbox", |_host, _stop| {
        assert!(std::env::args().count() == 0, "a bug before its first await");
        async { Ok::<_, postroom::Error>(()) }
    });
    for panics in [panics, panics_before] {
        let error = outcome(platform(panics)).await;
        assert!(
            error.starts_with("the part mailbox of the module shop panicked"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn work_that_does_not_end_is_abandoned_in_time() {
    let fresh = fresh::sqlite().await;
    let hangs = |_host, _stop| std::future::pending::<postroom::Result<()>>();
    let platform = Platform::new(fresh.store())
        .part("stuck", hangs)
        .drain_max(Duration::from_millis(50));
    let stop = CancellationToken::new();
    stop.cancel();
    let ended = timeout(PATIENCE, platform.run(stop)).await.unwrap();
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("did not end within"), "{error}");
}

#[tokio::test]
async fn metrics_of_a_module_are_on_the_page_under_its_name() {
    let (fresh, mails) = (fresh::sqlite().await, Counter::<u64>::default());
    let shown = mails.clone();
    let module =
        Module::new("my-shop").metrics(move |registry| registry.register("mails", "Mails that were sent", shown));
    let process = Platform::new(fresh.store()).module(module).build().unwrap();
    mails.inc();
    let page = process.metrics().text().unwrap();
    assert!(page.contains("\nmy_shop_mails_total 1\n"), "{page}");
    assert!(page.contains("# TYPE postroom_build info\n"), "{page}");
    assert!(page.ends_with("# EOF\n"), "{page}");
}

#[derive(Debug, Deserialize)]
#[serde(default)]
struct Settings {
    group: String,
    batch: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            group: "sales".to_owned(),
            batch: 7,
        }
    }
}

fn configurable() -> Module {
    async fn ignore(_tx: &mut Tx, _event: &Event) -> postroom::Result<()> {
        Ok(())
    }
    Module::new("shop").settings(|module, settings: Settings| {
        let subscriber = Subscriber::matching(settings.group.as_str(), ["shop.**"], ignore);
        module.subscriber(Subscriber {
            batch: settings.batch,
            ..subscriber
        })
    })
}

#[tokio::test]
async fn a_module_is_configured_by_its_own_type() {
    let section = json!({ "group": "till" }).as_object().unwrap().clone();
    let module = configurable().configure(section).unwrap();
    let subscriber = &module.subscribers[0];
    assert_eq!((subscriber.group.as_str(), subscriber.batch), ("till", 7));

    let fresh = fresh::sqlite().await;
    let process = Platform::new(fresh.store()).module(configurable()).build().unwrap();
    let carriers = process.host().carriers(&["shop.order.paid.v1"]);
    assert_eq!(carriers[0].route, "sales", "the defaults");
}

#[test]
fn a_misspelt_setting_is_named() {
    let mistakes = |section: serde_json::Value| {
        let error = configurable().configure(section.as_object().unwrap().clone());
        error.unwrap_err().to_string()
    };
    assert_eq!(
        mistakes(json!({ "gruop": "till", "batch": 1 })),
        "the settings of the module shop cannot be used; gruop: unknown key; the module has no such setting"
    );
    assert_eq!(
        mistakes(json!({ "batch": "many" })),
        "the settings of the module shop cannot be used; batch: invalid type: string \"many\", expected usize"
    );
    let none = Module::new("shop").configure(json!({ "batch": 1 }).as_object().unwrap().clone());
    assert_eq!(none.unwrap_err().mistakes[0].key, "batch");
}

/// Without a listener there is no server; its routes can be served by another one.
#[tokio::test]
async fn a_process_without_a_server_has_its_routes_and_its_health() {
    let fresh = fresh::sqlite().await;
    let process = Platform::new(fresh.store())
        .module(Module::new("shop"))
        .build()
        .unwrap();
    assert_eq!(process.migrate().await.unwrap(), 0, "it has its tables");
    let (host, router, stop) = (process.host().clone(), process.router(), CancellationToken::new());
    assert!(!host.readiness().await.is_ready(), "it does not run yet");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client(listener.local_addr().unwrap().to_string());
    let server = axum::serve(listener, router).with_graceful_shutdown(stop.clone().cancelled_owned());
    let test = async {
        until("it is ready", || async { host.readiness().await.is_ready() }).await;
        let answer = client.get("/health/ready").await;
        assert_eq!((answer.status, &answer.body["status"]), (200, &json!("ready")));
        stop.cancel();
    };
    let (ended, served, ()) = tokio::join!(process.run(stop.clone()), server, test);
    ended.unwrap();
    served.unwrap();
}
