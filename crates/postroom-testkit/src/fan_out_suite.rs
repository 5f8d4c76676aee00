//! The contract of a [`FanOut`], one function per clause. Contract 3, about a connection that has become silent, is tested beside
//! the implementation that has connections.
//!
//! An implementation runs all of them with one line: `postroom_testkit::fan_out_suite!(open);`, a function that opens the fan-outs of
//! two instances that share their state.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a clause asserts: a failed call fails it"
)]

use std::sync::Arc;
use std::time::Duration;

use postroom::{ErrorKind, Result};
use postroom_shared::{FanOut, Listener, Message};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use crate::wait::PATIENCE;

/// Two instances that share their state. One that has only local state gives the same fan-out twice.
pub type Instances = [Arc<dyn FanOut>; 2];

/// More than a listener may keep waiting, in messages and in bytes.
const TOO_MANY: usize = 20_000;
const LARGE: usize = 1 << 10;

/// Makes every clause a test of its own: `fan_out_suite!(open);`.
#[macro_export]
macro_rules! fan_out_suite {
    ($open:path) => {
        $crate::fan_out_suite! { $open;
            a_message_reaches_the_listeners_of_every_instance_in_order
            a_listener_gets_only_its_channels
            a_message_without_a_listener_is_gone
            publishers_of_two_instances_keep_their_own_order
            a_slow_listener_fails_and_delays_no_other
            a_call_that_is_dropped_loses_no_message
            channels_and_bodies_are_any_bytes
            a_subscription_to_no_channel_is_refused
        }
    };
    ($open:path; $($clause:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $clause() {
                $crate::fan_out_suite::$clause($open().await).await;
            }
        )*
    };
}

fn new_channel() -> String {
    format!("channel:{}", Uuid::now_v7())
}

async fn listen(fan_out: &Arc<dyn FanOut>, channels: &[&str]) -> Box<dyn Listener> {
    fan_out.listen(channels).await.expect("a listener")
}

async fn publish(fan_out: &Arc<dyn FanOut>, messages: &[Message]) {
    fan_out.publish(messages).await.expect("messages that are published");
}

/// The next outcome of a listener, which must not take for ever.
async fn outcome(listener: &mut Box<dyn Listener>) -> Result<Message> {
    let outcome = timeout(PATIENCE, listener.next()).await;
    outcome.expect("no message came")
}

async fn receive(listener: &mut Box<dyn Listener>, count: usize) -> Vec<Message> {
    let mut messages = Vec::new();
    while messages.len() < count {
        messages.push(outcome(listener).await.expect("the next message"));
    }
    messages
}

fn numbered(channel: &str, numbers: std::ops::Range<usize>) -> Vec<Message> {
    numbers
        .map(|number| Message::new(channel, number.to_string()))
        .collect()
}

/// Contract 1: every listener of every instance gets what is published after it listens, in order, also its own instance's.
pub async fn a_message_reaches_the_listeners_of_every_instance_in_order([one, two]: Instances) {
    let channel = new_channel();
    let mut listeners = [
        listen(&one, &[&channel]).await,
        listen(&one, &[&channel]).await,
        listen(&two, &[&channel]).await,
    ];
    let messages = numbered(&channel, 0..300);
    for some in messages.chunks(70) {
        publish(&one, some).await;
    }
    for listener in &mut listeners {
        assert_eq!(receive(listener, 300).await, messages);
    }
}

/// Contract 1: a listener gets the messages of all its channels, and of no other, in one order.
pub async fn a_listener_gets_only_its_channels([one, two]: Instances) {
    let [first, second, other] = [(); 3].map(|()| new_channel());
    let mut listener = listen(&one, &[&first, &second]).await;
    let message = |channel: &str, body: &str| Message::new(channel, body);
    let all = [
        message(&first, "1"),
        message(&other, "2"),
        message(&second, "3"),
        message(&first, "4"),
    ];
    publish(&two, &all).await;
    let [one, _, three, four] = all;
    assert_eq!(receive(&mut listener, 3).await, [one, three, four]);
}

/// Contract 2: nothing is kept for those who listen later.
pub async fn a_message_without_a_listener_is_gone([one, two]: Instances) {
    let channel = new_channel();
    publish(&one, &[Message::new(&channel, "nobody listens")]).await;
    drop(listen(&two, &[&channel]).await);
    publish(&one, &[Message::new(&channel, "nobody listens any more")]).await;
    let mut listener = listen(&two, &[&channel]).await;
    let later = Message::new(&channel, "later");
    publish(&one, std::slice::from_ref(&later)).await;
    assert_eq!(receive(&mut listener, 1).await, [later]);
}

