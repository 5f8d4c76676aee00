//! Messages that nobody gets: an in-process sink that keeps them and does what it is told to.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::dm::{Dm, Message, Sent};

/// How many messages are kept.
const KEPT_MAX: usize = 10_000;

/// A sink for tests and for trying things out.
#[derive(Debug, Default)]
pub struct FakeDm(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Answers to the next messages.
    answers: VecDeque<Sent>,
    /// The answer to all others.
    otherwise: Option<Sent>,
    nonces: HashSet<String>,
    messages: Vec<Message>,
    asked: u64,
}

impl FakeDm {
    /// Answers the next messages like this.
    pub fn answer(&self, answers: impl IntoIterator<Item = Sent>) {
        self.state().answers.extend(answers);
    }

    /// Answers all other messages like this; `None` delivers them.
    pub fn otherwise(&self, answer: Option<Sent>) {
        self.state().otherwise = answer;
    }

    /// What users got, oldest first.
    pub fn messages(&self) -> Vec<Message> {
        self.state().messages.clone()
    }

    /// How often anybody sent something.
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
