//! A stage: modules at work in this process, with a relay and an HTTP server of their own, on any store and through any broker.

#![expect(clippy::panic, reason = "a test harness: a test whose stage breaks has failed")]

mod running;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use postroom::{Broker, Inspect, Mode, Relay, Result, Route};
use postroom_host::{Alerts, Host, Messengers, Module, Server, Topics, join_through};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use running::Running;

/// Short, so that a test that kills one stage does not wait long for the next.
const LEASE: Duration = Duration::from_secs(2);

/// What modules find on a stage, besides a store.
#[derive(Clone, Debug)]
pub struct Scenery {
    /// Feeds the subscribers, if there is one.
    pub broker: Option<Arc<dyn Broker>>,
    /// Routes besides those of the modules.
    pub routes: Vec<Route>,
    /// Who brings alerts.
    pub messengers: Messengers,
    /// How often alert rules are looked at.
    pub every: Duration,
}

impl Default for Scenery {
    fn default() -> Self {
        Self {
            broker: None,
            routes: Vec::new(),
            messengers: Messengers::new(),
            every: Duration::from_secs(30),
        }
    }
}

/// Modules at work. Dropping it ends its parts where they are; requests that have begun, and connections of its store, live on.
/// [`Running`] is like a process that can be killed.
#[derive(Debug)]
pub struct Stage {
    /// Where its HTTP server listens, without a slash at the end.
    pub url: String,
    parts: JoinSet<Result<()>>,
    stop: CancellationToken,
}

impl Stage {
    /// Sets modules up on a store that has the platform's tables; with a broker, their subscribers are fed by it.
    pub async fn open(store: Arc<dyn Inspect>, modules: Vec<Module>, broker: Option<Arc<dyn Broker>>) -> Self {
        let scenery = Scenery {
            broker,
            ..Scenery::default()
        };
        Self::set(store, modules, scenery).await
    }

    /// Sets modules up with whatever they find there.
    pub async fn set(store: Arc<dyn Inspect>, mut modules: Vec<Module>, scenery: Scenery) -> Self {
        for module in &modules {
            if let Err(error) = module.migrate(&*store).await {
                panic!("make the tables of {}: {}", module.name, error.report());
            }
        }
        let relay = Relay::new(Arc::clone(&store) as _).lease_ttl(LEASE);
        let mut relay = scenery.routes.into_iter().fold(relay, Relay::route);
        let topics = Topics::of(&modules);
        if let Some(broker) = &scenery.broker {
            let publisher = |_route: &str, topic| Ok::<_, Infallible>(broker.publisher(topic, Mode::default()));
            let fed = modules.iter_mut().collect();
            let Ok(joined) = join_through(relay, fed, &topics, ("broker", broker), publisher);
            relay = joined;
        }
        relay = modules.iter_mut().fold(relay, |relay, module| module.join(relay));
        let host = Host::new(store, &relay);
        let alerts = match Alerts::new(&host, &mut modules, &scenery.messengers) {
            Ok(alerts) => alerts,
            Err(error) => panic!("{}", error.report()),
        };
        let relay = alerts.jobs(scenery.every).into_iter().fold(relay, Relay::job);
        let server = Server::new(host).alerts(alerts);
        let server = modules.into_iter().fold(server, Server::mount);
        Self::start(relay, server).await
    }

    async fn start(relay: Relay, server: Server) -> Self {
        let bound = TcpListener::bind("127.0.0.1:0").await.and_then(|listener| {
            let address = listener.local_addr()?;
            Ok((listener, address))
        });
        let (listener, address) = bound.unwrap_or_else(|error| panic!("listen on a free port: {error}"));
        let stop = CancellationToken::new();
        let mut parts = JoinSet::new();
        parts.spawn(relay.run(stop.clone()));
        parts.spawn(server.run(listener, stop.clone()));
        Self {
            url: format!("http://{address}"),
            parts,
            stop,
        }
    }

    /// Lets what has begun end.
    pub async fn close(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.parts.join_next().await {
            match ended {
                Ok(Ok(())) => {}
                Ok(Err(error)) => panic!("the stage broke: {}", error.report()),
                Err(error) => panic!("the stage broke: {error}"),
            }
        }
    }
}