/// Contract 1: the messages of concurrent publishers mix, but those of one publisher stay in their order.
pub async fn publishers_of_two_instances_keep_their_own_order([one, two]: Instances) {
    let channel = new_channel();
    let mut listener = listen(&one, &[&channel]).await;
    let mut publishers = JoinSet::new();
    for (fan_out, numbers) in [(one, 0..500), (two, 500..1000)] {
        let channel = channel.clone();
        publishers.spawn(async move {
            for message in numbered(&channel, numbers) {
                publish(&fan_out, &[message]).await;
            }
        });
    }
    publishers.join_all().await;
    let came = receive(&mut listener, 1000).await;
    let number = |message: Message| String::from_utf8_lossy(&message.body).parse().expect("a number");
    let numbers: Vec<usize> = came.into_iter().map(number).collect();
    let (first, second): (Vec<usize>, Vec<usize>) = numbers.into_iter().partition(|number| *number < 500);
    assert_eq!(first, (0..500).collect::<Vec<_>>());
    assert_eq!(second, (500..1000).collect::<Vec<_>>());
}

/// Contract 4: a listener that does not listen fails when too much waits for it, and goes on failing; others get everything.
pub async fn a_slow_listener_fails_and_delays_no_other([one, two]: Instances) {
    let channel = new_channel();
    let mut slow = listen(&two, &[&channel]).await;
    let mut quick = listen(&two, &[&channel]).await;
    let mut publisher = JoinSet::new();
    publisher.spawn(async move {
        for some in 0..TOO_MANY / 100 {
            let large = |number: usize| Message::new(&channel, format!("{number:0LARGE$}"));
            let messages: Vec<Message> = (some * 100..some * 100 + 100).map(large).collect();
            publish(&one, &messages).await;
        }
    });
    receive(&mut quick, TOO_MANY).await;
    publisher.join_all().await;
    sleep(Duration::from_millis(500)).await; // its own connection may be a little behind
    let mut received = 0;
    let error = loop {
        match outcome(&mut slow).await {
            Ok(message) => {
                let expected = format!("{received:0LARGE$}");
                assert!(
                    message.body == expected.as_bytes(),
                    "a message before {received} is missing"
                );
                received += 1;
                assert!(received < TOO_MANY, "everything waited for the listener");
            }
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(
        outcome(&mut slow).await.is_err(),
        "it came back after it has lost messages"
    );
}

/// Contract 5: calls of `next` that are dropped while messages come lose none.
pub async fn a_call_that_is_dropped_loses_no_message([one, two]: Instances) {
    let channel = new_channel();
    let mut listener = listen(&two, &[&channel]).await;
    let messages = numbered(&channel, 0..400);
    let mut publisher = JoinSet::new();
    let published = messages.clone();
    publisher.spawn(async move {
        for some in published.chunks(4) {
            publish(&one, some).await;
            sleep(Duration::from_millis(1)).await;
        }
    });
    let mut came = Vec::new();
    let all = async {
        while came.len() < messages.len() {
            // The first poll finds nothing most of the time.
            if let Ok(message) = timeout(Duration::from_micros(300), listener.next()).await {
                came.push(message.expect("the next message"));
            }
        }
    };
    let in_time = timeout(PATIENCE, all).await;
    assert!(in_time.is_ok(), "{} of {} messages came", came.len(), messages.len());
    assert_eq!(came, messages);
}

/// Contract 6: channels are any text, bodies any bytes.
pub async fn channels_and_bodies_are_any_bytes([one, two]: Instances) {
    let name = new_channel();
    let channels =
        [" ", "{", "a:b*", "[x]?", "한글", "\0", "\r\n", &"x".repeat(1000)].map(|text| format!("{name}{text}"));
    let listened: Vec<&str> = channels.iter().map(String::as_str).collect();
    let mut listener = listen(&two, &listened).await;
    let bodies = [Vec::new(), vec![0, 255, 13, 10], vec![b'x'; 1 << 20]];
    for channel in &channels {
        let messages = bodies.clone().map(|body| Message::new(channel, body));
        publish(&one, &messages).await;
        let came = receive(&mut listener, messages.len()).await;
        assert!(came == messages, "{channel:?}");
    }
}

/// Contract 6: without a channel there is nothing to wait for.
pub async fn a_subscription_to_no_channel_is_refused([one, _]: Instances) {
    let none: [&[&str]; 3] = [&[], &[""], &["a", ""]];
    for channels in none {
        match one.listen(channels).await {
            Ok(_) => panic!("a listener on {channels:?}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Invalid, "{error}"),
        }
    }
}
