//! A consumer group that counts each order from Kafka once.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use postroom::{BoxError, Delays, Event, Filter, Handler, Result, Retry, Subscriber, Tx};
use sea_orm::ConnectionTrait as _;

use crate::pipeline::{OrderPaid, Pipeline, retry};

const HOUR: Duration = Duration::from_secs(3600);

/// Inserts one row per order, and fails on selected orders.
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

/// Starts a relay that publishes orders and a consumer group that counts them. Returns the name of the group.
pub(crate) async fn start_consumer(pipeline: &mut Pipeline, sales: &Sales) -> String {
    pipeline.execute("create table sold (n bigint not null)").await;
    let group = format!("{}{GROUP}", pipeline.prefix);
    let subscriber = Subscriber {
        retry: Retry {
            delays: Delays::Fixed(Duration::from_secs(1)),
            attempts_max: Some(4), // the first attempt and three retries
            age_max: None,
        },
        batch: 100,
        ..Subscriber::matching(group.clone(), ["loopers.order.**"], sales.clone())
    };
    let spy = pipeline.spy();
    let mut route = pipeline.strict_route(&spy, retry(300, HOUR));
    route.awaits = vec![group.clone()];
    let kafka = Arc::new(pipeline.site.kafka.clone());
    let fed = subscriber.fed_by(
        kafka,
        vec![pipeline.topic("order")],
        Filter::any_of(["loopers.order.**"]),
    );
    pipeline.start(pipeline.relay().route(route).route(fed));
    group
}

pub(crate) async fn sold(pipeline: &Pipeline) -> Vec<i64> {
    let rows = pipeline.rows("select n from sold order by n").await;
    rows.iter().map(|row| row.try_get("", "n").unwrap()).collect()
}
