//! A fan-out and a registry that fail when they are told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use postroom::{Error, ErrorKind, Result};
use postroom_shared::fan_out::{FanOut, Listener, Message};
use postroom_shared::registry::{Admitted, Connection, Limits, Registry};
use tokio::sync::watch;

/// The faults that a test can switch on.
#[derive(Debug)]
pub(crate) struct Faults {
    /// Messages that are published are lost.
    pub(crate) loses: AtomicBool,
    /// Nothing can be reached.
    pub(crate) is_away: watch::Sender<bool>,
    /// Breaks all listeners.
    cut: watch::Sender<u32>,
}

impl Faults {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            loses: AtomicBool::new(false),
            is_away: watch::Sender::new(false),
            cut: watch::Sender::new(0),
        })
    }

    pub(crate) fn cut(&self) {
        self.cut.send_modify(|cuts| *cuts += 1);
    }

    pub(crate) fn away(&self, is_away: bool) {
        self.is_away.send_replace(is_away);
        self.cut();
    }

    fn check(&self) -> Result<()> {
        match *self.is_away.borrow() {
            true => Err(Error::new(ErrorKind::Unavailable, "the shared state is away")),
            false => Ok(()),
        }
    }
}

#[derive(Debug)]
pub(crate) struct FaultyFanOut(pub(crate) Arc<dyn FanOut>, pub(crate) Arc<Faults>);

#[derive(Debug)]
struct FaultyListener(Box<dyn Listener>, watch::Receiver<u32>);

#[async_trait]
impl FanOut for FaultyFanOut {
    async fn publish(&self, messages: &[Message]) -> Result<()> {
        self.1.check()?;
        match self.1.loses.load(Ordering::Relaxed) {
            true => Ok(()),
            false => self.0.publish(messages).await,
        }
    }

    async fn listen(&self, channels: &[&str]) -> Result<Box<dyn Listener>> {
        self.1.check()?;
        let cut = self.1.cut.subscribe();
        Ok(Box::new(FaultyListener(self.0.listen(channels).await?, cut)))
    }
}

#[async_trait]
impl Listener for FaultyListener {
    async fn next(&mut self) -> Result<Message> {
        tokio::select! {
            biased;
            _ = self.1.changed() => Err(Error::new(ErrorKind::Unavailable, "the listener was cut off")),
            next = self.0.next() => next,
        }
    }
}

#[derive(Debug)]
pub(crate) struct FaultyRegistry(pub(crate) Arc<dyn Registry>, pub(crate) Arc<Faults>);

#[async_trait]
impl Registry for FaultyRegistry {
    async fn admit(&self, limits: &Limits, connection: &Connection) -> Result<Admitted> {
        self.1.check()?;
        self.0.admit(limits, connection).await
    }

    async fn renew(&self, limits: &Limits, connections: &[Connection]) -> Result<Vec<Admitted>> {
        self.1.check()?;
        self.0.renew(limits, connections).await
    }

    async fn leave(&self, limits: &Limits, connections: &[Connection]) -> Result<()> {
        self.1.check()?;
        self.0.leave(limits, connections).await
    }

    async fn sweep(&self, limits: &Limits, lifetime: Duration) -> Result<u64> {
        self.1.check()?;
        self.0.sweep(limits, lifetime).await
    }

    async fn list(&self, limits: &Limits, member: &str) -> Result<Vec<Connection>> {
        self.1.check()?;
        self.0.list(limits, member).await
    }
}
