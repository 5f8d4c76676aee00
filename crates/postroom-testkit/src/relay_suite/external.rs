//! Clauses about external tasks: what a subscriber does outside any transaction.

use std::sync::{Arc, Mutex, PoisonError};

use postroom::{BoxError, Database, Event, ExternalTask, Idempotency, Relay, Result, Subscriber};
use sea_orm::ConnectionTrait;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::fixture::{Noted, Office, noted, quick};
use crate::Fresh;

/// An external task that leaves an effect in a transaction of its own. The note `slow` waits at the gate first, `bad` fails.
#[derive(Clone, Debug)]
struct Gated {
    gate: Arc<Semaphore>,
    begun: Arc<Mutex<Vec<String>>>,
}

impl Gated {
    fn new() -> Self {
        Self {
            gate: Arc::new(Semaphore::new(0)),
            begun: Arc::default(),
        }
    }

    fn begun(&self) -> Vec<String> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn subscriber(&self) -> Subscriber {
        Subscriber {
            retry: quick(3),
            ..Subscriber::external("s", ["suite.noted.v1"], self.clone())
        }
    }
}

impl ExternalTask for Gated {
    async fn run(&self, db: &Database, event: &Event) -> Result<(), BoxError> {
        let Noted { note, .. } = event.decode()?;
        self.begun
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(note.clone());
        match note.as_str() {
            "slow" => self.gate.acquire().await.expect("the gate stays").forget(),
            "bad" => return Err("scripted to fail".into()),
            _ => {}
        }
        let tx = db.begin().await?;
        tx.execute_unprepared(&effect(&note)).await?;
        tx.commit().await?;
        Ok(())
    }
}

fn effect(note: &str) -> String {
    format!(
        "insert into suite_effect (seq, who, note) select coalesce(max(seq), 0) + 1, 's', '{note}' from suite_effect"
    )
}

/// While an external task waits for somebody, no transaction is open, everybody can write, and other keys go on; what comes behind it
/// on its key waits.
pub async fn an_external_task_holds_up_its_key_alone(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let task = Gated::new();
    office.emit(&[("a", "slow"), ("a", "behind"), ("b", "other")]).await;
    office.start(office.relay().subscriber(task.subscriber()));
    office.expect("s", &["other"]).await;
    office
        .until("no transaction is open", async || {
            let open = office.store().open_transactions().await.expect("open transactions");
            open.is_empty()
        })
        .await;
    office.execute(&effect("meanwhile")).await;
    assert!(!task.begun().contains(&"behind".to_owned()));
    task.gate.add_permits(1);
    office.expect("s", &["other", "meanwhile", "slow", "behind"]).await;
    office.until_settled("s").await;
    assert_eq!(task.begun().len(), 3, "each was run once");
    office.stop().await;
}

/// An external task that is cut off is run again: its progress is written down when it has ended.
pub async fn an_external_task_that_is_cut_off_runs_again(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let task = Gated::new();
    office.emit(&[("a", "slow")]).await;
    office.start(office.relay().subscriber(task.subscriber()));
    office.until("it has begun", async || !task.begun().is_empty()).await;
    office.abort().await;
    task.gate.add_permits(1);
    office.start(office.relay().subscriber(task.subscriber()));
    office.expect("s", &["slow"]).await;
    assert_eq!(task.begun(), ["slow", "slow"]);
    office.stop().await;
}

/// An external task that fails is tried again and in the end given up, as a handler is.
pub async fn an_external_task_that_fails_is_tried_again(fresh: Fresh) {
    let mut office = Office::open(fresh).await;
    let task = Gated::new();
    office.emit(&[("a", "bad"), ("a", "behind"), ("b", "other")]).await;
    office.start(office.relay().subscriber(task.subscriber()));
    office
        .until("all is done that can be", async || office.effects("s").await.len() == 2)
        .await;
    assert_eq!(office.effects("s").await, ["other", "behind"]);
    let tries = task.begun().iter().filter(|note| *note == "bad").count();
    assert_eq!(tries, 3);
    assert_eq!(office.number("select count(*) from postroom.outbox_failed").await, 1);
    office.stop().await;
}

/// An external task carries its event's cause, as a handler does.
pub async fn what_an_external_task_emits_has_a_cause(fresh: Fresh) {
    struct Emits;

    impl ExternalTask for Emits {
        async fn run(&self, db: &Database, event: &Event) -> Result<(), BoxError> {
            if event.hops() == 0 {
                let tx = db.begin().await?;
                postroom::emit(&tx, &noted("a", "follows")).await?;
                tx.commit().await?;
            }
            Ok(())
        }
    }

    let mut office = Office::open(fresh).await;
    let cause = office.emit(&[("a", "first")]).await.remove(0);
    office.start(
        office
            .relay()
            .subscriber(Subscriber::external("s", ["suite.noted.v1"], Emits)),
    );
    office
        .until("both are delivered", async || {
            let status = postroom::operate::status(&*office.store()).await.expect("status");
            status.routes.iter().any(|route| route.delivered == 2)
        })
        .await;
    let page = office
        .store()
        .read(postroom::Position::START, 10)
        .await
        .expect("read the outbox");
    let follows = page.entries.last().expect("what follows");
    assert_eq!(
        follows.event.headers.get(postroom::CAUSATION_ID),
        Some(&cause.to_string())
    );
    office.stop().await;
}

/// No inbox keeps an external task from being run again, so who counts on one is refused.
pub async fn an_external_task_with_an_inbox_is_refused(fresh: Fresh) {
    let task = Subscriber {
        idempotency: Idempotency::Inbox,
        ..Gated::new().subscriber()
    };
    let outbox: Arc<dyn postroom::Outbox> = fresh.store();
    let relay = Relay::new(outbox).subscriber(task);
    let error = relay.run(CancellationToken::new()).await.expect_err("refused");
    assert!(error.to_string().contains("its idempotency must be Natural"), "{error}");
}
