//! A server behind an interpreter that changes words of what is said to it: an engine that forgets a condition of a statement,
//! without a change to the engine.

#![expect(clippy::panic, reason = "a test harness: a test without its interpreter has failed")]

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Pairs of a text and its replacement; both have the same length, so that the length of a message does not change.
pub type Words = &'static [(&'static str, &'static str)];

/// The fence of PostgreSQL without its epoch and its compare-and-set: a process can settle after it has lost the lease. The
/// timeout of idle transactions does not apply.
pub const WITHOUT_FENCE: Words = &[
    ("\"epoch\" = $", "\"epoch\"<>-$"),
    ("AND \"position\" = $", "AND \"route\"   <> $"),
    (
        "idle_in_transaction_session_timeout",
        "idle.in_transaction_session_timeout",
    ),
];

/// An interpreter.
#[derive(Debug)]
pub struct Interpreter {
    /// Where it listens.
    pub address: SocketAddr,
    _end: JoinSet<()>,
}

impl Interpreter {
    /// An interpreter for the server at this address.
    pub async fn before(server: &str, words: Words) -> Self {
        assert!(words.iter().all(|(from, to)| from.len() == to.len()), "{words:?}");
        let listening = TcpListener::bind("127.0.0.1:0").await;
        let listener = listening.unwrap_or_else(|error| panic!("listen: {error}"));
        let address = listener.local_addr().unwrap_or_else(|error| panic!("listen: {error}"));
        let mut end = JoinSet::new();
        end.spawn(interpret(listener, server.to_owned(), words));
        Self { address, _end: end }
    }
}

async fn interpret(listener: TcpListener, server: String, words: Words) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let server = server.clone();
        connections.spawn(async move {
            let Ok(server) = TcpStream::connect(server).await else {
                return;
            };
            let (said, mut heard) = client.into_split();
            let (mut answers, told) = server.into_split();
            tokio::select! {
                _ended = copy(&mut answers, &mut heard) => {}
                () = speak(said, told, words) => {}
            }
        });
    }
}

async fn speak(mut said: OwnedReadHalf, mut told: OwnedWriteHalf, words: Words) {
    let mut buffer = vec![0; 1 << 20];
    while let Ok(length @ 1..) = said.read(&mut buffer).await {
        let Some(part) = buffer.get_mut(..length) else {
            return;
        };
        replace(part, words);
        if told.write_all(part).await.is_err() {
            return;
        }
    }
}

fn replace(text: &mut [u8], words: Words) {
    for (from, to) in words {
        let places: Vec<usize> = text
            .windows(from.len())
            .enumerate()
            .filter(|(_, window)| *window == from.as_bytes())
            .map(|(at, _)| at)
            .collect();
        for at in places {
            if let Some(place) = text.get_mut(at..at + from.len()) {
                place.copy_from_slice(to.as_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_words_are_replaced() {
        let mut text = br#"SET "epoch" = "epoch" + 1 WHERE "epoch" = $5 AND "position" = $6"#.to_vec();
        replace(&mut text, WITHOUT_FENCE);
        let expected = r#"SET "epoch" = "epoch" + 1 WHERE "epoch"<>-$5 AND "route"   <> $6"#;
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
