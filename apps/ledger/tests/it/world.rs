//! A running ledger: a fresh store, an optional broker, and a stage that can be killed and restarted.

use std::sync::Arc;

use postroom::Broker;
use postroom_host::Module;
use postroom_testkit::Fresh;
use postroom_testkit::own_topics::OwnTopics;
use postroom_testkit::stage::{Running, Scenery};

use crate::client::Client;

/// The topic of the ledger's events.
pub(crate) const TOPICS: [&str; 1] = ["ledger-events"];

/// The environment of a ledger: a fresh store, and an optional broker that feeds the subscribers.
pub(crate) struct Place {
    pub(crate) fresh: Fresh,
    pub(crate) broker: Option<Arc<dyn Broker>>,
}

impl From<Fresh> for Place {
    fn from(fresh: Fresh) -> Self {
        Self { fresh, broker: None }
    }
}

impl Place {
    pub(crate) fn through(fresh: Fresh, broker: Arc<dyn Broker>) -> Self {
        Self {
            fresh,
            broker: Some(broker),
        }
    }

    pub(crate) async fn through_kafka(fresh: Fresh) -> Self {
        Self::through(fresh, shared_kafka().await)
    }
}

/// A running ledger.
pub(crate) struct World {
    pub(crate) fresh: Fresh,
    pub(crate) broker: Option<Arc<dyn Broker>>,
    pub(crate) client: Client,
    stage: Running,
}

impl World {
    pub(crate) async fn on(place: impl Into<Place>) -> Self {
        Self::with(place, ledger::module()).await
    }

    pub(crate) async fn with(place: impl Into<Place>, module: Module) -> Self {
        let Place { fresh, broker } = place.into();
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

    /// Kills the stage at any point, as if its process was killed.
    pub(crate) fn killed(self) -> Place {
        let Self { fresh, broker, .. } = self;
        Place { fresh, broker }
    }

    /// Shuts down gracefully: work in progress is finished.
    pub(crate) async fn close(self) -> Fresh {
        self.stage.close().await;
        self.fresh
    }
}

/// The Kafka server that all tests share, with separate topics.
pub(crate) async fn shared_kafka() -> Arc<dyn Broker> {
    OwnTopics::create(&TOPICS).await.broker()
}

/// One test for each database, directly from the outbox.
macro_rules! on_every_store {
    ($($test:ident)*) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() { super::$test(postroom_testkit::fresh::sqlite().await.into()).await; })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() { super::$test(postroom_testkit::fresh::postgres().await.into()).await; })*
        }
        mod mariadb {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() { super::$test(postroom_testkit::fresh::mysql().await.into()).await; })*
        }
    };
}
pub(crate) use on_every_store;

/// Like `on_every_store!`, and also on MariaDB through Kafka, the ledger's target setup.
macro_rules! on_every_way {
    ($($test:ident)*) => {
        crate::world::on_every_store! { $($test)* }
        mod mariadb_through_kafka {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                let fresh = postroom_testkit::fresh::mysql().await;
                super::$test(crate::world::Place::through_kafka(fresh).await).await;
            })*
        }
    };
}
pub(crate) use on_every_way;
