//! A broker, and a handler, that let a stage come as far as one step and no further: whoever kills it there knows where it was.

#![expect(
    clippy::panic,
    reason = "a test harness: a test whose crash does not come has failed"
)]

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom::{
    Batch, BoxError, BoxHandler, Broker, Destination, Event, Handler, Join, Letter, Mark, Message, Mode, Receipt,
    Result, Subscription, Topic, Tx,
};
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::wait::PATIENCE;

/// So long a client has to send what it was given.
const SEND: Duration = Duration::from_millis(100);

/// Where a stage stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The writer has committed, nothing is sent.
    BeforeSend,
    /// Sent, and no answer read.
    AfterSend,
    /// The broker has it and said so; nobody has looked at its answer.
    AfterAck,
    /// The answer was looked at, once somebody has let it go on; the cursor has not moved.
    BeforeCursor,
    /// A subscriber's effect is committed; its offset is not.
    BeforeOffset,
}

/// A place to stand still at, and to be let go on from.
#[derive(Clone, Debug)]
pub struct Gate {
    reached: Arc<Semaphore>,
    opened: Arc<Semaphore>,
}

impl Default for Gate {
    fn default() -> Self {
        let closed = || Arc::new(Semaphore::new(0));
        Self {
            reached: closed(),
            opened: closed(),
        }
    }
}

impl Gate {
    /// Waits until somebody has come here since the last time.
    pub async fn reached(&self) {
        let Ok(permit) = timeout(PATIENCE, self.reached.acquire()).await else {
            panic!("nobody came as far as the gate");
        };
        must(permit).forget();
    }

    /// Lets one waiting task continue.
    pub fn open(&self) {
        self.opened.add_permits(1);
    }

    /// Reports that a task has reached the gate.
    fn pass(&self) {
        self.reached.add_permits(1);
    }

    /// Waits until the gate opens.
    pub(crate) async fn stand(&self) {
        self.pass();
        must(self.opened.acquire().await).forget();
    }
}

fn must(permit: Result<SemaphorePermit<'_>, AcquireError>) -> SemaphorePermit<'_> {
    permit.unwrap_or_else(|error| panic!("gates are never closed for good: {error}"))
}

/// A handler that writes its effect and waits at a gate before the commit.
pub struct Standing {
    /// The handler that writes the effect.
    pub handler: BoxHandler,
    /// The gate at which it waits.
    pub gate: Gate,
}

impl fmt::Debug for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Standing")
            .field("gate", &self.gate)
            .finish_non_exhaustive()
    }
}

impl Handler for Standing {
    async fn handle(&self, tx: &mut Tx, event: &Event) -> Result<(), BoxError> {
        self.handler.handle(tx, event).await?;
        self.gate.stand().await;
        Ok(())
    }
}

/// A broker that stops at a step.
#[derive(Clone, Debug)]
pub struct Gated {
    broker: Arc<dyn Broker>,
    step: Step,
    /// Where it stops.
    pub gate: Gate,
}

impl Gated {
    /// A broker that stops whoever comes to this step.
    pub fn new(broker: Arc<dyn Broker>, step: Step) -> Self {
        Self {
            broker,
            step,
            gate: Gate::default(),
        }
    }
}

#[async_trait]
impl Broker for Gated {
    fn name(&self) -> String {
        self.broker.name()
    }

    fn publisher(&self, topic: Topic, mode: Mode) -> Arc<dyn Destination> {
        Arc::new(Publisher {
            inner: self.broker.publisher(topic, mode),
            gated: self.clone(),
        })
    }

    async fn subscribe(&self, join: Join<'_>) -> Result<Box<dyn Subscription>> {
        Ok(Box::new(Member {
            inner: self.broker.subscribe(join).await?,
            gated: self.clone(),
        }))
    }

    async fn bury(&self, letter: &Letter) -> Result<()> {
        self.broker.bury(letter).await
    }

    async fn buried(&self, group: &str, topics: &[String]) -> Result<Box<dyn Subscription>> {
        self.broker.buried(group, topics).await
    }

    async fn waiting(&self, group: &str, topics: &[String]) -> Result<u64> {
        self.broker.waiting(group, topics).await
    }
}

#[derive(Debug)]
struct Publisher {
    inner: Arc<dyn Destination>,
    gated: Gated,
}

#[async_trait]
impl Destination for Publisher {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        let gate = &self.gated.gate;
        match self.gated.step {
            Step::BeforeSend => gate.stand().await,
            Step::AfterSend => {
                let mut sending = self.inner.deliver(batch);
                drop(timeout(SEND, &mut sending).await); // whatever the answer is, nobody looks at it
                gate.stand().await;
            }
            Step::AfterAck | Step::BeforeCursor => {
                let receipts = self.inner.deliver(batch).await;
                assert!(
                    receipts.iter().all(|receipt| *receipt == Receipt::Delivered),
                    "{receipts:?}"
                );
                gate.stand().await;
                gate.pass();
                return receipts;
            }
            Step::BeforeOffset => {}
        }
        self.inner.deliver(batch).await
    }
}

#[derive(Debug)]
struct Member {
    inner: Box<dyn Subscription>,
    gated: Gated,
}

#[async_trait]
impl Subscription for Member {
    async fn next(&mut self, max: usize) -> Result<Vec<Message>> {
        self.inner.next(max).await
    }

    async fn ack(&mut self, done: &[Mark]) -> Result<()> {
        if self.gated.step == Step::BeforeOffset {
            self.gated.gate.stand().await;
        }
        self.inner.ack(done).await
    }

    async fn nack(&mut self, back: &[Mark]) -> Result<()> {
        self.inner.nack(back).await
    }
}
