//! Each row of PostHog's ingestion contract, against a fake that checks it.

use std::collections::BTreeSet;
use std::time::Duration;

use postroom_activity::{ActivityEvent, ActivitySink as _, PosthogSettings, PosthogSink, SinkAnswer};
use postroom_testkit::fake_posthog::{Answer, FakePosthog, Outcome, PROJECT_API_KEY, V0, V1};
use serde_json::json;
use time::macros::datetime;

use SinkAnswer::Taken;

pub(crate) fn settings(fake: &FakePosthog) -> PosthogSettings {
    PosthogSettings {
        host: fake.url.clone(),
        project_api_key: PROJECT_API_KEY.to_owned(),
        timeout_ms: 60_000, // longer than a busy machine takes
        ..PosthogSettings::default()
    }
}

pub(crate) fn sink(fake: &FakePosthog) -> PosthogSink {
    PosthogSink::new(&settings(fake)).unwrap()
}

/// Events of a member, a minute apart.
pub(crate) fn events(count: usize) -> Vec<ActivityEvent> {
    let event = |n: usize| ActivityEvent {
        occurred_at: datetime!(2026-02-18 23:59:59.987_654 UTC) + Duration::from_secs(60 * n as u64),
        ..ActivityEvent::new("review.created", "v1").member(42).property("n", n)
    };
    (0..count).map(event).collect()
}

pub(crate) fn ids(events: &[ActivityEvent]) -> BTreeSet<String> {
    events.iter().map(|event| event.event_id.clone()).collect()
}

fn unavailable(says: &str) -> SinkAnswer {
    SinkAnswer::Unavailable {
        says: says.to_owned(),
        after: None,
    }
}

#[tokio::test]
async fn a_batch_is_one_compressed_request_that_fulfils_the_contract() {
    let fake = FakePosthog::open().await;
    fake.rule(|rules| rules.is_key_checked = true);
    let events = events(100);
    assert_eq!(sink(&fake).sink_batch(&events).await, vec![Taken; 100]);
    let requests = fake.requests();
    assert_eq!(requests.len(), 1);
    let request = &requests[0];
    assert_eq!((request.path.as_str(), request.status), (V1, Some(200)));
    assert_eq!(request.header("authorization"), format!("Bearer {PROJECT_API_KEY}"));
    assert_eq!(request.header("content-encoding"), "gzip");
    assert_eq!(request.header("posthog-attempt"), "1");
    let body = request.json();
    assert!(body.get("api_key").is_none() && body.get("sent_at").is_none());
    assert!(body.get("historical_migration").is_none());
    assert_eq!(
        body["created_at"], "2026-02-19T01:38:59.987Z",
        "the time of the newest event"
    );
    assert_eq!(fake.uuids(), ids(&events));
    let stored = fake.stored();
    assert!(stored.iter().all(|row| row.has_profile && row.seen.distinct_id == "42"));
    assert!(stored.iter().all(|row| row.properties["$geoip_disable"] == true));
    let first = stored.iter().find(|row| row.seen.uuid == events[0].event_id).unwrap();
    assert_eq!(
        first.at,
        datetime!(2026-02-18 23:59:59.987 UTC),
        "no correction of the clock"
    );
}

#[tokio::test]
async fn an_event_without_a_member_makes_no_profile() {
    for has_v1 in [true, false] {
        let fake = FakePosthog::open().await;
        fake.rule(|rules| rules.has_v1 = has_v1);
        let visitor = ActivityEvent {
            anonymous_id: Some("visitor-7".to_owned()),
            ..ActivityEvent::new("search.executed", "v1")
        };
        let unknown = ActivityEvent::new("search.executed", "v1");
        let answers = sink(&fake).sink_batch(&[visitor, unknown.clone()]).await;
        assert_eq!(answers, [Taken, Taken]);
        let stored = fake.stored();
        assert!(stored.iter().all(|row| !row.has_profile), "{stored:?}");
        let distinct: BTreeSet<String> = stored.into_iter().map(|row| row.seen.distinct_id).collect();
        assert_eq!(distinct, BTreeSet::from(["visitor-7".to_owned(), unknown.event_id]));
    }
}

