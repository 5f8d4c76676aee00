//! Faults with a broker on the way: relays, consumers and the broker itself are killed in turn, and the history checker finds
//! nothing lost, invented, doubled or disordered.
//!
//! The faults go on for 20 s, or for as many as `POSTROOM_TEST_FAULT_SECONDS` says; what was found is printed, so that a longer
//! run can be read: `POSTROOM_TEST_FAULT_SECONDS=60 cargo xtask test -- -p postroomd --test it broker_fault -- --nocapture`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test harness: what is missing has failed, and what was found is shown"
)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom::{Broker, Result};
use postroom_kafka::{Kafka, Options, TopicSpec};
use postroom_proof::Workload;
use postroom_proof::process::Process;
use postroom_proof::verify::{Reader, Run};
use postroom_rabbitmq::RabbitMq;
use postroom_redis::Redis;
use postroom_testkit::{Fresh, fresh, kafka_server, rabbitmq_server, redis_server};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// How many seconds the faults go on.
const LENGTH: &str = "POSTROOM_TEST_FAULT_SECONDS";
const LENGTH_DEFAULT: u64 = 20;
/// Between two of them.
const PAUSE: Duration = Duration::from_millis(1500);

/// A broker of this test's own, to be killed.
#[async_trait]
trait Victim: Send {
    fn url(&self) -> String;
    async fn broker(&self, topic: &str) -> Arc<dyn Broker>;
    async fn kill_and_restart(&mut self) -> Result<()>;
}

#[async_trait]
impl Victim for kafka_server::Server {
    fn url(&self) -> String {
        self.url()
    }

    async fn broker(&self, topic: &str) -> Arc<dyn Broker> {
        let kafka = Kafka::new(&Options::new(self.url())).unwrap();
        let spec = TopicSpec {
            name: topic.to_owned(),
            partitions: 3,
            replication: 1,
            config: std::collections::BTreeMap::new(),
        };
        kafka.apply(&[spec]).await.unwrap();
        Arc::new(kafka)
    }

    async fn kill_and_restart(&mut self) -> Result<()> {
        self.kill()?;
        self.restart().await
    }
}

#[async_trait]
impl Victim for rabbitmq_server::Server {
    fn url(&self) -> String {
        self.url()
    }

    async fn broker(&self, _topic: &str) -> Arc<dyn Broker> {
        Arc::new(RabbitMq::new(&self.url()).unwrap())
    }

    async fn kill_and_restart(&mut self) -> Result<()> {
        self.kill()?;
        self.restart().await
    }
}

#[async_trait]
impl Victim for redis_server::RedisServer {
    fn url(&self) -> String {
        self.url()
    }

    async fn broker(&self, _topic: &str) -> Arc<dyn Broker> {
        Arc::new(Redis::open(&self.url(), postroom_redis::Options::default()).unwrap())
    }

    async fn kill_and_restart(&mut self) -> Result<()> {
        self.kill()?;
        self.restart().await
    }
}

/// How long the faults go on, if nobody says otherwise.
pub(crate) fn length(default: u64) -> Duration {
    let seconds = std::env::var(LENGTH).map_or(default, |text| {
        let number = text.parse();
        number.unwrap_or_else(|_| panic!("{LENGTH} is {text:?}; give a number of seconds"))
    });
    Duration::from_secs(seconds)
}

fn relay(fresh: &Fresh, prefix: &str, broker: &str) -> Process {
    let mut command = Command::new(Path::new(env!("CARGO_BIN_EXE_postroom")));
    command
        .args(["verify", "--relay-of", prefix])
        .env("POSTROOM__STORE__URL", fresh.url())
        .env("POSTROOM_VERIFY_THROUGH", broker)
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    Process::run(&mut command).unwrap()
}

/// Two processes relay and consume. One, the other and the broker are killed in turn while writers write.
async fn survives(fresh: Fresh, mut victim: impl Victim) {
    let workload = Workload {
        prefix: "through-".to_owned(),
        writers: if fresh.overlapping_writers { 4 } else { 1 },
        keys: 16,
        seed: 11,
    };
    let (length, url) = (length(LENGTH_DEFAULT), victim.url());
    let mut run = Run {
        workload,
        reader: Reader::Own,
        through: None,
        natural: None,
    };
    run.through = Some(victim.broker(&run.topic()).await);
    run.prepare(&*fresh).await.unwrap();
    let start = || relay(&fresh, &run.workload.prefix, &victim.url());
    let mut relays = [start(), start()];
    run.until_registered(&*fresh).await.unwrap();
    let stop = CancellationToken::new();
    let db = fresh.writers(4).await;
    let faults = async {
        let begun = tokio::time::Instant::now();
        let mut turn = 0;
        while begun.elapsed() < length {
            sleep(PAUSE).await;
            match relays.get_mut(turn % 3) {
                Some(process) => {
                    process.kill9().unwrap();
                    *process = relay(&fresh, &run.workload.prefix, &victim.url());
                }
                None => victim.kill_and_restart().await.unwrap(),
            }
            turn += 1;
        }
        stop.cancel();
        turn
    };
    let (written, faults) = tokio::join!(run.workload.run(&db, &stop), Box::pin(faults));
    let tally = written.unwrap();
    let (found, history, truth) = Box::pin(run.finish(&*fresh, &CancellationToken::new())).await.unwrap();
    println!(
        "{} s through {url}, {faults} faults: {tally:?}, {found:?}",
        length.as_secs()
    );
    let lines = history.explain(&truth, 5);
    assert!(
        found.is_exact() && found.events > 100,
        "{found:?} after {faults} faults, {tally:?}\n{lines:#?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_through_kafka() {
    survives(fresh::postgres().await, kafka_server::kafka().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_through_rabbitmq() {
    survives(fresh::postgres().await, rabbitmq_server::rabbitmq().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_through_redis() {
    survives(fresh::postgres().await, redis_server::redis(&[]).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb_through_redis() {
    survives(fresh::mysql().await, redis_server::redis(&[]).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_through_redis() {
    survives(fresh::sqlite().await, redis_server::redis(&[]).await).await;
}
