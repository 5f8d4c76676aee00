//! One process: a relay, the HTTP server and whatever watches them, under one stop token.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use postroom::{Inspect, Job, Mode, Relay};
use postroom_host::{Alerts, Catalogue, Host, Metrics, Module, Server, Topics, join_through};
use tokio::net::TcpListener;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::broker::{BrokerKind, Brokers};
use crate::config::{Config, Destination, Retention, Route};
use crate::signal::Signals;

/// How long what has begun may take to end after the first signal.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// What runs side by side. The first part that fails stops the others.
#[derive(Debug)]
pub(crate) struct Daemon {
    stop: CancellationToken,
    parts: JoinSet<Result<()>>,
}

impl Daemon {
    /// Starts the relay with the configured routes, the modules' subscribers and jobs, and the server on `listener`.
    pub(crate) fn start(
        config: &Config,
        store: &Arc<dyn Inspect>,
        mut modules: Vec<Module>,
        listener: TcpListener,
    ) -> Result<Self> {
        let brokers = Brokers::open(&config.brokers)?;
        let mut relay = Relay::new(Arc::clone(store) as _)
            .lease_ttl(config.relay.lease)
            .job(retention(&config.retention))
            .job(Job::inbox_retention(config.retention.inbox))
            .job(Job::dead_retention(config.retention.dead));
        let topics = Topics::of(modules.iter());
        for route in &config.routes {
            let mut built = route.build(&brokers)?;
            built.awaits = readers(route, &modules, config, &topics);
            relay = relay.route(built);
        }
        let catalogue = Catalogue::of(&modules); // a relay takes the subscribers away
        relay = join(relay, &mut modules, config, (&brokers, topics))?;
        let host = Host::new(Arc::clone(store), &relay);
        let alerts = Alerts::new(&host, &mut modules, &config.alerts.messengers(&machine())?)?;
        relay = alerts.jobs(config.alerts.every).into_iter().fold(relay, Relay::job);
        let metrics = Metrics::new(&host, &relay);
        let server = Server::new(host)
            .metrics(metrics.clone())
            .alerts(alerts)
            .catalogue(&catalogue);
        let server = modules.into_iter().fold(server, Server::mount);
        let mut daemon = Self {
            stop: CancellationToken::new(),
            parts: JoinSet::new(),
        };
        daemon.add(|stop| async move { Ok(relay.run(stop).await?) });
        daemon.add(|stop| async move { Ok(server.run(listener, stop).await?) });
        daemon.add(|stop| async move { Ok(metrics.run(stop).await?) });
        Ok(daemon)
    }

    /// Adds a part that runs until the token says stop.
    pub(crate) fn add<F>(&mut self, part: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        self.parts.spawn(part(self.stop.clone()));
    }

    /// Runs until a signal comes or a part fails, then ends what has begun. A second signal does not wait for that.
    pub(crate) async fn run(mut self, mut signals: Signals) -> Result<()> {
        let first = tokio::select! {
            () = signals.next() => Ok(()),
            Some(ended) = self.parts.join_next() => flatten(ended),
        };
        tracing::info!("stopping; a second signal stops at once");
        self.stop.cancel();
        tokio::select! {
            drained = drain(&mut self.parts) => first.and(drained),
            () = tokio::time::sleep(DRAIN_MAX) => bail!(
                "what was under way did not end within {} s and was left; the next relay delivers it again",
                DRAIN_MAX.as_secs()
            ),
            () = signals.next() => bail!("stopped at once; the next relay delivers again what was under way"),
        }
    }
}

fn retention(config: &Retention) -> Job {
    match config.daily_at {
        Some(at) => Job::daily_retention(config.outbox, config.archive, at),
        None => Job::retention(config.outbox, config.archive),
    }
}

/// The name of this machine, for people who are told of something there.
fn machine() -> String {
    std::env::var("HOSTNAME").unwrap_or_else(|_unset| "postroom".to_owned())
}

/// The groups of this process that read what a route publishes to their broker.
fn readers(route: &Route, modules: &[Module], config: &Config, topics: &Topics) -> Vec<String> {
    let Destination::Broker(kind) = route.to else {
        return Vec::new();
    };
    let written = topics.all_in(&route.topic).matching(&route.filter());
    let is_fed = |module: &&Module| config.modules.broker(module.name) == Some(kind);
    let subscribers = modules.iter().filter(is_fed).flat_map(|module| &module.subscribers);
    topics.readers(subscribers, &written)
}

/// Joins the modules to the relay: straight from the outbox, or through the broker that the configuration names. What a
/// configured route publishes there is not published twice.
fn join(
    mut relay: Relay,
    modules: &mut [Module],
    config: &Config,
    (brokers, topics): (&Brokers, Topics),
) -> Result<Relay> {
    for kind in BrokerKind::ALL {
        let is_fed = |module: &&mut Module| config.modules.broker(module.name) == Some(kind);
        let fed: Vec<&mut Module> = modules.iter_mut().filter(is_fed).collect();
        if !fed.is_empty() {
            let configured = config
                .routes
                .iter()
                .filter(|route| route.to == Destination::Broker(kind));
            let topics = configured.fold(topics.clone(), |topics, route| {
                topics.published_by(route.topic.clone(), route.filter())
            });
            let publisher = |route: &str, topic| brokers.publisher(kind, route, topic, Mode::default());
            relay = join_through(relay, fed, &topics, (kind.name(), brokers.get(kind)?), publisher)?;
        }
    }
    Ok(modules.iter_mut().fold(relay, |relay, module| module.join(relay)))
}

async fn drain(parts: &mut JoinSet<Result<()>>) -> Result<()> {
    let mut outcome = Ok(());
    while let Some(ended) = parts.join_next().await {
        outcome = outcome.and(flatten(ended));
    }
    outcome
}

fn flatten(ended: Result<Result<()>, JoinError>) -> Result<()> {
    ended.unwrap_or_else(|error| Err(anyhow!(error).context("a part of the daemon broke")))
}

/// Binds the address, for now only one that other machines cannot reach.
pub(crate) async fn bind(listen: SocketAddr) -> Result<TcpListener> {
    if !listen.ip().is_loopback() {
        bail!(
            "{listen} can be reached from other machines, and this version has no authentication yet; \
             listen on 127.0.0.1:{} and put a proxy that has it in front",
            listen.port()
        );
    }
    TcpListener::bind(listen)
        .await
        .with_context(|| format!("listen on {listen} (choose another address with --listen, port 0 picks a free one)"))
}
