//! A broker that lets a stage come as far as one step and no further: whoever kills it there knows where it was.

use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use postroom::{Batch, Broker, Destination, Letter, Mark, Message, Mode, Receipt, Result, Start, Subscription, Topic};
use tokio::sync::Semaphore;

/// Where a stage stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The writer has committed, nothing is sent.
    BeforeSend,
    /// Sent, and no answer read.
    AfterSend,
    /// The broker has it and said so; the cursor has not moved.
    AfterAck,
    /// A subscriber's effect is committed; its offset is not.
    BeforeOffset,
}

/// A broker that stops at a step.
#[derive(Clone, Debug)]
pub(crate) struct Faulty {
    broker: Arc<dyn Broker>,
    step: Step,
    reached: Arc<Semaphore>,
}

impl Faulty {
    pub(crate) fn new(broker: Arc<dyn Broker>, step: Step) -> Self {
        Self {
            broker,
            step,
            reached: Arc::new(Semaphore::new(0)),
        }
    }

    /// Waits until somebody stands at the step.
    pub(crate) async fn reached(&self) {
        let stands = tokio::time::timeout(postroom_testkit::wait::PATIENCE, self.reached.acquire()).await;
        assert!(stands.is_ok(), "nobody came as far as {:?}", self.step);
    }

    /// Stands still for ever.
    async fn stand(&self) {
        self.reached.add_permits(1);
        std::future::pending::<()>().await;
    }
}

#[async_trait]
impl Broker for Faulty {
    fn publisher(&self, topic: Topic, mode: Mode) -> Arc<dyn Destination> {
        Arc::new(Publisher {
            inner: self.broker.publisher(topic, mode),
            fault: self.clone(),
        })
    }

    async fn subscribe(&self, group: &str, topics: &[String], start: Start) -> Result<Box<dyn Subscription>> {
        Ok(Box::new(Member {
            inner: self.broker.subscribe(group, topics, start).await?,
            fault: self.clone(),
        }))
    }

    async fn bury(&self, letter: &Letter) -> Result<()> {
        self.broker.bury(letter).await
    }

    async fn waiting(&self, group: &str, topics: &[String]) -> Result<u64> {
        self.broker.waiting(group, topics).await
    }
}

#[derive(Debug)]
struct Publisher {
    inner: Arc<dyn Destination>,
    fault: Faulty,
}

#[async_trait]
impl Destination for Publisher {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        match self.fault.step {
            Step::BeforeSend => self.fault.stand().await,
            Step::AfterSend => {
                // Polled once: the client has taken the messages and sends them; its answer is never looked at.
                let mut sending = self.inner.deliver(batch);
                drop((&mut sending).now_or_never());
                self.fault.stand().await;
            }
            Step::AfterAck => {
                let receipts = self.inner.deliver(batch).await;
                assert!(
                    receipts.iter().all(|receipt| *receipt == Receipt::Delivered),
                    "{receipts:?}"
                );
                self.fault.stand().await;
            }
            Step::BeforeOffset => {}
        }
        self.inner.deliver(batch).await
    }
}

#[derive(Debug)]
struct Member {
    inner: Box<dyn Subscription>,
    fault: Faulty,
}

#[async_trait]
impl Subscription for Member {
    async fn next(&mut self, max: usize) -> Result<Vec<Message>> {
        self.inner.next(max).await
    }

    async fn ack(&mut self, done: &[Mark]) -> Result<()> {
        if self.fault.step == Step::BeforeOffset {
            self.fault.stand().await;
        }
        self.inner.ack(done).await
    }

    async fn nack(&mut self, back: &[Mark]) -> Result<()> {
        self.inner.nack(back).await
    }
}
