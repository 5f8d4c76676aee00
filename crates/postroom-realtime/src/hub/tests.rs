//! The delivery rule as a property: whatever the fan-out loses, repeats and mixes up, each client sees each number once and in order.

use std::collections::VecDeque;
use std::sync::Mutex;

use async_trait::async_trait;
use proptest::prelude::*;
use serde_json::value::RawValue;
use tokio::runtime::Builder;

use super::*;
use crate::{Next, Opening};

const STREAM: &str = "room/1";
const CLIENTS: usize = 3;

/// The numbers of one stream; every third is silent.
#[derive(Debug, Default)]
struct Numbers(Mutex<u64>);

impl Numbers {
    fn append(&self) -> Frame {
        let mut top = self.0.lock().unwrap();
        *top += 1;
        frame(*top)
    }

    fn top(&self) -> u64 {
        *self.0.lock().unwrap()
    }
}

fn is_silent(seq: u64) -> bool {
    seq.is_multiple_of(3)
}

fn frame(seq: u64) -> Frame {
    match is_silent(seq) {
        true => Frame::silent(seq),
        false => Frame::new(seq, &seq.to_string(), "message", RawValue::NULL),
    }
}

#[async_trait]
impl Journal for Numbers {
    async fn open(&self, _stream: &StreamKey, cursor: Option<&str>) -> Result<Opening> {
        let after = cursor.map_or(0, |cursor| cursor.parse().unwrap());
        // A page of the replay; the frames after it are read later.
        let last = self.top().min(after + 5);
        let first = (after + 1..=last).filter(|seq| !is_silent(*seq)).map(frame).collect();
        Ok(Opening::new(first, last))
    }

    async fn read(&self, _stream: &StreamKey, after: u64, max: usize) -> Result<Vec<Frame>> {
        Ok((after + 1..=self.top()).take(max).map(frame).collect())
    }

    async fn tops(&self, streams: &[StreamKey]) -> Result<Vec<u64>> {
        Ok(streams.iter().map(|_| self.top()).collect())
    }
}

/// The next step of a run.
#[derive(Clone, Debug)]
enum Step {
    /// So many frames are written; those whose bit is set are published.
    Write(u16, u64),
    /// A published frame arrives, and stays to arrive again if told so.
    Arrive { from_end: bool, stays: bool },
    /// The hub reads the stream if it is dirty.
    Repair,
    /// A client takes so many frames.
    Take(usize, usize),
    /// A client comes again after the last frame that it took.
    Reconnect(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..400_u16, any::<u64>()).prop_map(|(count, published)| Step::Write(count, published)),
        20 => (any::<bool>(), any::<bool>()).prop_map(|(from_end, stays)| Step::Arrive { from_end, stays }),
        3 => Just(Step::Repair),
        6 => (0..CLIENTS, 1..300_usize).prop_map(|(client, count)| Step::Take(client, count)),
        1 => (0..CLIENTS).prop_map(Step::Reconnect),
    ]
}

/// The hub, its clients and what they have seen, without a clock.
struct World {
    hub: Hub,
    numbers: Arc<Numbers>,
    published: VecDeque<Frame>,
    clients: Vec<(Connection, Vec<u64>)>,
}

impl World {
    async fn new() -> Self {
        let numbers = Arc::new(Numbers::default());
        let slot = Slot::from(SharedState::local());
        let hub = Hub::new(HubSettings::new("test"), Arc::clone(&numbers) as _, slot);
        hub.core.link.listens();
        let mut world = Self {
            hub,
            numbers,
            published: VecDeque::new(),
            clients: Vec::new(),
        };
        for _ in 0..CLIENTS {
            let connection = world.connect(0).await;
            world.clients.push((connection, Vec::new()));
        }
        world
    }

    async fn connect(&self, after: u64) -> Connection {
        let streams = vec![(STREAM.into(), Some(after.to_string()))];
        self.hub.open(Client::new("42"), streams).await.unwrap()
    }

    async fn act(&mut self, step: Step) {
        match step {
            Step::Write(count, published) => {
                let frames = (0..count).map(|at| (self.numbers.append(), published >> (at % 64) & 1 == 1));
                let frames: Vec<_> = frames.collect();
                let kept = frames.into_iter().filter(|(_, is_published)| *is_published);
                self.published.extend(kept.map(|(frame, _)| frame));
            }
            Step::Arrive { from_end, stays } => self.arrive(from_end, stays),
            Step::Repair => self.repair().await,
            Step::Take(client, count) => {
                for _ in 0..count {
                    self.take(client);
                }
            }
            Step::Reconnect(client) => {
                let last = self.clients[client].1.last().copied().unwrap_or(0);
                let connection = self.connect(last).await;
                self.clients[client].0 = connection;
            }
        }
    }

    fn arrive(&mut self, from_end: bool, stays: bool) {
        let at = if from_end { self.published.len() / 2 } else { 0 };
        let frame = match stays {
            true => self.published.get(at).cloned(),
            false => self.published.remove(at),
        };
        let audience = self.hub.core.audiences.of(STREAM);
        if let (Some(frame), Some((stream, audience))) = (frame, audience) {
            self.hub.core.deliver(&stream, &audience, &frame);
        }
    }

    async fn repair(&self) {
        while let Some(stream) = self.hub.core.repairs.begin_read() {
            repair::repair(&self.hub.core, &stream).await.unwrap();
            self.hub.core.repairs.end_read(&stream, false);
        }
    }

    /// Whether the client had something to take.
    fn take(&mut self, client: usize) -> bool {
        let (connection, seen) = &mut self.clients[client];
        match connection.take() {
            Some(Next::Frame(frame)) => seen.push(frame.seq()),
            Some(Next::End(reason, _)) => panic!("a connection ended: {reason}"),
            None => return false,
        }
        true
    }

    /// The fan-out falls silent: the tail check and the repairs bring the rest.
    async fn settle(&mut self) {
        loop {
            repair::check(&self.hub.core, &[STREAM.into()]).await.unwrap();
            self.repair().await;
            let mut has_taken = false;
            for client in 0..CLIENTS {
                while self.take(client) {
                    has_taken = true;
                }
            }
            if !has_taken {
                return;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_number_arrives_once_and_in_order(steps in prop::collection::vec(step(), 1..120)) {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let (numbers, clients) = runtime.block_on(async {
            let mut world = World::new().await;
            for step in steps {
                world.act(step).await;
            }
            world.settle().await;
            (world.numbers, world.clients)
        });
        let expected: Vec<u64> = (1..=numbers.top()).filter(|seq| !is_silent(*seq)).collect();
        for (_, seen) in &clients {
            prop_assert_eq!(seen, &expected);
        }
    }
}
