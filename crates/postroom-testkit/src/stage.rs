//! A stage: modules at work in this process, with a relay and an HTTP server of their own, on any store and through any broker.

#![expect(clippy::panic, reason = "a test harness: a test whose stage breaks has failed")]

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use postroom::{Broker, Inspect, Mode, Relay, Result};
use postroom_host::{Host, Module, Server, Topics, join_through};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Short, so that a test that kills one stage does not wait long for the next.
const LEASE: Duration = Duration::from_secs(2);

/// Modules at work. Dropping it ends them in the middle of whatever they do, as a kill would.
#[derive(Debug)]
pub struct Stage {
    /// Where its HTTP server listens, without a slash at the end.
    pub url: String,
    parts: JoinSet<Result<()>>,
    stop: CancellationToken,
}

impl Stage {
    /// Sets modules up on a store that has the platform's tables; with a broker, their subscribers are fed by it.
    pub async fn open(store: Arc<dyn Inspect>, mut modules: Vec<Module>, broker: Option<Arc<dyn Broker>>) -> Self {
        for module in &modules {
            if let Err(error) = module.migrate(&*store).await {
                panic!("make the tables of {}: {}", module.name, error.report());
            }
        }
        let mut relay = Relay::new(Arc::clone(&store) as _).lease_ttl(LEASE);
        let topics = Topics::of(&modules);
        if let Some(broker) = &broker {
            let publisher = |_route: &str, topic| Ok::<_, Infallible>(broker.publisher(topic, Mode::default()));
            let fed = modules.iter_mut().collect();
            let Ok(joined) = join_through(relay, fed, &topics, ("broker", broker), publisher);
            relay = joined;
        }
        relay = modules.iter_mut().fold(relay, |relay, module| module.join(relay));
        let host = Host {
            store,
            vitals: relay.vitals(),
        };
        let server = modules.into_iter().fold(Server::new(host), Server::mount);
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
