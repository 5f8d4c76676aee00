//! A ledger at work: a fresh store, a broker or none, and a stage that can be killed and set up again.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test harness: what is missing has failed"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use postroom::{Broker, Prefixed};
use postroom_host::Module;
use postroom_kafka::{Kafka, Options, TopicSpec};
use postroom_testkit::Fresh;
use postroom_testkit::stage::Stage;
use tokio::runtime::{Builder, Runtime};
use tokio::task::block_in_place;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::client::Client;

/// Longer than anything takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// A ledger at work.
pub(crate) struct World {
    pub(crate) fresh: Fresh,
    pub(crate) broker: Option<Arc<dyn Broker>>,
    pub(crate) client: Client,
    stage: Running,
}

impl World {
    /// The ledger on this store, its subscribers fed straight from the outbox.
    pub(crate) fn on(fresh: Fresh) -> Self {
        Self::with(fresh, None, ledger::module())
    }

    /// The same through Kafka.
    pub(crate) async fn through_kafka(fresh: Fresh) -> Self {
        let broker = shared_kafka().await;
        Self::with(fresh, Some(broker), ledger::module())
    }

    pub(crate) fn with(fresh: Fresh, broker: Option<Arc<dyn Broker>>, module: Module) -> Self {
        let stage = open(&fresh, module, broker.clone());
        Self {
            client: Client(stage.url()),
            fresh,
            broker,
            stage,
        }
    }

    /// Ends the stage in the middle of whatever it does, and sets up another one as a new process would.
    #[must_use]
    pub(crate) fn killed(self, broker: Option<Arc<dyn Broker>>) -> Self {
        drop(self.stage);
        Self::with(self.fresh, broker, ledger::module())
    }

    /// Lets what has begun end.
    pub(crate) async fn close(self) -> Fresh {
        self.stage.close().await;
        self.fresh
    }
}

/// A stage with a runtime and connections of its own. Dropping it is like killing a process: also requests that have begun end
/// where they are, and their connections break.
pub(crate) struct Running {
    stage: Option<Stage>,
    runtime: Option<Runtime>,
}

impl Running {
    pub(crate) fn url(&self) -> String {
        self.stage.as_ref().unwrap().url.clone()
    }

    /// Lets what has begun end.
    pub(crate) async fn close(mut self) {
        self.stage.take().unwrap().close().await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

/// Sets a stage up.
pub(crate) fn open(fresh: &Fresh, module: Module, broker: Option<Arc<dyn Broker>>) -> Running {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let opening = async { Stage::open(fresh.second().await, vec![module], broker).await };
    let stage = block_in_place(|| runtime.block_on(opening));
    Running {
        stage: Some(stage),
        runtime: Some(runtime),
    }
}

/// The Kafka that all tests share, behind a prefix of our own.
pub(crate) async fn shared_kafka() -> Arc<dyn Broker> {
    let url = std::env::var("POSTROOM_TEST_KAFKA_URL");
    kafka_at(&url.expect("POSTROOM_TEST_KAFKA_URL is not set: `eval \"$(cargo xtask services up)\"`")).await
}

/// A Kafka with the ledger's topics, behind a prefix of our own.
pub(crate) async fn kafka_at(url: &str) -> Arc<dyn Broker> {
    let kafka = Kafka::new(&Options::new(url)).unwrap();
    let prefix = format!("ledger-{}-", Uuid::now_v7());
    let topic = |name: &str, partitions| TopicSpec {
        name: format!("{prefix}{name}"),
        partitions,
        replication: 1,
        config: BTreeMap::new(),
    };
    let topics = [topic("ledger-events", 3), topic("ledger-events.DLT", 1)];
    kafka.apply(&topics).await.unwrap();
    Arc::new(Prefixed::new(Arc::new(kafka), prefix).unwrap())
}

/// Waits until something is so.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < deadline, "it did not come to pass: {what}");
        sleep(LOOK).await;
    }
}

/// One test for each database.
macro_rules! on_every_store {
    ($($test:ident)*) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() { super::$test(postroom_testkit::fresh::sqlite().await).await; })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() { super::$test(postroom_testkit::fresh::postgres().await).await; })*
        }
        mod mariadb {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() { super::$test(postroom_testkit::fresh::mysql().await).await; })*
        }
    };
}
pub(crate) use on_every_store;
