//! Thirty-two clients move money at random while the stage, the broker and the database are killed. In the end, each answer
//! that a client received is in the books exactly once, and nothing else is.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test harness: a panic fails the test"
)]

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom::Broker;
use postroom_testkit::broker_suite::Site;
use postroom_testkit::memory_broker::MemoryBroker;
use postroom_testkit::own_topics::OwnTopics;
use postroom_testkit::stage::{Running, Scenery};
use postroom_testkit::{Fresh, fresh, kafka_server, server};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::books;
use crate::client::Client;
use crate::world::{Place, TOPICS};

const CLIENTS: usize = 32;
const ACCOUNTS: usize = 12;
const EACH: i64 = 1_000_000;
/// The wait between two faults, and between two attempts of a client when the ledger is unavailable.
const PAUSE: Duration = Duration::from_millis(700);
const AGAIN: Duration = Duration::from_millis(50);

fn length() -> Duration {
    let seconds = std::env::var("POSTROOM_TEST_FAULT_SECONDS").map_or(10, |text| text.parse().unwrap());
    Duration::from_secs(seconds)
}

/// A component that can be killed and restarts.
#[async_trait]
trait Victim: Send {
    async fn kill(&mut self);
}

#[async_trait]
impl Victim for server::Server {
    async fn kill(&mut self) {
        server::Server::kill(self).unwrap();
        self.restart().await.unwrap();
    }
}

#[async_trait]
impl Victim for kafka_server::Server {
    async fn kill(&mut self) {
        kafka_server::Server::kill(self).unwrap();
        self.restart().await.unwrap();
    }
}

#[async_trait]
impl Victim for MemoryBroker {
    async fn kill(&mut self) {
        self.stop().await;
        sleep(PAUSE).await;
        self.start().await;
    }
}

/// A client that records the answers to its requests.
struct Mover {
    address: watch::Receiver<Client>,
    accounts: Arc<Vec<String>>,
    /// Answers to posted transactions.
    posted: Vec<Value>,
    /// The number of rejected requests.
    refused: usize,
}

impl Mover {
    /// Moves money until it is stopped. A started request is always repeated until it has an answer.
    async fn run(mut self, stop: CancellationToken) -> (Vec<Value>, usize) {
        while !stop.is_cancelled() {
            let (path, body) = self.next();
            let (status, answer) = self.ask(&path, &body).await;
            match status {
                201 => self.posted.push(answer),
                _ => self.refused += 1,
            }
        }
        (self.posted, self.refused)
    }

    fn next(&self) -> (String, Value) {
        let account = || self.accounts[rand::random_range(0..self.accounts.len())].clone();
        let amount = json!({ "amount": rand::random_range(1..500), "currency": "KRW" });
        match (rand::random_range(0..10), self.posted.last()) {
            (0, _) => (format!("/ledger/accounts/{}/deposits", account()), amount),
            (1, _) => (format!("/ledger/accounts/{}/withdrawals", account()), amount),
            (2, Some(last)) => {
                let id = last["transaction_id"].as_str().unwrap();
                (format!("/ledger/transactions/{id}/reversal"), json!({}))
            }
            _ => {
                let transfer =
                    json!({ "from": account(), "to": account(), "amount": amount["amount"], "currency": "KRW" });
                ("/ledger/transfers".to_owned(), transfer)
            }
        }
    }

    /// Repeats the request with one key until there is an answer.
    async fn ask(&mut self, path: &str, body: &Value) -> (u16, Value) {
        let (key, begun) = (Uuid::now_v7().to_string(), Instant::now());
        loop {
            let client = self.address.borrow().clone();
            match client.send("POST", path, Some(&key), &body.to_string()).await {
                Ok(answer) if answer.status < 500 => return (answer.status, answer.body),
                _ => sleep(AGAIN).await,
            }
            assert!(
                begun.elapsed() < Duration::from_secs(120),
                "no answer for two minutes: {path}"
            );
        }
    }
}

async fn open(fresh: &Fresh, broker: Option<&Arc<dyn Broker>>) -> Running {
    let scenery = Scenery {
        broker: broker.cloned(),
        ..Scenery::default()
    };
    Running::open(fresh, vec![ledger::module()], scenery).await
}

async fn kafka_at(url: &str) -> Arc<dyn Broker> {
    OwnTopics::on(url, &TOPICS).await.broker()
}

