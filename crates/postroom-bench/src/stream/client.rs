//! The clients, in a process of their own and on one thread: each checks that its frames come once and in order.

use std::io::{BufRead as _, ErrorKind, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::journal::since_epoch;
use super::latency::Latencies;
use crate::cpu;

/// Connections that are opened side by side.
const OPENING: usize = 64;
/// Connections from one address of this machine: each takes one of its 28,000 ports for clients.
const FROM_ONE_ADDRESS: u32 = 20_000;
/// Frames that wait to be counted.
const COUNTED_MAX: usize = 65_536;
/// The beginning of the data of each frame of the bench.
const NUMBER: &[u8] = b"{\"at\":";

/// How clients are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Server-sent events.
    Sse,
    /// A WebSocket.
    Chat,
}

impl Protocol {
    /// Its name in commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sse => "sse",
            Self::Chat => "chat",
        }
    }
}

/// A line of the process with the clients.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    Connected,
    /// All clients have all frames up to this one.
    Complete(u64),
    End(Seen),
    Failed(String),
}

/// The observations of all clients.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Seen {
    pub(super) frames: u64,
    pub(super) gaps: u64,
    pub(super) duplicates: u64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    /// While throughput was measured.
    pub(super) fast_cpu_percent: f64,
}

/// A frame of the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
struct Tick {
    number: u64,
    /// When it was published, in microseconds of the time of day.
    at: u64,
    paced: bool,
}

/// A message from a client to the counter.
enum Event {
    Tick(Counted),
    Lost,
}

struct Counted {
    tick: Tick,
    /// The number before it at this client.
    after: u64,
    micros: u64,
}

/// Runs clients until standard input says `end` or ends. Reports on standard output.
pub fn run(server: SocketAddr, protocol: Protocol, connections: u32) -> Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("start the clients")?;
    let outcome = runtime.block_on(watch(server, protocol, connections));
    if let Err(error) = &outcome {
        report(&Report::Failed(format!("{error:#}")))?;
    }
    runtime.shutdown_background();
    Ok(())
}

fn report(report: &Report) -> Result<()> {
    let mut output = std::io::stdout().lock();
    serde_json::to_writer(&mut output, report)?;
    writeln!(output)?;
    Ok(output.flush()?)
}

async fn watch(server: SocketAddr, protocol: Protocol, connections: u32) -> Result<()> {
    let streams = open_all(server, protocol, connections).await?;
    let (events, mut counted) = mpsc::channel(COUNTED_MAX);
    let mut reading = JoinSet::new();
    for reader in streams {
        reading.spawn(reader.run(events.clone()));
    }
    let mut commands = commands(&mut reading);
    report(&Report::Connected)?;
    let mut counter = Counter::new(connections);
    let mut fast = None;
    loop {
        tokio::select! {
            Some(event) = counted.recv() => counter.count(&event)?,
            command = commands.recv() => match command.as_deref() {
                Some("fast") => fast = cpu::own().map(|cpu| (Instant::now(), cpu)),
                Some("paced") => {
                    let used = cpu::own().zip(fast.take());
                    counter.seen.fast_cpu_percent = used.map_or(0.0, |(now, (begun, then))| {
                        now.percent_since(&then, begun.elapsed().as_secs_f64())
                    });
                }
                _ => return report(&Report::End(counter.end())),
            }
        }
    }
}

