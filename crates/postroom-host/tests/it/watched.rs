//! A module whose rules fire when a test says so, and messengers that answer as they are told.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use postroom::alert::{Channel, Messenger, Notice, Reply, Turn};
use postroom_host::{Finding, Messengers, Module, Rule};
use postroom_testkit::stage::{Running, Scenery};
use postroom_testkit::wait::until_run;
use postroom_testkit::{Client, Fresh};
use serde_json::Value;

pub(crate) const RULES: [Rule; 2] = [
    Rule {
        name: "too_many",
        channel: Channel::Slack,
        says: "there are too many",
        next: "take some away",
    },
    Rule {
        name: "far_too_many",
        channel: Channel::PagerDuty,
        says: "there are far too many",
        next: "take most away",
    },
];

/// Answers as it is told, and then that it was taken.
#[derive(Debug, Default)]
pub(crate) struct Scripted {
    replies: Mutex<VecDeque<Reply>>,
    asked: Mutex<Vec<(Instant, Notice)>>,
    taken: Mutex<Vec<(String, Turn)>>,
}

impl Scripted {
    pub(crate) fn reply(&self, replies: impl IntoIterator<Item = Reply>) {
        self.replies.lock().unwrap().extend(replies);
    }

    pub(crate) fn asked(&self) -> Vec<Notice> {
        let asked = self.asked.lock().unwrap();
        asked.iter().map(|(_, notice)| notice.clone()).collect()
    }

    /// How much time lay between the first two tries.
    pub(crate) fn waited(&self) -> Duration {
        let asked = self.asked.lock().unwrap();
        asked[1].0 - asked[0].0
    }

    /// The notices that the messenger took: rule and change.
    pub(crate) fn taken(&self) -> Vec<(String, Turn)> {
        self.taken.lock().unwrap().clone()
    }
}

#[async_trait]
impl Messenger for Scripted {
    async fn tell(&self, notice: &Notice) -> Reply {
        self.asked.lock().unwrap().push((Instant::now(), notice.clone()));
        let reply = self.replies.lock().unwrap().pop_front().unwrap_or(Reply::Taken);
        if reply == Reply::Taken {
            self.taken.lock().unwrap().push((notice.rule.clone(), notice.turn));
        }
        reply
    }
}

/// The watched rules and their messengers.
#[derive(Clone, Default)]
pub(crate) struct Watched {
    number: Arc<AtomicU32>,
    pub(crate) slack: Arc<Scripted>,
    pub(crate) pagerduty: Arc<Scripted>,
}

impl Watched {
    /// From now on there are so many: above 10 is too many, from 100 on far too many.
    pub(crate) fn count(&self, number: u32) {
        self.number.store(number, Ordering::SeqCst);
    }

    fn module(&self) -> Module {
        let number = Arc::clone(&self.number);
        Module::new("watched").alerts(RULES, move |_host| {
            let number = f64::from(number.load(Ordering::SeqCst));
            async move { Ok([Finding::above(number, 10.0), Finding::at_least(number, 100.0)]) }
        })
    }

    pub(crate) async fn run(&self, fresh: &Fresh) -> Running {
        let slack: Arc<dyn Messenger> = Arc::clone(&self.slack) as _;
        let pagerduty: Arc<dyn Messenger> = Arc::clone(&self.pagerduty) as _;
        let both = Messengers::from([(Channel::Slack, slack), (Channel::PagerDuty, pagerduty)]);
        self.run_with(fresh, both).await
    }

    pub(crate) async fn run_with(&self, fresh: &Fresh, messengers: Messengers) -> Running {
        let scenery = Scenery {
            messengers,
            every: Duration::from_millis(100),
            ..Scenery::default()
        };
        Running::open(fresh, vec![self.module()], scenery).await
    }
}

/// Waits until the rules have been looked at several times.
pub(crate) async fn looks(fresh: &Fresh) {
    until_run(&**fresh, "alerts-watched").await;
}

/// The page, by rule.
pub(crate) async fn page(client: &Client) -> [Value; 2] {
    let page = client.get("/alerts").await.ok();
    assert_eq!(page.as_array().unwrap().len(), RULES.len(), "{page}");
    RULES.map(|rule| {
        let shown = page.as_array().unwrap().iter().find(|shown| shown["rule"] == rule.name);
        shown.unwrap().clone()
    })
}
