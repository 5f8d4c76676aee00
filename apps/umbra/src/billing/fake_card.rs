//! A card API without real money: an in-process fake that stores its idempotency keys and plays programmed outcomes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::card::{Answer, CardApi, Charge};

/// A card API for tests and demos. Its state lives as long as the process.
///
/// A card plays its program ([`FakeCards::program`]). Other cards behave according to their token: `declined` is always
/// declined, `expires` is charged once and then declined, `lost` is charged but its first answer is lost, and any other token
/// is charged. Every refund succeeds, unless [`FakeCards::program_refunds`] sets another outcome.
#[derive(Debug, Default)]
pub struct FakeCards(Mutex<State>);

/// The behaviour of a card for a new attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Play {
    /// The charge succeeds.
    Pay,
    /// The charge is declined with this code.
    Decline(&'static str),
    /// The charge succeeds, but the answer is lost. A repeated request returns the outcome.
    Lose,
    /// The API is unavailable. A repeated request is a new attempt.
    Fall,
}

#[derive(Debug, Default)]
struct State {
    charges: Book,
    refunds: Book,
    are_answers_lost: bool,
}

/// The requests of one kind (charges or refunds) and their outcomes.
#[derive(Debug, Default)]
struct Book {
    /// The next plays of each card. The last play repeats.
    programs: HashMap<String, VecDeque<Play>>,
    /// The charge and the outcome of each attempt.
    outcomes: HashMap<String, (Charge, Answer)>,
    /// The charges for which money was moved, oldest first.
    paid: Vec<Charge>,
    asked: u64,
}

impl FakeCards {
    /// Programs the next attempts of a card. The last play repeats.
    pub fn program(&self, card_token: &str, plays: impl IntoIterator<Item = Play>) {
        self.state().charges.program(card_token, plays.into_iter().collect());
    }

    /// Programs the refunds of a card.
    pub fn program_refunds(&self, card_token: &str, plays: impl IntoIterator<Item = Play>) {
        self.state().refunds.program(card_token, plays.into_iter().collect());
    }

    /// While answers are lost, every request is executed, but the caller gets no answer.
    pub fn lose_answers(&self, are_lost: bool) {
        self.state().are_answers_lost = are_lost;
    }

    /// All successful charges, oldest first.
    pub fn charges(&self) -> Vec<Charge> {
        self.state().charges.paid.clone()
    }

    /// All refunded charges, oldest first.
    pub fn refunds(&self) -> Vec<Charge> {
        self.state().refunds.paid.clone()
    }

    /// The charged amount minus the refunded amount, in won.
    pub fn balance(&self) -> i64 {
        let state = self.state();
        let sum = |book: &Book| book.paid.iter().map(|charge| charge.amount).sum::<i64>();
        sum(&state.charges) - sum(&state.refunds)
    }

