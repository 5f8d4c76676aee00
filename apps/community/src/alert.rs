//! The alert rules of the community and their limits.

use std::time::Duration;

use postroom::alert::Channel;
use postroom::{DomainEvent as _, Result, operate};
use postroom_host::{Finding, Host, Rule};

use crate::counter::{lag, sample};
use crate::events::{CommentCreated, MemberFollowed, PostLiked, VoteClosed, VotersListed};

/// Changes of comment counts that wait longer than this are late: the job runs every few seconds.
const LAG_MAX: Duration = Duration::from_secs(60);

/// The events of which members are told.
pub(crate) const TOLD: [&str; 5] = [
    MemberFollowed::TYPE,
    PostLiked::TYPE,
    CommentCreated::TYPE,
    VoteClosed::TYPE,
    VotersListed::TYPE,
];

/// All rules.
pub(crate) const RULES: [Rule; 3] = [
    Rule {
        name: "community_notifications_dead",
        channel: Channel::Slack,
        says: "notifications could not be stored and became dead letters",
        next: "postroom dead list; fix the cause, then postroom dead retry",
    },
    Rule {
        name: "community_comment_count_drift",
        channel: Channel::Slack,
        says: "numbers of comments differ from the sums of their changes",
        next: "the log names the posts; see the runbook of comment counts",
    },
    Rule {
        name: "community_comment_count_late",
        channel: Channel::Slack,
        says: "changes of comment counts have waited for more than a minute",
        next: "postroom status; see the job community-comment-count",
    },
];

/// The values that the rules check.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Observed {
    dead: u64,
    drift: i64,
    lag: Duration,
}

fn judge(observed: Observed) -> [Finding; 3] {
    [
        Finding::above(observed.dead as f64, 0.0),
        Finding::above(observed.drift as f64, 0.0),
        Finding::above(observed.lag.as_secs_f64(), LAG_MAX.as_secs_f64()),
    ]
}

pub(crate) async fn look(host: Host) -> Result<[Finding; 3]> {
    let store = &*host.store;
    let mut carriers = host.carriers(&TOLD);
    carriers.retain(|carrier| carrier.route == crate::NOTIFICATION);
    Ok(judge(Observed {
        dead: operate::failures(store, &TOLD, &carriers).await?.dead,
        drift: sample(store.db(), 0).await?.total(),
        lag: lag(store.db()).await?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_dead_notification_any_drift_and_a_late_flush_are_told() {
        let check = |observed: Observed, expected: [bool; 3]| {
            assert_eq!(
                judge(observed).map(|finding| finding.is_firing),
                expected,
                "{observed:?}"
            );
        };
        let calm = Observed::default();
        check(calm, [false; 3]);
        check(Observed { dead: 1, ..calm }, [true, false, false]);
        check(Observed { drift: 1, ..calm }, [false, true, false]);
        let at_the_limit = Observed { lag: LAG_MAX, ..calm };
        check(at_the_limit, [false; 3]);
        let late = Observed {
            lag: LAG_MAX + Duration::from_millis(1),
            ..calm
        };
        check(late, [false, false, true]);
    }
}
