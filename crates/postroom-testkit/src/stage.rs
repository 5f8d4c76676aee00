//! A stage: a platform in a test. Modules work in this process, with a relay and an HTTP server, on any store and through any
//! broker.

#![expect(clippy::panic, reason = "a test harness: a test whose stage breaks has failed")]

mod running;

use std::sync::Arc;
use std::time::Duration;

use postroom::{Broker, Inspect, Result, Route};
use postroom_access::MemberKeys;
use postroom_host::{Doors, Messengers, Module, Platform};
use postroom_shared::SharedState;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use running::Running;

/// Short, so that a test that kills one stage does not wait long for the next.
const LEASE: Duration = Duration::from_secs(2);

/// The surroundings of modules on a stage, besides a store.
#[derive(Clone, Debug)]
pub struct Scenery {
    /// Feeds the subscribers of all modules, if there is one.
    pub broker: Option<Arc<dyn Broker>>,
    /// Routes besides those of the modules.
    pub routes: Vec<Route>,
    /// Messengers that bring alerts.
    pub messengers: Messengers,
    /// How often alert rules are looked at.
    pub every: Duration,
    /// The state that the stage shares with other stages; without it, the stage shares nothing.
    pub shared: Option<SharedState>,
    /// Checks the tokens of members; without it, nobody is one.
    pub members: Option<MemberKeys>,
}

impl Default for Scenery {
    fn default() -> Self {
        Self {
            broker: None,
            routes: Vec::new(),
            messengers: Messengers::new(),
            every: Duration::from_secs(30),
            shared: None,
            members: None,
        }
    }
}

impl Scenery {
    fn platform(self, store: Arc<dyn Inspect>, modules: Vec<Module>) -> Platform {
        let platform = Platform::new(store)
            .lease_ttl(LEASE)
            .messengers(self.messengers)
            .alerts_every(self.every);
        let platform = self.shared.into_iter().fold(platform, Platform::shared);
        let doors = self.members.map(|keys| Doors::unlocked().members(keys));
        let platform = doors.into_iter().fold(platform, Platform::doors);
        let platform = self.routes.into_iter().fold(platform, Platform::route);
        let platform = match self.broker {
            None => platform,
            Some(broker) => modules.iter().fold(platform, |platform, module| {
                platform.feed(module.name, Arc::clone(&broker))
            }),
        };
        platform.modules(modules)
    }
}

/// Modules at work. Dropping it ends its parts where they are; requests that have begun, and connections of its store, live on.
/// [`Running`] is like a process that can be killed.
#[derive(Debug)]
pub struct Stage {
    /// Where its HTTP server listens, without a slash at the end.
    pub url: String,
    process: JoinSet<Result<()>>,
    stop: CancellationToken,
}

impl Stage {
    /// Sets modules up on a store; with a broker, their subscribers are fed by it.
    pub async fn open(store: Arc<dyn Inspect>, modules: Vec<Module>, broker: Option<Arc<dyn Broker>>) -> Self {
        let scenery = Scenery {
            broker,
            ..Scenery::default()
        };
        Self::set(store, modules, scenery).await
    }

    /// Sets modules up with whatever they find there.
    pub async fn set(store: Arc<dyn Inspect>, modules: Vec<Module>, scenery: Scenery) -> Self {
        let bound = TcpListener::bind("127.0.0.1:0").await.and_then(|listener| {
            let address = listener.local_addr()?;
            Ok((listener, address))
        });
        let (listener, address) = bound.unwrap_or_else(|error| panic!("listen on a free port: {error}"));
        let platform = scenery.platform(store, modules).serve(listener);
        let process = platform.build().unwrap_or_else(|error| panic!("{error}"));
        if let Err(error) = process.migrate().await {
            panic!("{error}");
        }
        let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
        running.spawn(process.run(stop.clone()));
        Self {
            url: format!("http://{address}"),
            process: running,
            stop,
        }
    }

    /// Stops, and waits until its parts have ended.
    pub async fn close(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.process.join_next().await {
            match ended {
                Ok(Ok(())) => {}
                Ok(Err(error)) => panic!("the stage broke: {error}"),
                Err(error) => panic!("the stage broke: {error}"),
            }
        }
    }
}
