//! The contract of a [`Tally`], one function per clause.
//!
//! An implementation runs all of them with one line: `postroom_testkit::tally_suite!(open);`, a function that opens the tallies of two
//! instances that share their state and remember changes for [`KEPT`].

#![expect(clippy::expect_used, reason = "a clause asserts: a failed call fails it")]

use std::sync::Arc;
use std::time::Duration;

use postroom_shared::Tally;
use postroom_shared::tally::Change;
use tokio::task::JoinSet;
use tokio::time::sleep;
use uuid::Uuid;

use crate::wait::until;

/// Two instances that share their state. One that has only local state gives the same tally twice.
pub type Instances = [Arc<dyn Tally>; 2];

/// How long the tallies remember changes.
pub const KEPT: Duration = Duration::from_secs(3);

/// Makes every clause a test of its own: `tally_suite!(open);`.
#[macro_export]
macro_rules! tally_suite {
    ($open:path) => {
        $crate::tally_suite! { $open;
            a_sum_has_each_change_once_until_it_is_settled
            a_change_that_is_settled_first_is_never_counted
            a_change_that_nobody_settles_is_forgotten
            counters_are_independent
            concurrent_calls_lose_and_double_nothing
        }
    };
    ($open:path; $($clause:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $clause() {
                $crate::tally_suite::$clause($open().await).await;
            }
        )*
    };
}

fn new_counter() -> String {
    format!("count:test:{{{}}}", Uuid::now_v7())
}

fn change(counter: &str, delta: i64) -> Change {
    Change {
        counter: counter.to_owned(),
        id: Uuid::now_v7().to_string(),
        delta,
    }
}

async fn add(tally: &Arc<dyn Tally>, changes: &[&Change]) {
    let changes: Vec<Change> = changes.iter().copied().cloned().collect();
    tally.add(&changes).await.expect("a tally that answers");
}

async fn settle(tally: &Arc<dyn Tally>, changes: &[&Change]) {
    let changes: Vec<Change> = changes.iter().copied().cloned().collect();
    tally.settle(&changes).await.expect("a tally that answers");
}

async fn sum(tally: &Arc<dyn Tally>, counter: &str) -> i64 {
    let sums = tally.read(&[counter.to_owned()]).await.expect("a tally that answers");
    assert_eq!(sums.len(), 1);
    sums.into_iter().sum()
}

/// Contract 1: a change counts once, however often and wherever it is added, until it is settled.
pub async fn a_sum_has_each_change_once_until_it_is_settled([one, two]: Instances) {
    let counter = new_counter();
    let [up, down, more] = [1, -3, 40].map(|delta| change(&counter, delta));
    assert_eq!(sum(&one, &counter).await, 0);
    add(&one, &[&up, &up]).await;
    add(&two, &[&up, &down]).await;
    add(&one, &[&down, &more]).await;
    assert_eq!((sum(&one, &counter).await, sum(&two, &counter).await), (38, 38));
    settle(&two, &[&down, &more]).await;
    assert_eq!(sum(&one, &counter).await, 1);
    settle(&one, &[&down, &up]).await;
    assert_eq!((sum(&one, &counter).await, sum(&two, &counter).await), (0, 0));
}

/// Contract 2: the message that adds a change may come after the flush that settles it.
pub async fn a_change_that_is_settled_first_is_never_counted([one, two]: Instances) {
    let counter = new_counter();
    let [late, other] = [1, 10].map(|delta| change(&counter, delta));
    settle(&one, &[&late]).await;
    settle(&two, &[&late]).await;
    assert_eq!(sum(&one, &counter).await, 0);
    add(&two, &[&late, &other]).await;
    add(&one, &[&late]).await;
    assert_eq!(sum(&two, &counter).await, 10);
    settle(&one, &[&other, &late]).await;
    add(&one, &[&other]).await;
    assert_eq!(sum(&one, &counter).await, 0);
}

/// Contract 3: what is neither settled nor added again goes; what is added again stays that much longer.
pub async fn a_change_that_nobody_settles_is_forgotten([one, two]: Instances) {
    let counter = new_counter();
    let [once, again, later] = [1, 10, 100].map(|delta| change(&counter, delta));
    add(&one, &[&once, &again]).await;
    sleep(KEPT / 2).await;
    add(&two, &[&again, &later]).await;
    assert_eq!(sum(&one, &counter).await, 111);
    until("the first is forgotten", async || sum(&two, &counter).await == 110).await;
    until("all are forgotten", async || sum(&one, &counter).await == 0).await;
    add(&one, &[&once]).await;
    assert_eq!(sum(&two, &counter).await, 1, "it is a new change");
}

/// Contract 4: counters have sums of their own, also for changes with the same id; the answers are in the order of the question.
pub async fn counters_are_independent([one, two]: Instances) {
    let name = new_counter();
    let long = "x".repeat(1000);
    let counters = ["", ":7", "{8}", "한글", "\0", " ", "*", &long].map(|text| format!("{name}{text}"));
    let mut changes = Vec::new();
    for (counter, delta) in counters.iter().zip(1..) {
        changes.push(Change {
            counter: counter.clone(),
            id: "the same".to_owned(),
            delta,
        });
    }
    let plain = change(&format!("plain:{}", Uuid::now_v7()), i64::from(i32::MAX) * 1000);
    changes.push(plain.clone());
    add(&one, &changes.iter().collect::<Vec<_>>()).await;
    let mut names: Vec<String> = changes.iter().map(|change| change.counter.clone()).collect();
    names.insert(2, new_counter());
    let mut sums: Vec<i64> = changes.iter().map(|change| change.delta).collect();
    sums.insert(2, 0);
    assert_eq!(two.read(&names).await.expect("sums"), sums);
    settle(&two, &[&plain]).await;
    assert_eq!(sum(&one, &plain.counter).await, 0);
    assert_eq!(sum(&one, &name).await, 1);
    assert!(one.read(&[]).await.expect("no sums").is_empty());
}

/// Contract 5: of many changes that both instances add and settle at once, exactly those that are not settled are in the sum.
pub async fn concurrent_calls_lose_and_double_nothing(instances: Instances) {
    let counter = new_counter();
    let changes: Vec<Change> = (1..=300).map(|delta| change(&counter, delta)).collect();
    let mut calls = JoinSet::new();
    for at in 0..changes.len() * 3 {
        let [one, two] = instances.clone();
        let tally = if at % 2 == 0 { one } else { two };
        let change = changes.get(at % changes.len()).cloned().expect("a change");
        calls.spawn(async move {
            add(&tally, &[&change]).await;
            if change.delta % 3 == 0 {
                settle(&tally, &[&change]).await;
            }
        });
    }
    calls.join_all().await;
    let expected: i64 = (1..=300).filter(|delta| delta % 3 != 0).sum();
    let [one, two] = &instances;
    assert_eq!(
        (sum(one, &counter).await, sum(two, &counter).await),
        (expected, expected)
    );
}
