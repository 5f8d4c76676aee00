//! English for what the library answers in types: states, reasons and next steps. A step that is a command names one of the program
//! `postroom`.

use postroom::operate::{Letters, NextStep, Reason, ReasonKind, RouteState, counted};
use postroom::{Hidden, HiddenTransactions};

use crate::age::age;

/// The kind of a reason, as the title shows it.
pub fn kind(kind: ReasonKind) -> &'static str {
    match kind {
        ReasonKind::Blocking => "blocking",
        ReasonKind::Silent => "store",
        ReasonKind::Lapsed => "lapsed",
        ReasonKind::Unworked => "lease",
        ReasonKind::Paused => "paused",
        ReasonKind::Down => "down",
        ReasonKind::NotBrought => "not brought",
        ReasonKind::Full => "full",
        ReasonKind::Held => "held",
        ReasonKind::Retrying => "key",
        ReasonKind::Transaction => "transaction",
        ReasonKind::Dead => "dead",
        ReasonKind::Hidden => "hidden",
    }
}

/// The place of a reason: a route, a relay, a session.
pub fn place(reason: &Reason) -> &str {
    match reason {
        Reason::Blocking { session, .. } | Reason::Transaction { session, .. } => session,
        Reason::Silent { .. } => "postroom",
        Reason::Hidden(_) => "sessions",
        Reason::Lapsed { owner, .. } => owner,
        Reason::Unworked { route, .. }
        | Reason::Paused { route }
        | Reason::Down { route, .. }
        | Reason::NotBrought { route, .. }
        | Reason::Full { route, .. }
        | Reason::Held { route, .. }
        | Reason::Retrying { route, .. }
        | Reason::Dead { route, .. } => route,
    }
}

/// A reason as a sentence about its place.
pub fn reason(reason: &Reason) -> String {
    match reason {
        Reason::Blocking {
            blocks, age_s, query, ..
        } => blocking(*blocks, *age_s, query),
        Reason::Silent { says } => format!("the tables cannot be read: {says}"),
        Reason::Lapsed {
            since_s,
            routes,
            backlog,
            ..
        } => format!(
            "has not renewed its leases for {since_s:.0} s, and no other relay has taken over {}; {}",
            routes.join(", "),
            waiting(*backlog)
        ),
        Reason::Unworked { backlog, .. } => format!("no relay delivers the route, {}", waiting(*backlog)),
        Reason::Paused { .. } => "an operator paused the route".to_owned(),
        Reason::Down {
            says,
            since_s,
            probe_s,
            is_leased,
            ..
        } => {
            let probe = probe_s.filter(|_| *is_leased).map(next_probe).unwrap_or_default();
            format!("cannot go on, for {since_s:.0} s now{probe}: {says}")
        }
        Reason::NotBrought {
            event_id,
            event_type,
            age_s,
            ..
        } => format!(
            "its broker has not brought the event {event_id} ({event_type}), recorded {:.0} min ago; retention keeps every event \
             since then",
            age_s / 60.0
        ),
        Reason::Full { parked, parked_max, .. } => format!(
            "{parked} entries are parked. A route with {parked_max} parked entries in a shard reads no new ones until some are \
             delivered or given up; what operators retry or replay does not count"
        ),
        Reason::Held {
            keys,
            waiting: behind,
            has_more,
            ..
        } => held(*keys, *behind, *has_more),
        Reason::Retrying {
            retrying,
            waiting,
            has_more,
            retry_s,
            ..
        } => self::retrying(*retrying, (*waiting, *has_more), *retry_s),
        Reason::Transaction { age_s, query, .. } => {
            format!("has been open for {age_s:.0} s; its own events wait for its commit: {query}")
        }
        Reason::Dead {
            event_type,
            key,
            attempts,
            error,
            ..
        } => format!(
            "{event_type} of {key} was given up after {}: {error}",
            counted((*attempts).into(), "attempt", "attempts")
        ),
        Reason::Hidden(hidden) => format!("{}, and one of them may be the cause", self::hidden(hidden)),
    }
}