/// Lines of standard input.
fn commands(reading: &mut JoinSet<()>) -> mpsc::Receiver<String> {
    let (sender, commands) = mpsc::channel(8);
    reading.spawn_blocking(move || {
        let lines = std::io::stdin().lock().lines().map_while(Result::ok);
        for line in lines {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    commands
}

async fn open_all(server: SocketAddr, protocol: Protocol, connections: u32) -> Result<Vec<Reader>> {
    let (mut opening, mut open) = (JoinSet::new(), Vec::new());
    for member in 0..connections {
        if opening.len() == OPENING
            && let Some(opened) = opening.join_next().await
        {
            open.push(opened??);
        }
        opening.spawn(Reader::open(server, protocol, member));
    }
    while let Some(opened) = opening.join_next().await {
        open.push(opened??);
    }
    Ok(open)
}

/// From an address that has ports left.
async fn connect(server: SocketAddr, member: u32) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    let [.., last] = (2 + member / FROM_ONE_ADDRESS).to_be_bytes();
    socket.bind((Ipv4Addr::new(127, 0, 0, last), 0).into())?;
    Ok(socket.connect(server).await?)
}

/// One client.
struct Reader {
    stream: TcpStream,
    /// Bytes of a frame that has not come whole.
    rest: Vec<u8>,
    last: u64,
}

impl Reader {
    async fn open(server: SocketAddr, protocol: Protocol, member: u32) -> Result<Self> {
        let mut stream = connect(server, member).await.context("connect")?;
        let name = protocol.name();
        let upgrade = match protocol {
            Protocol::Sse => "accept: text/event-stream\r\n",
            Protocol::Chat => {
                "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            }
        };
        let request = format!("GET /bench/{name}?member={member} HTTP/1.1\r\nhost: localhost\r\n{upgrade}\r\n");
        stream.write_all(request.as_bytes()).await.context("send a request")?;
        let expected: &[u8] = match protocol {
            Protocol::Sse => b"HTTP/1.1 200",
            Protocol::Chat => b"HTTP/1.1 101",
        };
        let mut head = Vec::new();
        while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
            let mut some = [0; 1_024];
            let read = stream.read(&mut some).await.context("read a response")?;
            ensure!(read > 0, "the server closed a connection");
            head.extend_from_slice(some.get(..read).unwrap_or_default());
        }
        if !head.starts_with(expected) {
            bail!("the server answered {}", String::from_utf8_lossy(&head));
        }
        Ok(Self {
            stream,
            rest: Vec::new(),
            last: 0,
        })
    }

    /// Reads frames until the connection ends.
    async fn run(mut self, events: mpsc::Sender<Event>) {
        while self.read().await {
            let now = u64::try_from(since_epoch().as_micros()).unwrap_or_default();
            for tick in take_ticks(&mut self.rest) {
                let counted = Counted {
                    tick,
                    after: self.last,
                    micros: now.saturating_sub(tick.at),
                };
                self.last = tick.number.max(self.last);
                if events.send(Event::Tick(counted)).await.is_err() {
                    return;
                }
            }
        }
        // The counter is gone at the end.
        drop(events.send(Event::Lost).await);
    }

    /// Reads what has come; answers whether the connection goes on. The buffer is not part of a client that waits.
    async fn read(&mut self) -> bool {
        loop {
            if self.stream.readable().await.is_err() {
                return false;
            }
            let mut some = [0; 4_096];
            match self.stream.try_read(&mut some) {
                Ok(0) => return false,
                Ok(read) => {
                    self.rest.extend_from_slice(some.get(..read).unwrap_or_default());
                    return true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_broken) => return false,
            }
        }
    }
}

/// Takes all whole frames of the bench out of what came. The rest of the protocol is passed over: the data of a frame is in one piece.
fn take_ticks(bytes: &mut Vec<u8>) -> Vec<Tick> {
    let (mut ticks, mut done) = (Vec::new(), 0);
    while let Some(rest) = bytes.get(done..)
        && let Some(begin) = rest.windows(NUMBER.len()).position(|bytes| bytes == NUMBER)
        && let Some(length) = rest.iter().skip(begin).position(|byte| *byte == b'}')
    {
        let text = rest.get(begin..=begin + length).unwrap_or_default();
        ticks.extend(serde_json::from_slice::<Tick>(text).ok()); // a ping has no number
        done += begin + length + 1;
    }
    let kept = bytes.len().saturating_sub(NUMBER.len() - 1).max(done);
    let begins = bytes
        .get(done..)
        .and_then(|rest| rest.windows(NUMBER.len()).position(|bytes| bytes == NUMBER));
    bytes.drain(..begins.map_or(kept, |begin| done + begin));
    if bytes.is_empty() {
        *bytes = Vec::new();
    }
    ticks
}

/// Counts the frames of all clients.
struct Counter {
    connections: u64,
    seen: Seen,
    latencies: Latencies,
    /// How many clients have each frame after the last complete one.
    received: std::collections::VecDeque<u64>,
    complete: u64,
}

impl Counter {
    fn new(connections: u32) -> Self {
        Self {
            connections: connections.into(),
            seen: Seen::default(),
            latencies: Latencies::new(),
            received: std::collections::VecDeque::new(),
            complete: 0,
        }
    }

    fn count(&mut self, event: &Event) -> Result<()> {
        let Event::Tick(Counted { tick, after, micros }) = event else {
            bail!("the server ended a connection");
        };
        self.seen.frames += 1;
        match tick.number.checked_sub(after + 1) {
            Some(0) => {}
            Some(_) => self.seen.gaps += 1,
            None => self.seen.duplicates += 1,
        }
        if tick.paced {
            self.latencies.add(*micros);
        }
        let Some(at) = tick.number.checked_sub(self.complete + 1) else {
            return Ok(());
        };
        let at = usize::try_from(at).unwrap_or_default();
        if self.received.len() <= at {
            self.received.resize(at + 1, 0);
        }
        if let Some(count) = self.received.get_mut(at) {
            *count += 1;
        }
        while self.received.front() == Some(&self.connections) {
            self.received.pop_front();
            self.complete += 1;
            report(&Report::Complete(self.complete))?;
        }
        Ok(())
    }

    fn end(mut self) -> Seen {
        self.seen.p50_ms = self.latencies.percentile_ms(0.5);
        self.seen.p99_ms = self.latencies.percentile_ms(0.99);
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(number: u64) -> Tick {
        Tick {
            number,
            at: 5,
            paced: false,
        }
    }

    #[test]
    fn frames_are_found_in_any_pieces() {
        let text = b"7b\r\nid: 1\nevent: tick\ndata: {\"at\":5,\"number\":1,\"paced\":false}\n\n\r\n{\"event\":\"ping\",\"data\":{\"at\":9}}\
            x{\"seq\":2,\"data\":{\"at\":5,\"number\":2,\"paced\":false}}";
        for size in 1..text.len() {
            let (mut bytes, mut found) = (Vec::new(), Vec::new());
            for piece in text.chunks(size) {
                bytes.extend_from_slice(piece);
                found.extend(take_ticks(&mut bytes));
                assert!(bytes.len() < 64, "in pieces of {size}");
            }
            assert_eq!(found, [tick(1), tick(2)], "in pieces of {size}");
        }
    }

    #[test]
    fn gaps_and_repeats_are_counted() {
        let mut counter = Counter::new(1);
        for (number, after) in [(1, 0), (2, 1), (2, 2), (5, 2)] {
            let counted = Counted {
                tick: tick(number),
                after,
                micros: 1,
            };
            counter.count(&Event::Tick(counted)).unwrap();
        }
        assert!(
            counter.count(&Event::Lost).is_err(),
            "the clients keep their connections"
        );
        let seen = counter.end();
        assert_eq!((seen.frames, seen.gaps, seen.duplicates), (4, 1, 1));
    }
}
