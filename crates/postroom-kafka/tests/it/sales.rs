//! A consumer that counts sales: the orders that Kafka brings, each once.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use postroom::{BoxError, Delays, Event, Filter, Handler, Result, Retry, Subscriber, Tx};
use sea_orm::ConnectionTrait as _;

use crate::office::{Office, OrderPaid, retry};

const HOUR: Duration = Duration::from_secs(3600);

/// Counts sales: one row per order, and fails on some.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sales {
    pub(crate) bad: Arc<Mutex<HashSet<i64>>>,
    calls: Arc<Mutex<Vec<(i64, Instant)>>>,
}

impl Sales {
    pub(crate) fn failing_on(n: i64) -> Self {
        let sales = Self::default();
        sales.bad.lock().unwrap().insert(n);
        sales
    }

    pub(crate) fn calls(&self, n: i64) -> Vec<Instant> {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|(of, _)| *of == n).map(|(_, at)| *at).collect()
    }
}

impl Handler for Sales {
    async fn handle(&self, tx: &mut Tx, event: &Event) -> Result<(), BoxError> {
        let OrderPaid { n } = event.decode()?;
        self.calls.lock().unwrap().push((n, Instant::now()));
        tx.execute_unprepared(&format!("insert into sold (n) values ({n})"))
            .await?;
        if self.bad.lock().unwrap().contains(&n) {
            return Err(format!("no shelf for {n}").into());
        }
        Ok(())
    }
}

const GROUP: &str = "product-order";

/// Publishes orders, and a consumer group counts them.
pub(crate) async fn start_consumer(office: &mut Office, sales: &Sales) -> String {
    office.execute("create table sold (n bigint not null)").await;
    let group = format!("{}{GROUP}", office.prefix);
    let subscriber = Subscriber {
        retry: Retry {
            delays: Delays::Fixed(Duration::from_secs(1)),
            attempts_max: Some(4), // the first try and three more
            age_max: None,
        },
        batch: 100,
        ..Subscriber::matching(group.clone(), ["loopers.order.**"], sales.clone())
    };
    let spy = office.spy();
    let mut line = office.line(&spy, retry(300, HOUR));
    line.awaits = vec![group.clone()];
    let kafka = Arc::new(office.site.kafka.clone());
    let fed = subscriber.fed_by(kafka, vec![office.topic("order")], Filter::any_of(["loopers.order.**"]));
    office.start(office.relay().route(line).route(fed));
    group
}

pub(crate) async fn sold(office: &Office) -> Vec<i64> {
    let rows = office.rows("select n from sold order by n").await;
    rows.iter().map(|row| row.try_get("", "n").unwrap()).collect()
}