fn held(keys: u64, behind: u64, has_more: bool) -> String {
    let keys = counted(keys, "key is held", "keys are held");
    format!("{keys} by a dead letter, {}{}", more_than(has_more), waiting(behind))
}

fn retrying(entries: u64, (behind, has_more): (u64, bool), retry_s: Option<f64>) -> String {
    let next = retry_s.map(next_retry).unwrap_or_default();
    let entries = counted(entries, "entry waits for its retry", "entries wait for their retry");
    format!("{entries}{next}, {}{behind} behind", more_than(has_more))
}

/// Before a count that was not counted to the end.
fn more_than(has_more: bool) -> &'static str {
    if has_more { "more than " } else { "" }
}

/// When the first of several entries is tried again.
fn next_retry(retry_s: f64) -> String {
    match retry_s {
        ..=0.0 => ", the first of them now".to_owned(),
        _ => format!(", the first of them in {}", age(retry_s)),
    }
}

/// When a destination is asked again.
fn next_probe(probe_s: f64) -> String {
    match probe_s {
        ..=0.0 => ", asked again now".to_owned(),
        _ => format!(", asked again in {probe_s:.0} s"),
    }
}

fn blocking(blocks: u64, age_s: f64, query: &str) -> String {
    if blocks == 0 {
        return format!("has been open for {age_s:.0} s and holds locks, for which the leases may wait: {query}");
    }
    let others = counted(blocks, "other session waits", "other sessions wait");
    format!("{others} for it; it has been open for {age_s:.0} s: {query}")
}

fn waiting(entries: u64) -> String {
    counted(entries, "entry waits", "entries wait")
}

/// The transactions that a database does not show.
pub fn hidden(hidden: &Hidden) -> String {
    let which = match hidden.transactions {
        HiddenTransactions::All => "open transactions",
        HiddenTransactions::OfOthers => "the open transactions of other users",
    };
    format!("{} may not see {which}", hidden.user.as_deref().unwrap_or("this user"))
}

/// The state of a route.
pub fn route_state(state: &RouteState, probe_s: Option<f64>) -> String {
    match state {
        RouteState::Working => "working".to_owned(),
        RouteState::Paused => "paused".to_owned(),
        RouteState::Unworked => "no relay delivers it".to_owned(),
        RouteState::Down { says } => {
            let probe = probe_s.map(next_probe).unwrap_or_default();
            format!("cannot go on{probe}: {says}")
        }
        RouteState::Held { keys: 1 } => "1 key held by a dead letter".to_owned(),
        RouteState::Held { keys } => format!("{keys} keys held by dead letters"),
    }
}

/// Next steps as one sentence: those that belong together in words of their own, others as alternatives.
pub fn next(steps: &[NextStep]) -> String {
    use NextStep as Step;
    match steps {
        [Step::CheckRelay { .. }, Step::StartRelay { .. }] => {
            "if that process runs, its /health/ready and its log name the cause (a full disk, no free connection, a lock); \
             otherwise start a relay"
                .to_owned()
        }
        [Step::Reconnect { .. }, Step::Wait] => {
            "see that it can be reached: it is tried again by itself, and nothing is lost meanwhile".to_owned()
        }
        [Step::Reconnect { .. }, resume @ Step::Resume { .. }] => format!(
            "see that it can be reached: it is asked again by itself, or at once with `{}`, and nothing is lost meanwhile",
            step(resume)
        ),
        [Step::Reconnect { .. }, Step::StartRelay { .. }] => {
            "see that it can be reached, and start a relay that has the route: nobody tries now".to_owned()
        }
        [find @ Step::FindEvent { .. }, replay @ Step::Replay { .. }] => format!(
            "{}. If the broker has lost it, deliver it: {}",
            step(find),
            step(replay)
        ),
        [Step::ShowRoutes { route: Some(route) }, Step::Wait] => {
            format!("postroom status --route {route}: it goes on by itself")
        }
        [show @ Step::ShowRoutes { route: Some(_) }, Step::Wait, retry @ Step::RetryNow { .. }] => {
            format!("{}: it goes on by itself, or at once with `{}`", step(show), step(retry))
        }
        [show @ Step::ShowLetters { letters: Letters::Route(_) }, Step::Retry { .. }, Step::Discard { .. }] => {
            format!("{}, then retry or discard", step(show))
        }
        [Step::ShowLetters { letters: Letters::Id(id) }, Step::Retry { .. }, Step::Discard { .. }] => {
            format!("postroom dead show {id}; postroom dead retry {id} or discard {id} --reason …")
        }
        steps => steps.iter().map(step).collect::<Vec<_>>().join(", or "),
    }
}