/// Kills the stage and the victims in turn. Returns the number of kills.
async fn faults(
    fresh: &Fresh,
    broker: Option<&Arc<dyn Broker>>,
    (mut stage, address): (Running, watch::Sender<Client>),
    victims: &mut [Box<dyn Victim>],
) -> (Running, usize) {
    let (begun, mut turn) = (Instant::now(), 0);
    // A slow restart of one server must not use up the time of the other victims.
    while begun.elapsed() < length() || turn < 2 * victims.len() {
        sleep(PAUSE).await;
        match victims.get_mut((turn / 2) % victims.len().max(1)) {
            Some(victim) if turn % 2 == 1 => victim.kill().await,
            _ => {
                drop(stage);
                stage = open(fresh, broker).await;
                address.send_replace(Client(stage.client.clone()));
            }
        }
        turn += 1;
    }
    (stage, turn)
}

async fn survives(Place { fresh, broker }: Place, mut victims: Vec<Box<dyn Victim>>) {
    let stage = open(&fresh, broker.as_ref()).await;
    let client = Client(stage.client.clone());
    let (address, reader) = watch::channel(client.clone());
    let (mut accounts, mut answers) = (Vec::new(), Vec::new());
    for number in 0..ACCOUNTS {
        let account = client.open(&format!("owner-{}", number % 4), "KRW").await;
        answers.push(client.deposit(&account, EACH).await.created());
        accounts.push(account);
    }
    let (accounts, stop) = (Arc::new(accounts), CancellationToken::new());
    let mut movers = JoinSet::new();
    for _ in 0..CLIENTS {
        let mover = Mover {
            address: reader.clone(),
            accounts: Arc::clone(&accounts),
            posted: Vec::new(),
            refused: 0,
        };
        movers.spawn(mover.run(stop.clone()));
    }
    let (stage, killed) = Box::pin(faults(&fresh, broker.as_ref(), (stage, address), &mut victims)).await;
    stop.cancel();
    let mut refused = 0;
    while let Some(ended) = movers.join_next().await {
        let (posted, not) = ended.unwrap();
        answers.extend(posted);
        refused += not;
    }
    books::settle(&fresh).await;
    compare(&fresh, &answers).await;
    let tally = format!(
        "{} transactions posted, {refused} refused, {killed} kills",
        answers.len()
    );
    assert!(answers.len() > ACCOUNTS + 50, "{tally}");
    stage.close().await;
}

/// The transactions in the books are exactly the ones that the clients received as answers, and they produce the balances.
async fn compare(fresh: &Fresh, answers: &[Value]) {
    let told: HashSet<String> = answers
        .iter()
        .map(|one| one["transaction_id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        told.len(),
        answers.len(),
        "one transaction was the answer to two requests"
    );
    let rows = books::rows(&**fresh, "select transaction_id from ledger_transaction").await;
    let kept: HashSet<String> = rows.iter().map(|row| books::read(row, "transaction_id")).collect();
    assert_eq!(
        kept, told,
        "transactions in the books, and those in the answers to clients"
    );
    let mut sums: BTreeMap<String, i64> = BTreeMap::new();
    for entry in answers.iter().flat_map(|one| one["entries"].as_array().unwrap()) {
        let account = entry["account_id"].as_str().unwrap().to_owned();
        *sums.entry(account).or_default() += entry["amount"].as_i64().unwrap();
    }
    let rows = books::rows(&**fresh, "select account_id, balance from ledger_account").await;
    let balances: BTreeMap<String, i64> = rows
        .iter()
        .map(|row| (books::read(row, "account_id"), books::read(row, "balance")))
        .collect();
    assert_eq!(balances, sums, "balances, and the sums of the answers to clients");
}

/// The default setup: SQLite and no broker.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_money_is_lost_on_sqlite() {
    survives(fresh::sqlite().await.into(), vec![]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_money_is_lost_on_sqlite_with_a_broker() {
    let broker = MemoryBroker::default();
    let place = Place::through(fresh::sqlite().await, broker.broker());
    survives(place, vec![Box::new(broker)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_money_is_lost_on_postgres_and_kafka() {
    let (database, kafka) = (server::postgres(&[]).await, kafka_server::kafka().await);
    let (fresh, broker) = (fresh::postgres_on(&database.url()).await, kafka_at(&kafka.url()).await);
    survives(Place::through(fresh, broker), vec![Box::new(kafka), Box::new(database)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_money_is_lost_on_mariadb_and_kafka() {
    let (database, kafka) = (server::mariadb(&[]).await, kafka_server::kafka().await);
    let (fresh, broker) = (fresh::mysql_on(&database.url()).await, kafka_at(&kafka.url()).await);
    survives(Place::through(fresh, broker), vec![Box::new(kafka), Box::new(database)]).await;
}
