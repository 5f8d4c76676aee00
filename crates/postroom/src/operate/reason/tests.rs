//! How reasons follow from the state of a route, and how they are told.

use super::*;
use crate::event::entry::Position;
use crate::operate::RouteState;

fn route() -> RouteStatus {
    RouteStatus {
        route: "r".to_owned(),
        shard: 0,
        is_paused: false,
        owner: None,
        is_leased: true,
        lapsed_s: None,
        epoch: 1,
        delivered: 0,
        backlog: 0,
        oldest_s: None,
        retrying: 0,
        attempts: 0,
        waiting: 0,
        parked_s: None,
        retry_event: None,
        retry_s: None,
        held: 0,
        dead: 0,
        down: None,
        down_side: None,
        down_s: None,
        probe_s: None,
        settled_at: None,
        position: Position::START,
    }
}

#[test]
fn a_route_that_reads_no_further_for_what_it_has_parked_is_named() {
    let check = |retrying: u64, waiting: u64, backlog: u64, expected: bool| {
        let route = RouteStatus {
            backlog,
            retrying,
            waiting,
            ..route()
        };
        let is_named = route.reasons().iter().any(|reason| reason.kind() == ReasonKind::Full);
        assert_eq!(is_named, expected, "{retrying} + {waiting}, {backlog} behind");
    };
    check(1, 9_999, 1, true);
    check(1, 9_998, 1, false);
    check(1, 9_999, 0, false);
}

#[test]
fn a_route_has_the_state_that_must_change_first() {
    let down = || RouteStatus {
        down: Some("refused".to_owned()),
        down_side: Some(Side::Feed),
        held: 2,
        ..route()
    };
    let check = |route: RouteStatus, expected: RouteState| assert_eq!(route.state(), expected, "{route:?}");
    check(route(), RouteState::Working);
    check(RouteStatus { held: 2, ..route() }, RouteState::Held { keys: 2 });
    let says = "refused".to_owned();
    check(down(), RouteState::Down { says });
    let is_leased = false;
    check(RouteStatus { is_leased, ..down() }, RouteState::Unworked);
    let is_paused = true;
    check(
        RouteStatus {
            is_leased,
            is_paused,
            ..down()
        },
        RouteState::Paused,
    );
}

#[test]
fn the_way_out_of_an_outage_depends_on_who_tries_again() {
    let steps = |is_leased: bool, probe_s: Option<f64>| {
        let route = RouteStatus {
            down: Some("refused".to_owned()),
            is_leased,
            probe_s,
            ..route()
        };
        route.reason_of_outage().unwrap().next_steps()
    };
    let reconnect = || NextStep::Reconnect { route: "r".to_owned() };
    let resume = || NextStep::Resume { route: "r".to_owned() };
    assert_eq!(steps(true, None), [reconnect(), NextStep::Wait]);
    assert_eq!(steps(true, Some(41.5)), [reconnect(), resume()]);
    assert_eq!(steps(false, None), [reconnect(), start_relay("r")]);
    assert_eq!(steps(false, Some(41.5)), [reconnect(), start_relay("r")]);
}

#[test]
fn what_waits_for_its_retry_can_be_had_now() {
    let waiting = RouteStatus {
        retrying: 1,
        retry_event: Some(Uuid::nil()),
        retry_s: Some(3_000.0),
        ..route()
    };
    let reasons = waiting.reasons();
    let now = NextStep::RetryNow { event_id: Uuid::nil() };
    assert_eq!(reasons[0].next_steps().last(), Some(&now), "{reasons:?}");
}

#[test]
fn a_reason_is_told_to_programs_with_its_fields() {
    let reason = Reason::Paused { route: "r".to_owned() };
    let told = serde_json::to_value(&reason).unwrap();
    assert_eq!(told, serde_json::json!({ "kind": "paused", "route": "r" }));
    let steps = serde_json::to_value(reason.next_steps()).unwrap();
    assert_eq!(steps, serde_json::json!([{ "step": "resume", "route": "r" }]));
}
