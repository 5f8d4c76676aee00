//! The fixture of all clauses: a post office with scripted subscribers whose effects are rows in the database.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use postroom::{
    BatchHandler, BoxError, Delays, DomainEvent, Error, ErrorKind, Event, Filter, Handler, Health, Inspect, Job,
    Outbox, Relay, Result, Retry, Route, Start, Subscriber, Tx, table,
};
use sea_orm::{ConnectionTrait, DbBackend, Statement};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::Fresh;
use crate::feed::Feed;

/// No clause waits longer than this for what must happen.
pub(crate) const DEADLINE: Duration = crate::wait::PATIENCE;

/// The event of every clause: something happened to a key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Noted {
    pub(crate) key: String,
    pub(crate) note: String,
}

impl DomainEvent for Noted {
    const TYPE: &'static str = "suite.noted.v1";
    const AGGREGATE_TYPE: &'static str = "suite";

    fn aggregate_id(&self) -> String {
        self.key.clone()
    }
}

pub(crate) fn noted(key: &str, note: &str) -> Noted {
    Noted {
        key: key.to_owned(),
        note: note.to_owned(),
    }
}

/// A database, and the relays that work on it.
pub(crate) struct Office {
    pub(crate) fresh: Fresh,
    stop: CancellationToken,
    relays: JoinSet<Result<()>>,
}

impl Office {
    pub(crate) async fn open(fresh: Fresh) -> Self {
        let table =
            "create table suite_effect (seq bigint not null, who varchar(100) not null, note varchar(200) not null)";
        let office = Self {
            fresh,
            stop: CancellationToken::new(),
            relays: JoinSet::new(),
        };
        office.execute(table).await;
        office
    }

    pub(crate) fn relay(&self) -> Posts {
        let outbox: Arc<dyn Outbox> = self.fresh.store();
        Posts {
            relay: Relay::new(outbox).lease_ttl(Duration::from_secs(3)),
            feed: self.fresh.feed.clone(),
            groups: Vec::new(),
            publishes_from: Start::Beginning,
        }
    }

    pub(crate) fn start(&mut self, posts: Posts) {
        self.relays.spawn(posts.relay().run(self.stop.child_token()));
    }

    /// Runs a relay until nothing is left to do.
    pub(crate) async fn drain(&self, posts: Posts) {
        let drained = tokio::time::timeout(DEADLINE, posts.relay().drain()).await;
        drained
            .expect("a relay becomes idle in time")
            .expect("a relay ends well");
    }

    /// Stops every relay and waits for its end.
    pub(crate) async fn stop(&mut self) {
        self.stop.cancel();
        while let Some(ended) = tokio::time::timeout(DEADLINE, self.relays.join_next())
            .await
            .expect("a relay stops in time")
        {
            ended.expect("a relay does not panic").expect("a relay ends well");
        }
        self.stop = CancellationToken::new();
    }

    /// Ends every relay in the middle of whatever it does.
    pub(crate) async fn abort(&mut self) {
        self.relays.shutdown().await;
    }

    /// Makes the leases of relays that were ended free at once.
    pub(crate) async fn give_leases_back(&self) {
        self.execute(&format!("update {}outbox_cursor set owner = null", self.prefix()))
            .await;
    }

    /// Emits notes, each in its own transaction.
    pub(crate) async fn emit(&self, notes: &[(&str, &str)]) -> Vec<Uuid> {
        let mut ids = Vec::new();
        for (key, note) in notes {
            let tx = table::begin(self.fresh.db()).await.expect("begin");
            ids.push(postroom::emit(&tx, &noted(key, note)).await.expect("emit"));
            tx.commit().await.expect("commit");
        }
        ids
    }

    /// Runs one statement and returns when it is committed.
    pub(crate) async fn execute(&self, sql: &str) {
        let tx = table::begin(self.fresh.db()).await.expect("begin");
        tx.execute_unprepared(sql).await.expect("execute");
        tx.commit().await.expect("commit");
    }

