//! Decides which events of a batch are sent together, and what each answer means for them. Pure.
//!
//! A batch that is refused as a whole is divided: its halves are sent, and again, until the bad event is alone. One bad event of
//! a hundred takes 15 requests.

use std::collections::{HashMap, VecDeque};

use super::message::Message;
use super::verdict::Verdict;
use crate::sink::SinkAnswer;

/// Most bytes of the events in one request, before they are compressed.
const BYTES_MAX: usize = 4 << 20;
/// Most requests for one batch. Events that were not sent by then are tried with the next batch.
const REQUESTS_MAX: usize = 64;

/// A batch on its way.
#[derive(Debug)]
pub(super) struct Dispatch {
    waiting: VecDeque<Group>,
    answers: Vec<Option<SinkAnswer>>,
    /// Events that were refused alone, and why.
    alone: Vec<(usize, String)>,
    /// Events with the same uuid as an earlier one, which is sent for both.
    same_as: Vec<(usize, usize)>,
    requests: usize,
    /// Some request was answered event by event.
    is_understood: bool,
}

/// The places of events that are sent together.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Group(Vec<usize>);

impl Group {
    pub(super) fn messages<'a>(&self, messages: &'a [Message]) -> Vec<&'a Message> {
        self.0.iter().filter_map(|place| messages.get(*place)).collect()
    }
}

impl Dispatch {
    pub(super) fn new(messages: &[Message], batch_size: usize) -> Self {
        let (mut first, mut same_as) = (HashMap::new(), Vec::new());
        let (mut waiting, mut group, mut bytes) = (VecDeque::new(), Vec::new(), 0);
        for (place, message) in messages.iter().enumerate() {
            if let Some(earlier) = first.insert(message.uuid, place) {
                first.insert(message.uuid, earlier);
                same_as.push((place, earlier));
                continue;
            }
            if !group.is_empty() && (group.len() >= batch_size || bytes + message.bytes > BYTES_MAX) {
                waiting.push_back(Group(std::mem::take(&mut group)));
                bytes = 0;
            }
            group.push(place);
            bytes += message.bytes;
        }
        waiting.extend((!group.is_empty()).then_some(Group(group)));
        Self {
            waiting,
            answers: vec![None; messages.len()],
            alone: Vec::new(),
            same_as,
            requests: 0,
            is_understood: false,
        }
    }

    /// The events to send next, if there are any.
    pub(super) fn next_group(&mut self) -> Option<Group> {
        if self.requests >= REQUESTS_MAX {
            let says = format!("not sent: {REQUESTS_MAX} requests were not enough for the batch");
            self.stop(&SinkAnswer::Unavailable { says, after: None });
        }
        self.requests += 1;
        self.waiting.pop_front()
    }

    /// Takes note of the answer to a group.
    pub(super) fn apply(&mut self, mut group: Group, verdict: Verdict) {
        match (verdict, group.0.as_slice()) {
            (Verdict::Answered { answers, .. }, places) => {
                self.is_understood = true;
                for (place, answer) in places.iter().copied().zip(answers) {
                    self.answer(place, answer);
                }
            }
            (Verdict::Bad(says), [place]) => self.alone.push((*place, says)),
            (Verdict::TooLarge(says), [place]) => self.answer(*place, SinkAnswer::Rejected(says)),
            (Verdict::Bad(_) | Verdict::TooLarge(_), places) => {
                let behind = group.0.split_off(places.len() / 2);
                self.waiting.push_front(Group(behind));
                self.waiting.push_front(group);
            }
            (Verdict::Unavailable { says, after }, _) => {
                self.waiting.push_front(group);
                self.stop(&SinkAnswer::Unavailable { says, after });
            }
            (Verdict::NotServed | Verdict::NotReadable, _) => {
                let says = "PostHog does not serve this protocol".to_owned();
                self.waiting.push_front(group);
                self.stop(&SinkAnswer::Unavailable { says, after: None });
            }
        }
    }

    /// The answers, and whether the form of the requests is known to be right. An event that was refused alone is rejected only
    /// if that is known: from other events of the batch, or, if it is the only one, from the batch before (`is_form_known`).
    /// Otherwise our requests may be wrong: all events are kept. A batch in which nothing was taken proves nothing for the next one.
    pub(super) fn finish(mut self, is_form_known: bool) -> (Vec<SinkAnswer>, bool) {
        let is_single = self.answers.len() == self.same_as.len() + 1;
        let is_known = self.is_understood || is_single && is_form_known;
        let stays_known = self.is_understood || is_form_known && self.alone.is_empty();
        for (place, says) in std::mem::take(&mut self.alone) {
            let answer = match is_known {
                true => SinkAnswer::Rejected(says),
                false => SinkAnswer::Unavailable { says, after: None },
            };
            self.answer(place, answer);
        }
        for (place, earlier) in std::mem::take(&mut self.same_as) {
            if let Some(answer) = self.answers.get(earlier).cloned().flatten() {
                self.answer(place, answer);
            }
        }
        let missing = || SinkAnswer::Refused("PostHog gave no answer for this event".to_owned());
        let answers = self.answers.into_iter().map(|answer| answer.unwrap_or_else(missing));
        (answers.collect(), stays_known)
    }

    /// Sends nothing more.
    fn stop(&mut self, answer: &SinkAnswer) {
        for Group(places) in std::mem::take(&mut self.waiting) {
            for place in places {
                self.answer(place, answer.clone());
            }
        }
    }