/// One next step: a command of this program where it has one.
fn step(step: &NextStep) -> String {
    match step {
        NextStep::Wait => "it goes on by itself".to_owned(),
        NextStep::AskWhy => "`postroom why` names who blocks whom".to_owned(),
        NextStep::StartRelay { routes } => {
            let these = if routes.len() == 1 {
                "this route"
            } else {
                "these routes"
            };
            format!("start a relay that has {these}: `postroom serve --roles relay`")
        }
        NextStep::CheckRelay { owner } => format!("look at /health/ready and the log of {owner}"),
        NextStep::Resume { route } => format!("postroom resume {route}"),
        NextStep::ShowRoutes { route: None } => "`postroom status` lists them".to_owned(),
        NextStep::ShowRoutes { route: Some(route) } => format!("postroom status --route {route}"),
        NextStep::Reconnect { route } => format!("see that {route} can be reached"),
        NextStep::FixDeliveries { route } => format!("mend what refuses them (postroom status --route {route})"),
        NextStep::ShowLetters { letters } => match letters {
            Letters::All => "`postroom dead list` shows those that wait".to_owned(),
            Letters::Route(route) => format!("postroom dead list --route {route}"),
            Letters::Id(id) => format!("`postroom dead show {id}` tells when"),
        },
        NextStep::Retry { letters } => format!("postroom dead retry {}", chosen(letters)),
        NextStep::Discard { letters } => format!("postroom dead discard {} --reason TEXT", chosen(letters)),
        NextStep::ShowEvent { event_id } => format!("`postroom why {event_id}` shows its way"),
        NextStep::RetryNow { event_id } => format!("postroom retry {event_id}"),
        NextStep::ShowReplays => "`postroom replay list` shows them".to_owned(),
        NextStep::Replay { route, from_id, to_id } => {
            format!("postroom replay --route {route} --from-id {from_id} --to-id {to_id}")
        }
        NextStep::FindEvent { .. } => {
            "look whether the route that publishes it is behind, and whether it waits in the topic".to_owned()
        }
        NextStep::AwaitCommit { .. } => "let it commit".to_owned(),
        NextStep::EndSession { session: Some(_) } => "end that session".to_owned(),
        NextStep::EndSession { session: None } => "end the session that blocks them".to_owned(),
        NextStep::Grant { privilege, user } => {
            format!("grant {privilege} to {}", user.as_deref().unwrap_or("this user"))
        }
        NextStep::CheckDatabase => "see that the database is well".to_owned(),
        NextStep::FreeDisk => "make room on the database's disk".to_owned(),
        NextStep::CheckHandlers => "look for handlers that do not end".to_owned(),
        NextStep::Migrate => "run `postroom migrate`".to_owned(),
        NextStep::RunNewer => "run that version".to_owned(),
        NextStep::MigrateDown => "take them back with it (`postroom migrate --down`) first".to_owned(),
    }
}