/// The same events are the same request in each further attempt, also from another process.
#[tokio::test]
async fn a_batch_that_is_sent_again_is_the_same_request() {
    let fake = FakePosthog::open().await;
    let (events, sink_before) = (events(3), sink(&fake));
    fake.script([Outcome::status(503)]);
    let says = unavailable("503: service_unavailable");
    assert_eq!(sink_before.sink_batch(&events).await, vec![says; 3]);
    assert_eq!(sink_before.sink_batch(&events).await, vec![Taken; 3]);
    assert_eq!(sink(&fake).sink_batch(&events).await, vec![Taken; 3]);
    let requests = fake.requests();
    let ids: BTreeSet<&str> = requests
        .iter()
        .map(|request| request.header("posthog-request-id"))
        .collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    let attempts: Vec<&str> = requests
        .iter()
        .map(|request| request.header("posthog-attempt"))
        .collect();
    assert_eq!(attempts, ["1", "2", "1"]);
    assert_eq!(requests[0].body, requests[1].body);
    assert_eq!(requests[0].body, requests[2].body);
    assert_eq!((fake.seen().len(), fake.stored().len()), (3, 3));
}

#[tokio::test]
async fn each_event_has_its_own_result() {
    let fake = FakePosthog::open().await;
    let mut events = events(5);
    events[0].event_name = "poison".to_owned();
    events[1].event_name = "later".to_owned();
    events[2].event_name = "omitted".to_owned();
    events[3].member_id = Some(0); // an id that PostHog takes with a warning
    fake.rule(|rules| {
        rules.poison.insert("poison".to_owned());
        rules.not_persisted.insert("later".to_owned());
        rules.omitted.insert("omitted".to_owned());
    });
    let sink = sink(&fake);
    let answers = sink.sink_batch(&events).await;
    let expected = [
        SinkAnswer::Rejected("PostHog dropped it: event_restriction_drop".to_owned()),
        SinkAnswer::Refused("PostHog could not store it: not_persisted".to_owned()),
        SinkAnswer::Refused("PostHog gave no known result".to_owned()),
        Taken,
        Taken,
    ];
    assert_eq!(answers, expected);
    let counts = sink.counts();
    assert_eq!((counts.requests, counts.warnings, counts.anomalies), (1, 1, 1));
    assert_eq!(fake.asked(), 1);
}

#[tokio::test]
async fn an_event_without_a_result_is_stored_once() {
    let fake = FakePosthog::open().await;
    let events = events(2);
    fake.rule(|rules| _ = rules.omitted.insert(events[0].event_id.clone()));
    let sink = sink(&fake);
    assert!(matches!(sink.sink_batch(&events).await[0], SinkAnswer::Refused(_)));
    fake.rule(|rules| rules.omitted.clear());
    assert_eq!(sink.sink_batch(&events[..1]).await, [Taken]);
    assert_eq!((fake.stored().len(), fake.seen().len()), (2, 2));
}

/// A batch of which nothing was stored is an outage: no attempt counts.
#[tokio::test]
async fn a_batch_of_which_nothing_is_stored_is_unavailable() {
    let fake = FakePosthog::open().await;
    let events = events(2);
    fake.rule(|rules| _ = rules.not_persisted.insert("review.created".to_owned()));
    let later = SinkAnswer::Unavailable {
        says: "PostHog could not store any event".to_owned(),
        after: Some(Duration::from_secs(1)),
    };
    assert_eq!(sink(&fake).sink_batch(&events).await, vec![later; 2]);
    fake.rule(|rules| {
        rules.not_persisted.clear();
        rules.omitted.insert("review.created".to_owned());
    });
    let says = unavailable("PostHog gave no known result for any event");
    assert_eq!(sink(&fake).sink_batch(&events).await, vec![says; 2]);
}