    /// The number of charge requests.
    pub fn asked(&self) -> u64 {
        self.state().charges.asked
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl CardApi for FakeCards {
    async fn charge(&self, charge: &Charge) -> Answer {
        let mut state = self.state();
        let answer = state.charges.ask(charge, || plays_of(&charge.card_token));
        state.say(answer)
    }

    async fn refund(&self, charge: &Charge) -> Answer {
        let mut state = self.state();
        let answer = match state.charges.paid.contains(charge) {
            true => state.refunds.ask(charge, || vec![Play::Pay]),
            false => Answer::Declined {
                code: "NOT_CHARGED".to_owned(),
            },
        };
        state.say(answer)
    }
}

impl State {
    fn say(&self, answer: Answer) -> Answer {
        match self.are_answers_lost {
            true => unknown("the card API did not answer in time"),
            false => answer,
        }
    }
}

impl Book {
    fn program(&mut self, card_token: &str, plays: VecDeque<Play>) {
        self.programs.insert(card_token.to_owned(), plays);
    }

    /// Returns the stored outcome of a repeated request; otherwise plays the card's program.
    fn ask(&mut self, charge: &Charge, unless_programmed: impl FnOnce() -> Vec<Play>) -> Answer {
        self.asked += 1;
        match self.outcomes.get(&charge.attempt_id) {
            Some((known, outcome)) if known == charge => outcome.clone(),
            Some(_) => unknown("this key was used for another charge"),
            None => {
                let play = self.next_play(&charge.card_token, unless_programmed);
                self.perform(play, charge)
            }
        }
    }

    fn next_play(&mut self, card_token: &str, unless_programmed: impl FnOnce() -> Vec<Play>) -> Play {
        let program = self
            .programs
            .entry(card_token.to_owned())
            .or_insert_with(|| unless_programmed().into());
        let play = program.front().cloned().unwrap_or(Play::Pay);
        if program.len() > 1 {
            program.pop_front();
        }
        play
    }

    fn perform(&mut self, play: Play, charge: &Charge) -> Answer {
        let (outcome, answer) = match play {
            Play::Fall => return unknown("the card API cannot be reached"),
            Play::Decline(code) => (Answer::Declined { code: code.to_owned() }, None),
            Play::Pay => (Answer::Paid, None),
            Play::Lose => (Answer::Paid, Some(unknown("the card API did not answer in time"))),
        };
        if outcome == Answer::Paid {
            self.paid.push(charge.clone());
        }
        let known = (charge.clone(), outcome.clone());
        self.outcomes.insert(charge.attempt_id.clone(), known);
        answer.unwrap_or(outcome)
    }
}

fn unknown(says: &str) -> Answer {
    Answer::Unknown { says: says.to_owned() }
}

/// The plays of a card without a program.
fn plays_of(card_token: &str) -> Vec<Play> {
    match card_token {
        "declined" => vec![Play::Decline("INSUFFICIENT_FUNDS")],
        "expires" => vec![Play::Pay, Play::Decline("EXPIRED_CARD")],
        "lost" => vec![Play::Lose, Play::Pay],
        _ => vec![Play::Pay],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charge(attempt_id: &str, amount: i64) -> Charge {
        Charge {
            attempt_id: attempt_id.to_owned(),
            card_token: "visa".to_owned(),
            amount,
        }
    }

    #[tokio::test]
    async fn a_key_is_charged_once_and_for_one_amount() {
        let cards = FakeCards::default();
        assert_eq!(cards.charge(&charge("a", 9_900)).await, Answer::Paid);
        assert_eq!(cards.charge(&charge("a", 9_900)).await, Answer::Paid);
        let other = cards.charge(&charge("a", 29_900)).await;
        assert!(matches!(other, Answer::Unknown { .. }), "{other:?}");
        assert_eq!((cards.charges(), cards.balance()), (vec![charge("a", 9_900)], 9_900));
    }

    #[tokio::test]
    async fn what_was_charged_goes_back_once() {
        let cards = FakeCards::default();
        let refused = cards.refund(&charge("a", 9_900)).await;
        assert!(
            matches!(refused, Answer::Declined { .. }),
            "nothing was charged: {refused:?}"
        );
        cards.charge(&charge("a", 9_900)).await;
        cards.program_refunds("visa", [Play::Fall, Play::Lose, Play::Decline("CLOSED")]);
        for is_back in [false, true, true] {
            let answer = cards.refund(&charge("a", 9_900)).await;
            assert_eq!(cards.refunds().len(), usize::from(is_back), "{answer:?}");
        }
        assert_eq!(cards.refund(&charge("a", 9_900)).await, Answer::Paid);
        assert_eq!(cards.balance(), 0);
    }

    #[tokio::test]
    async fn an_answer_that_is_lost_is_given_later() {
        let cards = FakeCards::default();
        cards.lose_answers(true);
        let lost = cards.charge(&charge("a", 9_900)).await;
        assert!(matches!(lost, Answer::Unknown { .. }), "{lost:?}");
        cards.lose_answers(false);
        assert_eq!(cards.charge(&charge("a", 9_900)).await, Answer::Paid);
        assert_eq!(cards.charges().len(), 1);
    }
}