    /// The effects of a subscriber, in the order they were committed.
    pub(crate) async fn effects(&self, who: &str) -> Vec<String> {
        let sql = format!("select note from suite_effect where who = '{who}' order by seq");
        let rows = self
            .fresh
            .db()
            .query_all_raw(Statement::from_string(self.backend(), sql))
            .await
            .expect("read effects");
        rows.iter()
            .map(|row| row.try_get("", "note").expect("a note"))
            .collect()
    }

    /// One number.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let statement = Statement::from_string(self.backend(), sql.replace("postroom.", self.prefix()));
        let row = self
            .fresh
            .db()
            .query_one_raw(statement)
            .await
            .expect("read a number")
            .expect("a row");
        row.try_get_by_index(0)
            .or_else(|_narrow| row.try_get_by_index::<i32>(0).map(i64::from))
            .expect("a number")
    }

    /// Waits until a subscriber's effects are exactly these.
    pub(crate) async fn expect(&self, who: &str, notes: &[&str]) {
        self.until(&format!("{who} has the effects {notes:?}"), async || {
            self.effects(who).await == notes
        })
        .await;
    }

    /// Waits until something is true.
    pub(crate) async fn until(&self, what: &str, is_true: impl AsyncFn() -> bool) {
        let begun = Instant::now();
        while !is_true().await {
            if begun.elapsed() > DEADLINE {
                let effects = self.number("select count(*) from suite_effect").await;
                let status = postroom::operate::status(&*self.fresh.store()).await;
                panic!("waited {DEADLINE:?} until {what}; {effects} effects, {status:?}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until everything that was emitted has been settled by a route, as far as it will.
    pub(crate) async fn until_settled(&self, route: &str) {
        let backlog = async || {
            let status = postroom::operate::status(&*self.fresh.store()).await.expect("status");
            status
                .routes
                .iter()
                .filter(|row| row.route == route)
                .all(|row| row.backlog == 0 && row.retrying == 0)
        };
        self.until(&format!("{route} has nothing left to do"), backlog).await;
    }

    fn backend(&self) -> DbBackend {
        self.fresh.db().get_database_backend()
    }

    /// The prefix of table names.
    pub(crate) fn prefix(&self) -> &'static str {
        if self.backend() == DbBackend::Postgres {
            "postroom."
        } else {
            "postroom_"
        }
    }

    pub(crate) fn store(&self) -> Arc<dyn Inspect> {
        self.fresh.store()
    }
}

/// A relay whose subscribers are fed as the test says: straight from the outbox, or through a broker.
pub(crate) struct Posts {
    relay: Relay,
    feed: Option<Feed>,
    groups: Vec<String>,
    publishes_from: Start,
}

impl Posts {
    pub(crate) fn subscriber(self, subscriber: Subscriber) -> Self {
        self.subscriber_of(subscriber, Filter::all())
    }

    /// Adds a subscriber that the broker brings these types only; others come from the outbox.
    pub(crate) fn subscriber_of(mut self, subscriber: Subscriber, brings: Filter) -> Self {
        self.groups.push(subscriber.group.clone());
        let route = match &self.feed {
            None => subscriber.into_route(),
            Some(feed) => subscriber.fed_by(Arc::clone(&feed.broker), vec![feed.topic.clone()], brings),
        };
        self.route(route)
    }

    /// The same without its broker: nothing is published, and subscribers are fed from the outbox.
    pub(crate) fn outbox_only(self) -> Self {
        Self { feed: None, ..self }
    }

    /// The same with a route to the broker that begins there when it is new.
    pub(crate) fn publishing_from(self, start: Start) -> Self {
        Self {
            publishes_from: start,
            ..self
        }
    }

    pub(crate) fn route(mut self, route: Route) -> Self {
        self.relay = self.relay.route(route);
        self
    }

    pub(crate) fn job(mut self, job: Job) -> Self {
        self.relay = self.relay.job(job);
        self
    }

    pub(crate) fn health(&self) -> Arc<Health> {
        self.relay.health()
    }

    pub(crate) fn lease_ttl(mut self, ttl: Duration) -> Self {
        self.relay = self.relay.lease_ttl(ttl);
        self
    }

    pub(crate) fn relay(self) -> Relay {
        match self.feed {
            None => self.relay,
            Some(feed) => self.relay.route(Route {
                start: self.publishes_from,
                ..feed.publishing(self.groups)
            }),
        }
    }
}

/// A handler that does what its script says, and leaves an effect when it succeeds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scripted {
    who: String,
    /// Notes that fail now, with the error's words.
    bad: Arc<Mutex<HashSet<String>>>,
    /// Every call, also those that failed.
    calls: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    pub(crate) fn new(who: &str) -> Self {
        Self {
            who: who.to_owned(),
            ..Self::default()
        }
    }

    pub(crate) fn fails_on(self, note: &str) -> Self {
        self.bad
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(note.to_owned());
        self
    }

    pub(crate) fn heal(&self) {
        self.bad.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) fn calls(&self, note: &str) -> usize {
        self.calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .filter(|call| *call == note)
            .count()
    }

    /// A subscriber with this script and short retries.
    pub(crate) fn subscriber(&self, attempts_max: u32) -> Subscriber {
        Subscriber {
            retry: quick(attempts_max),
            ..Subscriber::matching(self.who.clone(), ["suite.**"], self.clone())
        }
    }

    async fn act(&self, tx: &Tx, event: &Event) -> Result<()> {
        let noted: Noted = event.decode()?;
        self.calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(noted.note.clone());
        self.leave_effect(tx, &noted.note).await?; // before it fails: a failure must take it back
        let is_bad = self
            .bad
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(&noted.note);
        match noted.note.as_str() {
            "panic" if is_bad => panic!("scripted to panic"),
            "hang" if is_bad => std::future::pending().await,
            "lock" if is_bad => {
                tx.execute_unprepared("update suite_locked set id = 1 where id = 1")
                    .await?;
                Ok(())
            }
            "swallow" if is_bad => {
                tx.execute_unprepared("select * from a_table_that_is_not_there")
                    .await
                    .ok();
                Ok(())
            }
            "invalid" if is_bad => Err(Error::invalid("scripted to be invalid")),
            note if is_bad => Err(Error::new(ErrorKind::Failed, format!("scripted to fail on {note}"))),
            _ => Ok(()),
        }
    }

    async fn leave_effect(&self, tx: &Tx, note: &str) -> Result<()> {
        let sql = format!(
            "insert into suite_effect (seq, who, note) select coalesce(max(seq), 0) + 1, '{}', '{note}' from suite_effect",
            self.who
        );
        tx.execute_unprepared(&sql).await?;
        Ok(())
    }
}

impl Handler for Scripted {
    async fn handle(&self, tx: &mut Tx, event: &Event) -> Result<(), BoxError> {
        Ok(self.act(tx, event).await?)
    }
}

/// The same, several events at once.
#[derive(Debug)]
pub(crate) struct InBatches(pub(crate) Scripted);

impl BatchHandler for InBatches {
    async fn handle(&self, tx: &mut Tx, events: &[&Event]) -> Result<(), BoxError> {
        for event in events {
            self.0.act(tx, event).await?;
        }
        Ok(())
    }
}

/// Retries that do not slow a test down.
pub(crate) fn quick(attempts_max: u32) -> Retry {
    Retry {
        delays: Delays::Fixed(Duration::from_millis(50)),
        attempts_max: Some(attempts_max),
        age_max: None,
    }
}

/// A subquery with the numbers from 1 to 100,000 as `n`, on every database.
pub(crate) fn numbers() -> String {
    let digit = "(select 0 as d union all select 1 union all select 2 union all select 3 union all select 4 union all \
                 select 5 union all select 6 union all select 7 union all select 8 union all select 9)";
    format!(
        "(select a.d + 10 * b.d + 100 * c.d + 1000 * d.d + 10000 * e.d + 1 as n \
         from {digit} a, {digit} b, {digit} c, {digit} d, {digit} e)"
    )
}