#[tokio::test]
async fn an_answer_that_concerns_the_whole_project_keeps_every_event() {
    let answer = |status, after: &str| Outcome::Answer(Answer::new(status, "").retry_after(after));
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    let rows = [
        (Outcome::status(401), "401: the project API key is not accepted", None),
        (Outcome::status(402), "402: the project is over its quota", None),
        (answer(408, "1"), "408: request_timeout", seconds(1)),
        (answer(429, "17"), "429: rate_limited", seconds(17)),
        (Outcome::status(500), "500: internal_error", None),
        (answer(502, "86400"), "502: internal_error", seconds(900)),
        (answer(503, "1"), "503: service_unavailable", seconds(1)),
        (Outcome::status(503), "503: service_unavailable", None),
        (
            Outcome::status(400),
            "400: invalid_header_value; the form of the request is refused",
            None,
        ),
        (
            Outcome::Answer(Answer::new(200, "<html>")),
            "200: the results cannot be read",
            None,
        ),
        (
            Outcome::Answer(Answer::new(200, r#"{"results":{}}"#)),
            "PostHog gave no known result for any event",
            None,
        ),
    ];
    let fake = FakePosthog::open().await;
    let (events, sink) = (events(3), sink(&fake));
    for (count, (outcome, says, after)) in rows.into_iter().enumerate() {
        fake.script([outcome]);
        let expected = SinkAnswer::Unavailable {
            says: says.to_owned(),
            after,
        };
        assert_eq!(sink.sink_batch(&events).await, vec![expected; 3]);
        assert_eq!(fake.asked(), count + 1, "{says}: nothing else is sent");
    }
    assert!(fake.stored().is_empty());
    assert_eq!(sink.sink_batch(&events).await, vec![Taken; 3]);
}

#[tokio::test]
async fn a_project_over_its_quota_keeps_its_events_on_v1() {
    let fake = FakePosthog::open().await;
    fake.rule(|rules| rules.is_over_quota = true);
    let answers = sink(&fake).sink_batch(&events(2)).await;
    assert_eq!(answers, vec![unavailable("402: the project is over its quota"); 2]);
}

/// The reason to prefer v1: v0 says that it has taken the events.
#[tokio::test]
async fn a_project_over_its_quota_cannot_be_noticed_on_v0() {
    let fake = FakePosthog::open().await;
    fake.rule(|rules| (rules.is_over_quota, rules.has_v1) = (true, false));
    assert_eq!(sink(&fake).sink_batch(&events(2)).await, [Taken, Taken]);
    assert!(fake.stored().is_empty());
}

#[tokio::test]
async fn a_personal_or_unknown_key_keeps_every_event() {
    let fake = FakePosthog::open().await;
    fake.rule(|rules| rules.is_key_checked = true);
    let other = PosthogSettings {
        project_api_key: "phc_of_another".to_owned(),
        ..settings(&fake)
    };
    for has_v1 in [true, false] {
        fake.rule(|rules| rules.has_v1 = has_v1);
        let sink = PosthogSink::new(&other).unwrap();
        let answers = sink.sink_batch(&events(1)).await;
        assert_eq!(answers, [unavailable("401: the project API key is not accepted")]);
        assert!(!format!("{sink:?} {other:?} {answers:?}").contains("phc_"));
    }
}

#[tokio::test]
async fn a_request_without_an_answer_keeps_every_event() {
    let fake = FakePosthog::open().await;
    let impatient = PosthogSettings {
        timeout_ms: 1_000,
        ..settings(&fake)
    };
    let (events, patient) = (events(2), sink(&fake));
    let hasty = PosthogSink::new(&impatient).unwrap();
    let reset = [Outcome::ResetAfterBytes(10), Outcome::ResetAfterBytes(10)]; // a closed connection is tried twice
    let stored = [Outcome::StoredThenReset, Outcome::StoredThenReset];
    for (sink, outcomes, stored) in [
        (&hasty, &[Outcome::Silence][..], 0),
        (&patient, &reset[..], 0),
        (&patient, &stored[..], 2),
        (&hasty, &[Outcome::StoredThenSilence][..], 2),
    ] {
        fake.script(outcomes.iter().cloned());
        let answers = sink.sink_batch(&events).await;
        let is_unavailable = |answer: &SinkAnswer| matches!(answer, SinkAnswer::Unavailable { after: None, .. });
        assert!(answers.iter().all(is_unavailable), "{outcomes:?}: {answers:?}");
        assert!(!format!("{answers:?}").contains("127.0.0.1"), "{answers:?}");
        assert_eq!(fake.stored().len(), stored, "{outcomes:?}");
    }
    assert_eq!(patient.sink_batch(&events).await, [Taken, Taken]);
    assert_eq!(
        (fake.stored().len(), fake.seen().len()),
        (2, 2),
        "the same events, stored once"
    );
    let url = fake.url.clone();
    drop(fake);
    let nobody = PosthogSettings { host: url, ..impatient };
    let answers = PosthogSink::new(&nobody).unwrap().sink_batch(&events).await;
    assert!(matches!(
        answers[..],
        [SinkAnswer::Unavailable { .. }, SinkAnswer::Unavailable { .. }]
    ));
}

#[tokio::test]
async fn a_deployment_without_v1_gets_the_same_events_by_v0() {
    let fake = FakePosthog::open().await;
    fake.rule(|rules| rules.has_v1 = false);
    let (events, sink) = (events(3), sink(&fake));
    for _ in 0..2 {
        assert_eq!(sink.sink_batch(&events).await, vec![Taken; 3]);
    }
    let requests = fake.requests();
    let paths: Vec<&str> = requests.iter().map(|request| request.path.as_str()).collect();
    assert_eq!(paths, [V1, V0, V0], "v1 is not tried again for a while");
    assert_eq!(requests[1].json()["api_key"], PROJECT_API_KEY);
    assert!(requests[1].json().get("sent_at").is_none());
    let expected: BTreeSet<String> = requests[0].events().into_iter().map(|seen| seen.timestamp).collect();
    let stored = fake.stored();
    assert_eq!(
        stored
            .iter()
            .map(|row| row.seen.timestamp.clone())
            .collect::<BTreeSet<_>>(),
        expected
    );
    assert_eq!(fake.uuids(), ids(&events));
    assert!(
        stored
            .iter()
            .all(|row| row.properties["$ignore_sent_at"] == true && row.has_profile)
    );
}

#[tokio::test]
async fn an_address_without_posthog_keeps_every_event_and_is_named() {
    let fake = FakePosthog::open().await;
    let (events, sink) = (events(2), sink(&fake));
    fake.always(Some(Outcome::status(404)));
    let says = unavailable("404: PostHog is not at this address; check the setting host");
    assert_eq!(sink.sink_batch(&events).await, vec![says; 2]);
    fake.always(None);
    assert_eq!(sink.sink_batch(&events).await, vec![Taken; 2]);
    assert_eq!(fake.requests()[2].path, V1, "both protocols are tried again");
}

/// On v0 one bad event refuses its whole batch; on v1 one that makes the request unreadable does.
#[tokio::test]
async fn one_bad_event_of_a_hundred_is_found_and_the_others_arrive() {
    for has_v1 in [true, false] {
        let fake = FakePosthog::open().await;
        let (events, sink) = (events(100), sink(&fake));
        let bad = events[61].event_id.clone();
        fake.rule(|rules| {
            rules.has_v1 = has_v1;
            match has_v1 {
                true => rules.unreadable.insert(bad.clone()),
                false => rules.poison.insert(bad.clone()),
            };
        });
        let answers = sink.sink_batch(&events).await;
        let says = match has_v1 {
            true => "400: request_parsing_error",
            false => "400: invalid event could not be processed",
        };
        assert_eq!(answers[61], SinkAnswer::Rejected(says.to_owned()));
        let taken = answers.iter().filter(|answer| **answer == Taken).count();
        assert_eq!(taken, 99);
        let mut expected = ids(&events);
        expected.remove(&bad);
        assert_eq!(fake.uuids(), expected);
        let requests = fake.asked() - usize::from(!has_v1); // the first one to v1
        assert!(requests <= 15, "{requests}");
    }
}

/// Every event is refused: our requests may be wrong, and nothing becomes a dead letter.
#[tokio::test]
async fn events_that_are_all_refused_are_kept() {
    let fake = FakePosthog::open().await;
    fake.rule(|rules| _ = rules.unreadable.insert("review.created".to_owned()));
    let answers = sink(&fake).sink_batch(&events(4)).await;
    assert_eq!(answers, vec![unavailable("400: request_parsing_error"); 4]);
}

#[tokio::test]
async fn a_batch_that_is_too_large_is_divided() {
    for (has_v1, is_wire) in [(true, true), (true, false), (false, true), (false, false)] {
        let fake = FakePosthog::open().await;
        fake.rule(|rules| {
            rules.has_v1 = has_v1;
            match is_wire {
                true => rules.wire_bytes_max = 2_000,
                false => rules.unpacked_bytes_max = 9_000,
            }
        });
        let mut events = events(40);
        // Random text, because gzip would make repeated text small.
        let noise: String = (0..300).map(|_| uuid::Uuid::now_v7().to_string()).collect();
        events[7].properties.insert("noise".to_owned(), json!(noise));
        let answers = sink(&fake).sink_batch(&events).await;
        let SinkAnswer::Rejected(says) = &answers[7] else {
            panic!("{:?}", answers[7]);
        };
        assert!(says.starts_with("413: "), "{says}");
        assert_eq!(answers.iter().filter(|answer| **answer == Taken).count(), 39);
        assert_eq!(fake.stored().len(), 39);
    }
}

#[tokio::test]
async fn a_deployment_that_refuses_gzip_gets_plain_requests() {
    let fake = FakePosthog::open().await;
    fake.rule(|rules| rules.takes_gzip = false);
    let sink = sink(&fake);
    for _ in 0..2 {
        assert_eq!(sink.sink_batch(&events(1)).await, [Taken]);
    }
    let requests = fake.requests();
    let seen: Vec<(&str, Option<u16>)> = requests
        .iter()
        .map(|request| (request.header("content-encoding"), request.status))
        .collect();
    assert_eq!(seen, [("gzip", Some(415)), ("", Some(200)), ("", Some(200))]);
    fake.always(Some(Outcome::status(415)));
    let says = unavailable("415: PostHog does not take JSON at this address");
    assert_eq!(sink.sink_batch(&events(1)).await, [says]);
    assert_eq!(fake.asked(), 4, "once without compression is enough");
}

/// A 503 of v0 may follow events that are stored already.
#[tokio::test]
async fn a_batch_that_v0_stores_in_part_is_sent_again_without_duplicates() {
    let fake = FakePosthog::open().await;
    let events = events(5);
    fake.rule(|rules| {
        rules.has_v1 = false;
        rules.not_persisted.insert(events[3].event_id.clone());
    });
    let sink = sink(&fake);
    let says = unavailable("503: transient error, please retry");
    assert_eq!(sink.sink_batch(&events).await, vec![says; 5]);
    assert_eq!(fake.stored().len(), 3);
    fake.rule(|rules| rules.not_persisted.clear());
    assert_eq!(sink.sink_batch(&events).await, vec![Taken; 5]);
    assert_eq!((fake.stored().len(), fake.seen().len()), (5, 5));
}

#[tokio::test]
async fn a_smaller_batch_size_makes_more_requests() {
    let fake = FakePosthog::open().await;
    let small = PosthogSettings {
        batch_size: 10,
        ..settings(&fake)
    };
    let sink = PosthogSink::new(&small).unwrap();
    assert_eq!(sink.sink_batch(&events(25)).await, vec![Taken; 25]);
    assert_eq!((fake.asked(), fake.stored().len()), (3, 25));
}

/// An event that is stored and sent to the sink again by an operator can be twice in a batch.
#[tokio::test]
async fn an_event_that_is_twice_in_a_batch_is_sent_once() {
    let fake = FakePosthog::open().await;
    let mut events = events(2);
    events.push(events[0].clone());
    assert_eq!(sink(&fake).sink_batch(&events).await, vec![Taken; 3]);
    assert_eq!((fake.asked(), fake.stored().len()), (1, 2));
}

/// A batch of one event has no others to compare with: the batch before it shows whether our requests are understood.
#[tokio::test]
async fn a_single_bad_event_is_kept_until_another_event_was_taken() {
    let fake = FakePosthog::open().await;
    let (sink, mut bad) = (sink(&fake), events(1));
    bad[0].event_name = "bad".to_owned();
    fake.rule(|rules| _ = rules.unreadable.insert("bad".to_owned()));
    assert_eq!(sink.sink_batch(&bad).await, [unavailable("400: request_parsing_error")]);
    assert_eq!(sink.sink_batch(&events(1)).await, [Taken]);
    let rejected = SinkAnswer::Rejected("400: request_parsing_error".to_owned());
    assert_eq!(sink.sink_batch(&bad).await, [rejected]);
}
