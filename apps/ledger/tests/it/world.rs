//! A ledger at work: a fresh store, a broker or none, and a stage that can be killed and set up again.

use std::sync::Arc;

use postroom::Broker;
use postroom_host::Module;
use postroom_testkit::Fresh;
use postroom_testkit::own_topics::OwnTopics;
use postroom_testkit::stage::{Running, Scenery};

use crate::client::Client;

/// Where the ledger's events belong on a broker.
pub(crate) const TOPICS: [&str; 1] = ["ledger-events"];

/// A ledger at work.
pub(crate) struct World {
    pub(crate) fresh: Fresh,
    pub(crate) broker: Option<Arc<dyn Broker>>,
    pub(crate) client: Client,
    stage: Running,
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
        let scenery = Scenery {
            broker,
            ..Scenery::default()
        };
        Self::set(fresh, module, scenery).await
    }

    pub(crate) async fn set(fresh: Fresh, module: Module, scenery: Scenery) -> Self {
        let broker = scenery.broker.clone();
        let stage = Running::open(&fresh, vec![module], scenery).await;
        Self {
            client: Client(stage.client.clone()),
            fresh,
            broker,
            stage,
        }
    }

    /// Ends the stage in the middle of whatever it does, and sets up another one as a new process would.
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

/// The Kafka that all tests share, with topics of our own.
pub(crate) async fn shared_kafka() -> Arc<dyn Broker> {
    OwnTopics::create(&TOPICS).await.broker()
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
