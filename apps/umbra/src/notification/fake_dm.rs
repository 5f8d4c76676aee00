//! An in-process fake that stores messages and returns programmed answers.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::dm::{Dm, Message, Sent};

/// Maximum number of stored messages.
const KEPT_MAX: usize = 10_000;

/// A fake for tests and demos.
#[derive(Debug, Default)]
pub struct FakeDm(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The answers to the next messages.
    answers: VecDeque<Sent>,
    /// The answer to all later messages; `None` delivers them.
    otherwise: Option<Sent>,
    nonces: HashSet<String>,
    messages: Vec<Message>,
    asked: u64,
}

impl FakeDm {
    /// Programs the answers to the next messages.
    pub fn answer(&self, answers: impl IntoIterator<Item = Sent>) {
        self.state().answers.extend(answers);
    }

    /// Programs the answer to all later messages; `None` delivers them.
    pub fn otherwise(&self, answer: Option<Sent>) {
        self.state().otherwise = answer;
    }

    /// The delivered messages, oldest first.
    pub fn messages(&self) -> Vec<Message> {
        self.state().messages.clone()
    }

    /// The number of calls.
    pub fn asked(&self) -> u64 {
        self.state().asked
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Dm for FakeDm {
    async fn send(&self, message: &Message) -> Sent {
        let mut state = self.state();
        state.asked += 1;
        let next = state.answers.pop_front();
        let answer = next.or_else(|| state.otherwise.clone()).unwrap_or(Sent::Delivered);
        if answer == Sent::Delivered && state.messages.len() < KEPT_MAX && state.nonces.insert(message.nonce.clone()) {
            state.messages.push(message.clone());
        }
        answer
    }
}
