//! Cards that cost nobody anything: an in-process card API that keeps its idempotency keys and does what it is told to.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::card::{Answer, CardApi, Charge};

/// A card API for tests and for trying things out. What it remembers lives as long as the process.
///
/// A card does what it was programmed to ([`FakeCards::program`]). Others go by their token: `declined` is always declined,
/// `expires` is charged once and declined from then on, `lost` is charged and the first answer lost; any other is charged.
#[derive(Debug, Default)]
pub struct FakeCards(Mutex<State>);

/// What a card does at a new attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Play {
    /// It is charged.
    Pay,
    /// It is declined with this code.
    Decline(&'static str),
    /// It is charged, but the answer is lost: asked again, the API says so.
    Lose,
    /// The API cannot be reached; asked again, it is a new attempt.
    Fall,
}

#[derive(Debug, Default)]
struct State {
    /// What each card will do, the last play again and again.
    programs: HashMap<String, VecDeque<Play>>,
    /// What became of each attempt.
    outcomes: HashMap<String, Answer>,
    charges: Vec<Charge>,
    asked: u64,
}

impl FakeCards {
    /// Says what a card does at its next attempts; the last of these it does for ever.
    pub fn program(&self, card_token: &str, plays: impl IntoIterator<Item = Play>) {
        let plays = plays.into_iter().collect();
        self.state().programs.insert(card_token.to_owned(), plays);
    }

    /// Every charge that was made, oldest first.
    pub fn charges(&self) -> Vec<Charge> {
        self.state().charges.clone()
    }

    /// How often anybody asked.
    pub fn asked(&self) -> u64 {
        self.state().asked
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl CardApi for FakeCards {
    async fn charge(&self, charge: &Charge) -> Answer {
        let mut state = self.state();
        state.asked += 1;
        if let Some(outcome) = state.outcomes.get(&charge.attempt_id) {
            return outcome.clone();
        }
        let play = state.next_play(&charge.card_token);
        state.perform(play, charge)
    }
}

impl State {
    fn next_play(&mut self, card_token: &str) -> Play {
        let program = self
            .programs
            .entry(card_token.to_owned())
            .or_insert_with(|| plays_of(card_token).into());
        let play = program.front().cloned().unwrap_or(Play::Pay);
        if program.len() > 1 {
            program.pop_front();
        }
        play
    }

    fn perform(&mut self, play: Play, charge: &Charge) -> Answer {
        let unknown = |says: &str| Answer::Unknown { says: says.to_owned() };
        let (outcome, answer) = match play {
            Play::Fall => return unknown("the card API cannot be reached"),
            Play::Decline(code) => (Answer::Declined { code: code.to_owned() }, None),
            Play::Pay => (Answer::Paid, None),
            Play::Lose => (Answer::Paid, Some(unknown("the card API did not answer in time"))),
        };
        if outcome == Answer::Paid {
            self.charges.push(charge.clone());
        }
        self.outcomes.insert(charge.attempt_id.clone(), outcome.clone());
        answer.unwrap_or(outcome)
    }
}

/// What a card does that nobody programmed.
fn plays_of(card_token: &str) -> Vec<Play> {
    match card_token {
        "declined" => vec![Play::Decline("INSUFFICIENT_FUNDS")],
        "expires" => vec![Play::Pay, Play::Decline("EXPIRED_CARD")],
        "lost" => vec![Play::Lose, Play::Pay],
        _ => vec![Play::Pay],
    }
}