    fn answer(&mut self, place: usize, answer: SinkAnswer) {
        if let Some(slot) = self.answers.get_mut(place) {
            *slot = Some(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ActivityEvent;

    fn messages(count: usize) -> Vec<Message> {
        (0..count)
            .map(|_| Message::of(&ActivityEvent::new("a", "v1")))
            .collect()
    }

    fn taken(count: usize) -> Verdict {
        Verdict::Answered {
            answers: vec![SinkAnswer::Taken; count],
            warnings: 0,
            anomalies: 0,
        }
    }

    fn unavailable(says: &str) -> SinkAnswer {
        SinkAnswer::Unavailable {
            says: says.to_owned(),
            after: None,
        }
    }

    /// Sends a batch to a server that refuses each group with a bad event. Returns the answers and the number of requests.
    fn send(
        messages: &[Message],
        is_form_known: bool,
        is_bad: impl Fn(usize) -> bool,
    ) -> (Vec<SinkAnswer>, bool, usize) {
        let (mut dispatch, mut requests) = (Dispatch::new(messages, 100), 0);
        while let Some(group) = dispatch.next_group() {
            requests += 1;
            let verdict = match group.0.iter().any(|place| is_bad(*place)) {
                true => Verdict::Bad("400".to_owned()),
                false => taken(group.0.len()),
            };
            dispatch.apply(group, verdict);
        }
        let (answers, is_known) = dispatch.finish(is_form_known);
        (answers, is_known, requests)
    }

    #[test]
    fn one_bad_event_of_a_hundred_is_found_with_at_most_15_requests() {
        let messages = messages(100);
        for bad in 0..100 {
            let (answers, _, requests) = send(&messages, false, |place| place == bad);
            assert!(requests <= 15, "{requests} requests for event {bad}");
            for (place, answer) in answers.iter().enumerate() {
                let expected = match place == bad {
                    true => SinkAnswer::Rejected("400".to_owned()),
                    false => SinkAnswer::Taken,
                };
                assert_eq!(*answer, expected, "event {place} with the bad event {bad}");
            }
        }
    }

    #[test]
    fn events_that_are_all_refused_are_kept() {
        let (answers, is_known, _) = send(&messages(3), true, |_| true);
        assert_eq!(answers, vec![unavailable("400"); 3]);
        assert!(!is_known, "the form of the requests may be wrong");
    }

    #[test]
    fn a_single_bad_event_is_rejected_only_if_others_were_taken_before() {
        let one = messages(1);
        let check = |is_form_known: bool, expected: SinkAnswer| {
            let (answers, stays_known, _) = send(&one, is_form_known, |_| true);
            assert_eq!(answers, [expected]);
            assert!(!stays_known, "perhaps every event is refused from now on");
        };
        check(false, unavailable("400"));
        check(true, SinkAnswer::Rejected("400".to_owned()));
    }

    #[test]
    fn an_outage_ends_the_batch_and_keeps_what_was_answered() {
        let messages = messages(4);
        let mut dispatch = Dispatch::new(&messages, 2);
        let first = dispatch.next_group().unwrap();
        dispatch.apply(first, taken(2));
        let second = dispatch.next_group().unwrap();
        dispatch.apply(second, Verdict::unavailable("away", None));
        assert_eq!(dispatch.next_group(), None);
        let (answers, _) = dispatch.finish(false);
        assert_eq!(answers[..2], [SinkAnswer::Taken, SinkAnswer::Taken]);
        assert_eq!(answers[2..], [unavailable("away"), unavailable("away")]);
    }

    #[test]
    fn the_same_event_is_sent_once_and_answered_twice() {
        let mut twice = messages(2);
        twice.insert(1, twice[0].clone());
        let mut dispatch = Dispatch::new(&twice, 100);
        let group = dispatch.next_group().unwrap();
        assert_eq!(group, Group(vec![0, 2]));
        let answers = vec![SinkAnswer::Rejected("no".to_owned()), SinkAnswer::Taken];
        let verdict = Verdict::Answered {
            answers,
            warnings: 0,
            anomalies: 0,
        };
        dispatch.apply(group, verdict);
        let no = SinkAnswer::Rejected("no".to_owned());
        assert_eq!(dispatch.finish(false).0, [no.clone(), no, SinkAnswer::Taken]);
    }

    #[test]
    fn large_events_are_sent_in_several_requests() {
        let mut large = messages(9);
        for message in &mut large {
            message.bytes = 1 << 20;
        }
        let dispatch = Dispatch::new(&large, 100);
        let sizes: Vec<usize> = dispatch.waiting.iter().map(|group| group.0.len()).collect();
        assert_eq!(sizes, [4, 4, 1]);
    }

    #[test]
    fn a_batch_that_takes_too_many_requests_is_not_lost() {
        let messages = messages(100);
        let (answers, _, requests) = send(&messages, false, |place| place % 2 == 0);
        assert_eq!(requests, REQUESTS_MAX);
        let kept = answers
            .iter()
            .filter(|answer| matches!(answer, SinkAnswer::Unavailable { says, .. } if says.starts_with("not sent")));
        let decided = answers
            .iter()
            .filter(|answer| matches!(answer, SinkAnswer::Taken | SinkAnswer::Rejected(_)));
        let (kept, decided) = (kept.count(), decided.count());
        assert!(kept > 0 && decided >= 25 && kept + decided == 100, "{kept} {decided}");
    }
}