/// Dead letters as the arguments of `dead retry` and `dead discard`.
fn chosen(letters: &Letters) -> String {
    match letters {
        Letters::All => "--all".to_owned(),
        Letters::Route(route) => format!("--route {route}"),
        Letters::Id(id) => id.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use postroom::operate::Side;
    use uuid::Uuid;

    use super::*;

    fn reasons_of_routes() -> Vec<Reason> {
        let route = || "orders".to_owned();
        let blocking = |blocks| Reason::Blocking {
            session: "4711".to_owned(),
            age_s: 12.3,
            query: "lock table t".to_owned(),
            blocks,
        };
        let down = |is_leased, probe_s| Reason::Down {
            route: route(),
            side: Side::Delivery,
            says: "connection refused".to_owned(),
            since_s: 7.6,
            probe_s,
            is_leased,
        };
        vec![
            blocking(0),
            blocking(1),
            blocking(2),
            Reason::Silent {
                says: "the database has not answered within 10s".to_owned(),
            },
            Reason::Lapsed {
                owner: "host:7".to_owned(),
                since_s: 31.0,
                routes: vec![route(), "mail".to_owned()],
                backlog: 2,
            },
            Reason::Unworked {
                route: route(),
                backlog: 1,
            },
            Reason::Paused { route: route() },
            down(true, None),
            down(true, Some(41.5)),
            down(true, Some(0.0)),
            down(false, None),
            down(false, Some(41.5)),
            Reason::NotBrought {
                route: route(),
                event_id: Uuid::nil(),
                event_type: "shop.order.paid.v1".to_owned(),
                entry_id: 9,
                age_s: 720.0,
            },
        ]
    }

    fn reasons_of_entries() -> Vec<Reason> {
        let route = || "orders".to_owned();
        let hidden = |transactions, user: Option<&str>, privilege: &str| {
            Reason::Hidden(Hidden {
                transactions,
                user: user.map(str::to_owned),
                privilege: privilege.to_owned(),
            })
        };
        let held = |has_more| Reason::Held {
            route: route(),
            keys: 1,
            waiting: 3,
            has_more,
        };
        let retrying = |event_id, retry_s| Reason::Retrying {
            route: route(),
            retrying: 2,
            waiting: 0,
            has_more: false,
            event_id,
            retry_s,
        };
        vec![
            Reason::Full {
                route: route(),
                parked: 10_001,
                parked_max: 10_000,
            },
            held(false),
            held(true),
            retrying(None, None),
            retrying(Some(Uuid::nil()), Some(0.0)),
            retrying(Some(Uuid::nil()), Some(3_540.0)),
            Reason::Transaction {
                session: "4711".to_owned(),
                age_s: 61.0,
                query: "insert".to_owned(),
            },
            Reason::Dead {
                dead_id: 5,
                route: route(),
                event_type: "shop.order.paid.v1".to_owned(),
                key: "order/7".to_owned(),
                attempts: 1,
                error: "no such order".to_owned(),
            },
            hidden(HiddenTransactions::OfOthers, Some("app"), "pg_read_all_stats"),
            hidden(HiddenTransactions::All, None, "process on *.*"),
        ]
    }

    #[test]
    fn every_reason_has_its_sentence_and_its_next_step() {
        let told = |one: &Reason| {
            let (kind, place, says) = (kind(one.kind()), place(one), reason(one));
            format!("{kind} {place}: {says}\n  next: {}\n", next(&one.next_steps()))
        };
        insta::assert_snapshot!(
            reasons_of_routes()
                .iter()
                .chain(&reasons_of_entries())
                .map(told)
                .collect::<String>()
        );
    }

    #[test]
    fn steps_that_do_not_belong_together_are_alternatives() {
        let check = |steps: &[NextStep], expected: &str| assert_eq!(next(steps), expected);
        check(
            &[NextStep::RunNewer, NextStep::MigrateDown],
            "run that version, or take them back with it (`postroom migrate --down`) first",
        );
        let letters = || Letters::Id(7);
        check(
            &[
                NextStep::Retry { letters: letters() },
                NextStep::Discard { letters: letters() },
            ],
            "postroom dead retry 7, or postroom dead discard 7 --reason TEXT",
        );
        check(
            &[NextStep::ShowLetters { letters: letters() }],
            "`postroom dead show 7` tells when",
        );
    }
}
