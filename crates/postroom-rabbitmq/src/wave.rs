//! Delivers a batch in waves: in each the next entry of every lane that goes on, all in flight together. The next wave waits
//! until every one of the last is answered, so that nothing overtakes an entry of its lane that was not delivered.

use std::collections::VecDeque;

use postroom::{Batch, Receipt};

/// Entries in flight together.
const AT_ONCE: usize = 1_024;

type Queue = VecDeque<usize>;

/// Sends waves of entries, by their place in the batch, until every lane has ended: with its last entry, or the first that was
/// not delivered. When the destination is away, no further wave is sent.
pub(crate) async fn in_waves<F, Fut>(batch: &Batch<'_>, send: F) -> Vec<Receipt>
where
    F: Fn(Vec<usize>) -> Fut,
    Fut: Future<Output = Vec<Receipt>>,
{
    let mut receipts = vec![Receipt::Held; batch.entries.len()];
    let mut lanes: VecDeque<Queue> = batch.lanes().into_iter().map(Queue::from).collect();
    let mut away = None;
    while let Some((wave, rest)) = take(&mut lanes) {
        let answers = match &away {
            None => send(wave.clone()).await,
            Some(receipt) => vec![Receipt::clone(receipt); wave.len()],
        };
        for ((at, lane), answer) in wave.into_iter().zip(rest).zip(answers) {
            match &answer {
                Receipt::Delivered => lanes.extend((!lane.is_empty()).then_some(lane)),
                Receipt::Unavailable(_) => away = Some(answer.clone()),
                Receipt::Refused(_) | Receipt::Rejected(_) | Receipt::Held => {}
            }
            if let Some(slot) = receipts.get_mut(at) {
                *slot = answer;
            }
        }
    }
    receipts
}

/// The next wave, and what its lanes have left.
fn take(lanes: &mut VecDeque<Queue>) -> Option<(Vec<usize>, Vec<Queue>)> {
    let count = lanes.len().min(AT_ONCE);
    let heads = lanes
        .drain(..count)
        .filter_map(|mut lane| Some((lane.pop_front()?, lane)));
    let wave: (Vec<usize>, Vec<Queue>) = heads.unzip();
    (!wave.0.is_empty()).then_some(wave)
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

    /// Each character of `answers` is what the entry at its place is answered when it is sent.
    async fn check(ordering: Ordering, answers: &str, expected: &str, waves: &[&[usize]]) {
        let entries = entries("abaab");
        let batch = Batch {
            entries: &entries.iter().collect::<Vec<_>>(),
            ordering,
        };
        let sent = Mutex::new(Vec::new());
        let receipts = in_waves(&batch, |wave| {
            sent.lock().unwrap().push(wave.clone());
            let answer = |at: &usize| match answers.as_bytes()[*at] {
                b'+' => Receipt::Delivered,
                b'?' => Receipt::Unavailable(String::new()),
                _ => Receipt::Refused(String::new()),
            };
            ready(wave.iter().map(answer).collect())
        });
        let letter = |receipt: &Receipt| match receipt {
            Receipt::Delivered => '+',
            Receipt::Unavailable(_) => '?',
            Receipt::Held => '.',
            Receipt::Refused(_) | Receipt::Rejected(_) => '!',
        };
        let letters: String = receipts.await.iter().map(letter).collect();
        assert_eq!(letters, expected);
        assert_eq!(*sent.lock().unwrap(), waves);
    }

    #[tokio::test]
    async fn a_wave_holds_the_next_entry_of_each_lane() {
        check(Ordering::Key, "+++++", "+++++", &[&[0, 1], &[2, 4], &[3]]).await;
        check(Ordering::None, "+++++", "+++++", &[&[0, 1, 2, 3, 4]]).await;
    }

    #[tokio::test]
    async fn what_follows_a_refused_entry_on_its_lane_is_held() {
        check(Ordering::Key, "++!++", "++!.+", &[&[0, 1], &[2, 4]]).await;
        check(Ordering::Strict, "+!+++", "+!...", &[&[0], &[1]]).await;
        check(Ordering::None, "++!++", "++!++", &[&[0, 1, 2, 3, 4]]).await;
    }

    #[tokio::test]
    async fn nothing_more_is_sent_to_a_destination_that_is_away() {
        check(Ordering::Key, "+?+++", "+??..", &[&[0, 1]]).await;
    }
}
