//! The clients of an ingest bench, all on one thread, whose CPU time is told apart from that of the server.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use super::plan::{Plan, Request};
use crate::cpu;
use crate::wire::Wire;

const EVENTS: &str = "/api/v1/activity/events";
/// How often a request is sent whose events could not be stored in time.
const TRIES: u32 = 20;
/// The pause before it is sent again.
const PAUSE: Duration = Duration::from_millis(500);

/// The observations of the clients.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) took: Duration,
    /// Of each request.
    pub(super) latencies_ms: Vec<f64>,
    pub(super) stored: u64,
    pub(super) duplicates: u64,
    pub(super) dropped: u64,
    /// Requests that had to be sent again.
    pub(super) again: u64,
    /// Of the thread of the clients, in percent of a core.
    pub(super) cpu_percent: f64,
}

#[derive(Deserialize)]
struct Results<'a> {
    #[serde(borrow)]
    results: HashMap<&'a str, Item<'a>>,
}

#[derive(Deserialize)]
struct Item<'a> {
    result: &'a str,
}

/// Sends all events. It blocks the thread, and is called on one of its own.
pub(super) fn run(server: SocketAddr, plan: Plan) -> Result<Seen> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .context("make a runtime")?;
    let before = cpu::thread().context("read the CPU time of a thread from /proc")?;
    let begun = Instant::now();
    let mut seen = runtime.block_on(async {
        let mut clients = JoinSet::new();
        for number in 0..plan.clients {
            clients.spawn(client(server, plan, number));
        }
        let mut all = Seen::default();
        while let Some(ended) = clients.join_next().await {
            all.add(ended.context("run a client")??);
        }
        anyhow::Ok(all)
    })?;
    seen.took = begun.elapsed();
    let after = cpu::thread().context("read the CPU time of a thread from /proc")?;
    seen.cpu_percent = after.percent_since(&before, seen.took.as_secs_f64());
    Ok(seen)
}

/// Sends the batches of one client.
async fn client(server: SocketAddr, plan: Plan, number: u64) -> Result<Seen> {
    let (mut wire, mut seen) = (Wire::open(server).await?, Seen::default());
    let mut batch = number;
    while batch < plan.batches() {
        send(&mut wire, &plan.request(batch)?, &mut seen).await?;
        batch += plan.clients;
    }
    Ok(seen)
}

/// Sends one batch until the server has decided about it, and checks the answer to each event.
async fn send(wire: &mut Wire, request: &Request, seen: &mut Seen) -> Result<()> {
    for _ in 0..TRIES {
        let begun = Instant::now();
        let (status, body) = wire.send("POST", EVENTS, &request.body).await?;
        seen.latencies_ms.push(begun.elapsed().as_secs_f64() * 1e3);
        let body = std::str::from_utf8(body)?;
        ensure!(status == 200, "the server answered {status}: {body}");
        let Results { results } = serde_json::from_str(body).context("read an answer")?;
        if results.values().any(|item| item.result == "retry") {
            seen.again += 1;
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        return seen.check(request, &results);
    }
    bail!("the server could not store a batch in {TRIES} tries")
}

impl Seen {
    /// Each event has the answer that it must have, and no other event has one.
    fn check(&mut self, request: &Request, results: &HashMap<&str, Item<'_>>) -> Result<()> {
        let (expected, found) = (request.answers.len(), results.len());
        ensure!(found == expected, "{found} answers for {expected} events");
        for (id, expected) in &request.answers {
            let found = results.get(id.to_string().as_str()).map_or("none", |item| item.result);
            ensure!(found == *expected, "the answer for {id} is {found:?}, not {expected:?}");
            match found {
                "ok" => self.stored += 1,
                "duplicate" => self.duplicates += 1,
                _ => self.dropped += 1,
            }
        }
        Ok(())
    }

    fn add(&mut self, mut other: Self) {
        self.latencies_ms.append(&mut other.latencies_ms);
        self.stored += other.stored;
        self.duplicates += other.duplicates;
        self.dropped += other.dropped;
        self.again += other.again;
    }
}
