//! From the configuration to a platform, and from signals to its stop.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use postroom::{CancellationToken, Inspect, Mode};
use postroom_host::{Feed, Module, Platform, Process};
use tokio::net::TcpListener;

use crate::broker::{BrokerKind, Brokers};
use crate::config::{Config, Destination};
use crate::signal::Signals;

/// How long work in progress may take to end after the first signal.
const DRAIN_MAX: Duration = Duration::from_secs(10);
/// How long the store may take to close.
const CLOSE_MAX: Duration = Duration::from_secs(5);

/// The process that the configuration asks for: its routes, these modules with the brokers that feed them, alerts.
pub(crate) fn platform(config: &Config, store: &Arc<dyn Inspect>, modules: Vec<Module>) -> Result<Platform> {
    let brokers = Arc::new(Brokers::open(&config.brokers)?);
    let mut platform = Platform::new(Arc::clone(store))
        .lease_ttl(config.relay.lease)
        .retention(config.retention.clone())
        .messengers(config.alerts.messengers(&machine())?)
        .alerts_every(config.alerts.every)
        .drain_max(DRAIN_MAX);
    for route in &config.routes {
        let built = route.build(&brokers)?;
        platform = match route.to {
            Destination::Broker(kind) => platform.publish(built, kind.name(), route.topic.clone()),
            Destination::Http(_) | Destination::Log | Destination::Null => platform.route(built),
        };
    }
    for module in &modules {
        if let Some(kind) = config.modules.broker(module.name) {
            platform = platform.feed(module.name, feed(kind, &brokers)?);
        }
    }
    Ok(platform.modules(modules))
}

/// A broker that feeds modules.
fn feed(kind: BrokerKind, brokers: &Arc<Brokers>) -> Result<Feed> {
    let broker = Arc::clone(brokers.get(kind)?);
    let brokers = Arc::clone(brokers);
    let publisher = move |route: &str, topic| brokers.publisher(kind, route, topic, Mode::default());
    Ok(Feed::new(kind.name(), broker).publisher(publisher))
}

/// The name of this machine, for people who are told of something there.
fn machine() -> String {
    std::env::var("HOSTNAME").unwrap_or_else(|_unset| "postroom".to_owned())
}

/// Runs until a signal comes or a part fails, then ends what has begun. A second signal does not wait for that.
pub(crate) async fn run(process: Process, mut signals: Signals) -> Result<()> {
    let stop = CancellationToken::new();
    let mut running = pin!(process.run(stop.clone()));
    tokio::select! {
        () = signals.next() => {}
        ended = &mut running => return Ok(ended?),
    }
    tracing::info!("stopping; a second signal stops at once");
    stop.cancel();
    tokio::select! {
        ended = running => Ok(ended?),
        () = signals.next() => bail!("stopped at once; the next relay delivers again what was under way"),
    }
}

/// Closes the store. A connection that does not answer is left: the process ends now.
pub(crate) async fn close(store: &dyn Inspect) -> Result<()> {
    match tokio::time::timeout(CLOSE_MAX, store.db().close_by_ref()).await {
        Ok(closed) => closed.context("close the store"),
        Err(_elapsed) => {
            tracing::warn!(
                "the store did not close within {} s; its connections are left",
                CLOSE_MAX.as_secs()
            );
            Ok(())
        }
    }
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
