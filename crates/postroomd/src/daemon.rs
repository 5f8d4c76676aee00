//! From the configuration to a platform, and from signals to its stop.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use postroom::operate::token::{self, Role};
use postroom::{CancellationToken, Inspect, Mode};
use postroom_address::BrokerKind;
use postroom_host::{Access, Feed, Module, Platform, Process};
use tokio::net::TcpListener;

use crate::broker::Brokers;
use crate::config::{Config, Destination, Route};
use crate::module;
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
        platform = match route.to {
            Destination::Broker(kind) => publish(platform, config, (&brokers, &modules), (route, kind))?,
            Destination::Http(_) | Destination::Log | Destination::Null => platform.route(route.build(&brokers, None)?),
        };
    }
    for module in &modules {
        if let Some(kind) = config.modules.broker(module.name) {
            let feed = match brokers.of_queue(config, module.name)? {
                Some(queue) => Feed::new(module::queue_feed(kind, module.name), queue).exclusive(),
                None => feed(kind, &brokers)?,
            };
            platform = platform.feed(module.name, feed);
        }
    }
    if let Some(shared) = &brokers.shared {
        platform = platform.shared(shared.clone());
    }
    Ok(platform.modules(modules).modules(module::switched_off(config)))
}

/// A configured route to a broker. If it publishes to the topic of a module that this broker feeds, it does so as the module says:
/// where its queue is, and in the form of its messages.
fn publish(
    platform: Platform,
    config: &Config,
    (brokers, modules): (&Brokers, &[Module]),
    (route, kind): (&Route, BrokerKind),
) -> Result<Platform> {
    let is_owner = |module: &&Module| module.topic == route.topic && config.modules.broker(module.name) == Some(kind);
    let Some(owner) = modules.iter().find(is_owner) else {
        return Ok(platform.publish(route.build(brokers, None)?, kind.name(), route.topic.clone()));
    };
    let queue = brokers.of_queue(config, owner.name)?;
    let feed = match &queue {
        Some(_) => module::queue_feed(kind, owner.name),
        None => kind.name().to_owned(),
    };
    let mode = match (&route.mode, &owner.form) {
        (Mode::Binary, Some(form)) => form.mode(),
        (mode, _) => mode.clone(),
    };
    let route = Route { mode, ..route.clone() };
    Ok(platform.publish(route.build(brokers, queue.as_ref())?, feed, route.topic.clone()))
}

/// A broker that feeds modules.
fn feed(kind: BrokerKind, brokers: &Arc<Brokers>) -> Result<Feed> {
    let broker = Arc::clone(brokers.get(kind)?);
    let brokers = Arc::clone(brokers);
    let publisher = move |route: &str, topic, mode| brokers.publisher(kind, route, topic, mode);
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

/// Binds the address.
pub(crate) async fn bind(listen: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(listen)
        .await
        .with_context(|| format!("listen on {listen} (choose another address with --listen, port 0 picks a free one)"))
}

/// Refuses a server that other machines can reach as long as something for it is missing, and lists all of it.
pub(crate) async fn check_doors(
    config: &Config,
    store: &dyn Inspect,
    process: &Process,
    listen: SocketAddr,
) -> Result<()> {
    if !config.server.is_reachable(listen) {
        return Ok(());
    }
    let tokens = token::admitted(store.db()).await?;
    let has_admin = tokens.iter().any(|token| token.role == Role::Admin);
    let has_member_routes = process
        .operations()
        .iter()
        .any(|(_, operation)| operation.access == Access::Member);
    let has_required_tls = config.server.tls.is_some() || config.server.plain_http || listen.ip().is_loopback();
    let missing = missing(config, has_required_tls, has_admin, has_member_routes);
    if missing.is_empty() {
        return Ok(());
    }
    bail!(
        "other machines can reach {listen}, by its address or by the settings of [server], and for that this is missing:\n  - \
         {}\nOr listen on 127.0.0.1:{} without such settings, for this machine alone",
        missing.join("\n  - "),
        listen.port()
    )
}

fn missing(config: &Config, has_required_tls: bool, has_admin: bool, has_member_routes: bool) -> Vec<&'static str> {
    let needs = [
        (
            has_required_tls,
            "a certificate: set [server.tls] certificate and key in postroom.toml; or, if a proxy in front of Postroom ends TLS, \
             set server.plain_http = true",
        ),
        (
            has_admin,
            "a token for an admin: run `postroom token create NAME --role admin`",
        ),
        (
            !has_member_routes || config.access.has_members(),
            "keys that check the tokens of members: set jwks, public_keys or a secret in [access.members]",
        ),
    ];
    needs
        .into_iter()
        .filter(|(is_there, _)| !is_there)
        .map(|(_, says)| says)
        .collect()
}

/// Logs that no token is needed, if that is so.
pub(crate) fn log_if_unlocked(config: &Config, listen: SocketAddr) {
    if !config.server.is_reachable(listen) && !config.access.locked {
        tracing::info!(
            "no token is needed on this machine; `postroom token create NAME --role admin` and `access.locked = true` change that"
        );
    }
}

#[cfg(test)]
mod tests;
