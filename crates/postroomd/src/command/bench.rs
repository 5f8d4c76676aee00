//! `postroom bench`: measures on your own machine and database what the documentation promises. The measurements are in
//! `postroom-bench`; here are the flags, the store and the broker, and the page.

use std::net::SocketAddr;
use std::num::NonZeroU32;

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use postroom_address::StoreUrl;
use postroom_bench::{
    AccessBench, BacklogBench, Bench as Measurement, CollectBench, EmitBench, IdleBench, IngestBench, Native, Outcome,
    Place, Protocol, RelayBench, Setting, StreamBench, Target,
};

use crate::command::trial::{Ground, migrate, progress};
use crate::listing::{Cell, Listing};
use crate::output::{Tone, print, print_json};
use crate::signal::Signals;

/// Measure speed, latency and cost on this machine
///
/// Without --store in an SQLite file of its own. In a store that is named it makes tables bench_*, events postroom.bench.*
/// and routes bench-*, and removes them in the end; it refuses one where other events wait or another relay works.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: What,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    /// Even if others are at work in the store
    #[arg(long, global = true)]
    force: bool,
}

#[derive(Debug, Subcommand)]
enum What {
    /// How fast a backlog is delivered, and how soon a single event
    Relay {
        /// Where to: `subscriber`, a handler that inserts a row for each event; `null`, which accepts everything; or a broker,
        /// kafka://…, amqp://… or redis://…, where a topic of the bench's own is made and removed
        #[arg(long, default_value_t)]
        to: Target,
        /// To Kafka in transactions, one per page, instead of idempotently
        #[arg(long)]
        transactional: bool,
        /// How many events the backlog has
        #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(2..=10_000_000))]
        events: u32,
        /// Events per second while latency is measured, each in a transaction of its own
        #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        rate: u32,
        /// For how long latency is measured
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
        seconds: u32,
    },
    /// Measure the cost of an emit in the caller's transaction
    Emit {
        /// Transactions side by side
        #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=16))]
        connections: u16,
        /// How long all rounds take together
        #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=3600))]
        seconds: u32,
    },
    /// Measure the cost of reading after few and after many delivered rows
    Backlog {
        /// Few rows
        #[arg(long, default_value_t = 10_000)]
        small: u64,
        /// Many rows
        #[arg(long, default_value_t = 1_000_000)]
        large: u64,
    },
    /// Measure the cost of an idle relay
    Idle {
        /// How many subscribers it has
        #[arg(long, default_value_t = 20)]
        subscribers: u16,
        /// For how long it is watched
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=3600))]
        seconds: u32,
    },
    /// Measure the cost of the check of a token in requests per second
    Access {
        /// Clients side by side
        #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1000))]
        clients: u16,
        /// How long all rounds take together
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=3600))]
        seconds: u32,
    },
    /// Measure how many events of clients are stored in a second, over HTTP in batches of 100
    ///
    /// The tables of the module `activity` are made and dropped.
    Ingest {
        /// How many events are sent; 5 % of them are repeated, 1 % are invalid
        #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
        events: u32,
        /// Clients side by side
        #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
        clients: u16,
    },
    /// Measure how much slower requests are while activity collection is broken
    ///
    /// The tables of the modules `tasteam` and `activity` are made and dropped.
    Collect {
        /// How many requests with broken collection, and as many without collection
        #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(5..=1_000_000))]
        requests: u32,
        /// Rounds with broken collection, each after or before one without. In one round, everything stays broken for all requests
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
        rounds: u32,
        /// Requests per second; without it, each follows the answer to the last one
        #[arg(long)]
        rate: Option<NonZeroU32>,
        /// A Redis that feeds collection and is cut off too: redis://HOST:PORT. Keys of the bench's own are made and removed
        #[arg(long)]
        redis: Option<String>,
    },
    /// Measure the memory of idle event streams (SSE), and how fast a frame reaches all of them
    ///
    /// A second process holds the clients. Both need an open file for each connection (`ulimit -n`).
    Sse(Connections),
    /// The same with WebSockets
    Chat(Connections),
    /// The clients of `sse` and `chat`
    #[command(hide = true)]
    StreamClients {
        #[arg(long)]
        server: SocketAddr,
        #[arg(long, value_parser = protocol)]
        protocol: Protocol,
        #[arg(long)]
        connections: u32,
    },
}

/// Clients of streams.
#[derive(Clone, Copy, Debug, Args)]
struct Connections {
    /// How many connections, all on one stream
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    connections: u32,
    /// How long throughput is measured, and latency after it
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
}

impl Connections {
    fn flags(self) -> String {
        format!("--connections {} --seconds {}", self.connections, self.seconds)
    }

    fn measurement(self, protocol: Protocol) -> Measurement {
        Measurement::Stream(StreamBench {
            protocol,
            connections: self.connections,
            seconds: self.seconds,
        })
    }
}

