//! Delivers a batch in rounds. A round sends the next entry of every unblocked lane at once. The next round starts when all
//! entries of the last one have a receipt, so that no entry overtakes a failed one of its lane.

use std::collections::VecDeque;

use postroom::{Batch, Receipt};

/// Maximum number of entries in a round.
const IN_FLIGHT_MAX: usize = 1_024;

type Queue = VecDeque<usize>;

/// Sends rounds of entries, given as indexes into the batch. A lane ends with its last entry or with its first failed one. When
/// the destination is unavailable, it sends no further round.
pub(crate) async fn deliver_in_rounds<F, Fut>(batch: &Batch<'_>, send: F) -> Vec<Receipt>
where
    F: Fn(Vec<usize>) -> Fut,
    Fut: Future<Output = Vec<Receipt>>,
{
    let mut receipts = vec![Receipt::Held; batch.entries.len()];
    let mut lanes: VecDeque<Queue> = batch.lanes().into_iter().map(Queue::from).collect();
    let mut unavailable = None;
    while let Some((round, rest)) = next_round(&mut lanes) {
        let answers = match &unavailable {
            None => send(round.clone()).await,
            Some(receipt) => vec![Receipt::clone(receipt); round.len()],
        };
        for ((at, lane), answer) in round.into_iter().zip(rest).zip(answers) {
            match &answer {
                Receipt::Delivered => lanes.extend((!lane.is_empty()).then_some(lane)),
                Receipt::Unavailable { .. } => unavailable = Some(answer.clone()),
                Receipt::Refused(_) | Receipt::Rejected(_) | Receipt::Held => {}
            }
            if let Some(slot) = receipts.get_mut(at) {
                *slot = answer;
            }
        }
    }
    receipts
}

/// The next round, and the remaining entries of its lanes.
fn next_round(lanes: &mut VecDeque<Queue>) -> Option<(Vec<usize>, Vec<Queue>)> {
    let count = lanes.len().min(IN_FLIGHT_MAX);
    let heads = lanes
        .drain(..count)
        .filter_map(|mut lane| Some((lane.pop_front()?, lane)));
    let round: (Vec<usize>, Vec<Queue>) = heads.unzip();
    (!round.0.is_empty()).then_some(round)
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::Mutex;

    use postroom::{Entry, Event, Ordering};

    use super::*;

    fn entries(keys: &str) -> Vec<Entry> {
        let entry = |(id, key): (usize, char)| Entry {
            id: i64::try_from(id).unwrap(),
            event: Event::new("t", "k", key.to_string(), postroom::parse_payload("1").unwrap()).unwrap(),
            created_at: postroom::clock::now(),
        };
        keys.chars().enumerate().map(entry).collect()
    }

    /// Each character of `answers` is the receipt of the entry at the same index.
    async fn check(ordering: Ordering, answers: &str, expected: &str, rounds: &[&[usize]]) {
        let entries = entries("abaab");
        let batch = Batch {
            entries: &entries.iter().collect::<Vec<_>>(),
            ordering,
        };
        let sent = Mutex::new(Vec::new());
        let receipts = deliver_in_rounds(&batch, |round| {
            sent.lock().unwrap().push(round.clone());
            let answer = |at: &usize| match answers.as_bytes()[*at] {
                b'+' => Receipt::Delivered,
                b'?' => Receipt::unavailable(String::new()),
                _ => Receipt::Refused(String::new()),
            };
            ready(round.iter().map(answer).collect())
        });
        let letter = |receipt: &Receipt| match receipt {
            Receipt::Delivered => '+',
            Receipt::Unavailable { .. } => '?',
            Receipt::Held => '.',
            Receipt::Refused(_) | Receipt::Rejected(_) => '!',
        };
        let letters: String = receipts.await.iter().map(letter).collect();
        assert_eq!(letters, expected);
        assert_eq!(*sent.lock().unwrap(), rounds);
    }

    #[tokio::test]
    async fn a_wave_holds_the_next_entry_of_each_lane() {
        check(Ordering::Key, "+++++", "+++++", &[&[0, 1], &[2, 4], &[3]]).await;
        check(Ordering::None, "+++++", "+++++", &[&[0, 1, 2, 3, 4]]).await;
    }

    #[tokio::test]
    async fn entries_behind_a_refused_one_of_their_lane_are_held() {
        check(Ordering::Key, "++!++", "++!.+", &[&[0, 1], &[2, 4]]).await;
        check(Ordering::Strict, "+!+++", "+!...", &[&[0], &[1]]).await;
        check(Ordering::None, "++!++", "++!++", &[&[0, 1, 2, 3, 4]]).await;
    }

    #[tokio::test]
    async fn nothing_more_is_sent_to_an_unavailable_destination() {
        check(Ordering::Key, "+?+++", "+??..", &[&[0, 1]]).await;
    }
}
