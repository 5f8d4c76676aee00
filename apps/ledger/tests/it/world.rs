//! A ledger at work: a fresh store, a broker or none, and a stage that can be killed and set up again.

#![expect(clippy::unwrap_used, reason = "a test harness: what is missing has failed")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use postroom::{Broker, Prefixed};
use postroom_host::Module;
use postroom_kafka::{Kafka, Options, TopicSpec};
use postroom_testkit::Fresh;
use postroom_testkit::stage::Stage;
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
    stage: Stage,
}

impl World {
    /// The ledger on this store, its subscribers fed straight from the outbox.
    pub(crate) async fn on(fresh: Fresh) -> Self {
        Self::with(fresh, None, ledger::module()).await
    }

    /// The same through Kafka.
    pub(crate) async fn through_kafka(fresh: Fresh) -> Self {
        let broker = shared_kafka().await;
        Self::with(fresh, Some(broker), ledger::module()).await
    }

    pub(crate) async fn with(fresh: Fresh, broker: Option<Arc<dyn Broker>>, module: Module) -> Self {
        let stage = open(&fresh, module, broker.clone()).await;
        Self {
            client: Client(stage.url.clone()),
            fresh,
            broker,
            stage,
        }
    }

    /// Ends the stage in the middle of whatever it does, and sets up another one as a new process would.
    #[must_use]
    pub(crate) async fn killed(self, broker: Option<Arc<dyn Broker>>) -> Self {
        drop(self.stage);
        Self::with(self.fresh, broker, ledger::module()).await
    }

    /// Lets what has begun end.
    pub(crate) async fn close(self) -> Fresh {
        self.stage.close().await;
        self.fresh
    }
}

/// A stage with connections of its own, which a kill takes along.
pub(crate) async fn open(fresh: &Fresh, module: Module, broker: Option<Arc<dyn Broker>>) -> Stage {
    Stage::open(fresh.second().await, vec![module], broker).await
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