fn protocol(text: &str) -> Result<Protocol, String> {
    let known = [Protocol::Sse, Protocol::Chat]
        .into_iter()
        .find(|known| known.name() == text);
    known.ok_or_else(|| "must be sse or chat".to_owned())
}

impl Bench {
    /// Measures in the store that was named, and in no other.
    pub(crate) async fn run(self, store: Option<&StoreUrl>) -> Result<()> {
        if let What::StreamClients {
            server,
            protocol,
            connections,
        } = self.what
        {
            let clients = move || postroom_bench::run_stream_client(server, protocol, connections);
            return tokio::task::spawn_blocking(clients).await.context("run clients")?;
        }
        let mut signals = Signals::listen()?;
        let ground = Ground::new(store)?;
        let native = Native::open(&ground.url).await?;
        migrate(&native.store()).await?;
        let repeat = match store {
            None => format!("postroom bench {}", self.what.flags()),
            Some(url) => format!("postroom bench {} --store {url}", self.what.flags()),
        };
        let version = native.store().version().await?;
        let on = Setting::new(ground.url.to_string(), version, repeat);
        let place = Place {
            native,
            url: ground.url.to_string(),
            is_temporary: ground.is_temporary(),
            is_forced: self.force,
            tell: progress,
        };
        match (self.what.measurement()?.run(place, signals.next()).await?, self.json) {
            (None, _) => bail!("stopped; what the bench had made is removed"),
            (Some(outcome), true) => print_json(&outcome.document(&on)?),
            (Some(outcome), false) => print(page(&outcome, &on)),
        }
    }
}

impl What {
    /// The flags that repeat this run.
    fn flags(&self) -> String {
        match self {
            Self::Relay {
                to,
                transactional,
                events,
                rate,
                seconds,
            } => {
                let transactional = if *transactional { " --transactional" } else { "" };
                format!("relay --to {to}{transactional} --events {events} --rate {rate} --seconds {seconds}")
            }
            Self::Emit { connections, seconds } => format!("emit --connections {connections} --seconds {seconds}"),
            Self::Backlog { small, large } => format!("backlog --small {small} --large {large}"),
            Self::Idle { subscribers, seconds } => format!("idle --subscribers {subscribers} --seconds {seconds}"),
            Self::Access { clients, seconds } => format!("access --clients {clients} --seconds {seconds}"),
            Self::Ingest { events, clients } => format!("ingest --events {events} --clients {clients}"),
            Self::Collect {
                requests,
                rounds,
                rate,
                redis,
            } => {
                let redis = redis.as_ref().map_or("", |_| " --redis …"); // the address may have a password
                let rate = rate.map_or(String::new(), |rate| format!(" --rate {rate}"));
                format!("collect --requests {requests} --rounds {rounds}{rate}{redis}")
            }
            Self::Sse(connections) => format!("sse {}", connections.flags()),
            Self::Chat(connections) => format!("chat {}", connections.flags()),
            Self::StreamClients { .. } => String::new(), // measures nothing by itself
        }
    }

    fn measurement(self) -> Result<Measurement> {
        Ok(match self {
            Self::Relay {
                to,
                transactional,
                events,
                rate,
                seconds,
            } => Measurement::Relay(RelayBench {
                to,
                is_transactional: transactional,
                events,
                rate,
                seconds,
            }),
            Self::Emit { connections, seconds } => Measurement::Emit(EmitBench { connections, seconds }),
            Self::Backlog { small, large } => Measurement::Backlog(BacklogBench { small, large }),
            Self::Idle { subscribers, seconds } => Measurement::Idle(IdleBench { subscribers, seconds }),
            Self::Access { clients, seconds } => Measurement::Access(AccessBench { clients, seconds }),
            Self::Ingest { events, clients } => Measurement::Ingest(IngestBench { events, clients }),
            Self::Collect {
                requests,
                rounds,
                rate,
                redis,
            } => Measurement::Collect(CollectBench {
                requests,
                rounds,
                rate,
                redis,
            }),
            Self::Sse(connections) => connections.measurement(Protocol::Sse),
            Self::Chat(connections) => connections.measurement(Protocol::Chat),
            Self::StreamClients { .. } => bail!("clients of streams measure nothing by themselves"),
        })
    }
}

fn page(outcome: &Outcome, on: &Setting) -> String {
    let mut listing = Listing::new(&["measured", "#value", "note"]);
    for figure in outcome.figures() {
        let value = Cell::new(Tone::Strong, &figure.value);
        listing.row([figure.what.as_str().into(), value, Cell::new(Tone::Faint, &figure.note)]);
    }
    format!(
        "{}\n\non {} at {}, {} cores, load average before: {}\nagain: {}",
        listing.text(),
        on.version,
        on.store,
        on.cores,
        on.load_average
            .map_or("unknown".to_owned(), |load| format!("{load:.1}")),
        on.repeat
    )
}
