//! Tokens checked with the keys of a key server.

use std::time::{Duration, Instant};

use axum::http::StatusCode;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::key_server::{Answer, KeyServer};
use super::signer::{RSA_N, RSA_TOKEN, Signer, claims, encode, hmac, token};
use crate::jwks::Pace;
use crate::{MemberKeys, Refused};

/// No distance between fetches: each unknown key makes one. Waits longer than any fetch, so the tests see its result.
const EAGER: Pace = Pace {
    refresh: Duration::from_mins(5),
    distance: Duration::ZERO,
    distance_without_keys: Duration::ZERO,
    fetch: Duration::from_secs(20),
    wait: Duration::from_secs(30),
};
/// Far less than the time limits that a test must not reach.
const QUICK: Duration = Duration::from_secs(10);

async fn check(keys: &MemberKeys, token: &str) -> Result<(), Refused> {
    let member = keys.verify(token).await?;
    assert_eq!(member.id, "member-7");
    Ok(())
}

/// Checks the token again and again until the result is the expected one.
async fn until(keys: &MemberKeys, token: &str, expected: Result<(), Refused>) {
    let begun = Instant::now();
    while check(keys, token).await != expected {
        assert!(begun.elapsed() < QUICK, "not yet {expected:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn each_kind_of_key_is_accepted() {
    let (p256, ed25519) = (Signer::p256(), Signer::ed25519());
    let rsa = json!({ "kty": "RSA", "kid": "rsa", "use": "sig", "alg": "RS256", "key_ops": ["verify"], "n": RSA_N, "e": "AQAB" });
    let server = KeyServer::start(Answer::Keys(vec![rsa, p256.jwk("p"), ed25519.jwk("e")])).await;
    let keys = server.member_keys(Pace::default());
    for token in [RSA_TOKEN, &p256.token(Some("p")), &ed25519.token(Some("e"))] {
        assert_eq!(check(&keys, token).await, Ok(()), "{token}");
    }
    assert_eq!(check(&keys, &p256.token(Some("e"))).await, Err(Refused::WrongAlgorithm));
    assert_eq!(
        check(&keys, &Signer::p256().token(Some("p"))).await,
        Err(Refused::BadSignature)
    );
    assert_eq!(server.requests(), 1);
}

#[tokio::test]
async fn a_token_without_a_name_needs_exactly_one_key_that_fits() {
    let (one, two, ed25519) = (Signer::p256(), Signer::p256(), Signer::ed25519());
    let server = KeyServer::start(Answer::Keys(vec![one.jwk("1"), ed25519.jwk("e")])).await;
    let keys = server.member_keys(Pace::default());
    assert_eq!(check(&keys, &one.token(None)).await, Ok(()));
    assert_eq!(check(&keys, &ed25519.token(None)).await, Ok(()));

    server.set(Answer::Keys(vec![one.jwk("1"), two.jwk("2")]));
    let keys = server.member_keys(Pace::default());
    assert_eq!(check(&keys, &one.token(Some("1"))).await, Ok(()));
    assert_eq!(check(&keys, &one.token(None)).await, Err(Refused::UnknownKey));
    assert_eq!(check(&keys, &ed25519.token(None)).await, Err(Refused::WrongAlgorithm));
}

#[tokio::test]
async fn unusable_keys_are_skipped_and_a_secret_key_is_never_used() {
    let (good, other) = (Signer::p256(), Signer::p256());
    let unusable = [
        json!({ "use": "enc" }),
        json!({ "key_ops": ["sign"] }),
        json!({ "alg": "ES384" }),
        json!({ "alg": "HS256" }),
        json!({ "crv": "P-384" }),
        json!({ "kty": "XYZ" }),
        json!({ "x": "AA" }),
        json!({ "y": null }),
        json!({ "x": "not base64!" }),
    ];
    let secret = json!({ "kty": "oct", "kid": "secret", "alg": "HS256", "k": encode([7; 32]) });
    let short = json!({ "kty": "RSA", "kid": "short", "n": encode([255; 128]), "e": "AQAB" });
    let mut set = vec![secret, short, json!(null), json!("key"), good.jwk("good")];
    for (number, change) in unusable.iter().enumerate() {
        let mut jwk = other.jwk(&number.to_string());
        jwk.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        set.push(jwk);
    }
    let server = KeyServer::start(Answer::Keys(set)).await;
    let keys = server.member_keys(Pace::default());
    assert_eq!(check(&keys, &good.token(Some("good"))).await, Ok(()));
    for (number, change) in unusable.iter().enumerate() {
        let token = other.token(Some(&number.to_string()));
        assert_eq!(check(&keys, &token).await, Err(Refused::UnknownKey), "{change}");
    }
    let header = json!({ "alg": "HS256", "kid": "secret" });
    let forged = token(&header, &claims(), |message| hmac(&[7; 32], message));
    assert_eq!(check(&keys, &forged).await, Err(Refused::UnknownKey));
}

#[tokio::test]
async fn a_rotated_key_is_accepted_at_once_and_the_removed_one_no_longer() {
    let (old, new) = (Signer::p256(), Signer::p256());
    let server = KeyServer::start(Answer::key("old", &old)).await;
    let keys = server.member_keys(EAGER);
    assert_eq!(check(&keys, &old.token(Some("old"))).await, Ok(()));
    server.set(Answer::key("new", &new));
    assert_eq!(check(&keys, &new.token(Some("new"))).await, Ok(()));
    assert_eq!(server.requests(), 2);
    assert_eq!(check(&keys, &old.token(Some("old"))).await, Err(Refused::UnknownKey));
}

#[tokio::test]
async fn a_removed_key_is_refused_after_the_next_refresh() {
    let (old, new) = (Signer::p256(), Signer::p256());
    let server = KeyServer::start(Answer::key("old", &old)).await;
    let refresh = Duration::ZERO;
    let keys = server.member_keys(Pace { refresh, ..EAGER });
    assert_eq!(check(&keys, &old.token(Some("old"))).await, Ok(()));
    server.set(Answer::key("new", &new));
    // The fetch runs beside the requests with the known key.
    until(&keys, &old.token(Some("old")), Err(Refused::UnknownKey)).await;
}

#[tokio::test]
async fn a_hundred_requests_with_unknown_keys_make_one_fetch() {
    let signer = Signer::p256();
    let delay = Duration::from_millis(100);
    let server = KeyServer::start(Answer::KeysAfter(delay, vec![signer.jwk("known")])).await;
    let keys = server.member_keys(Pace::default());
    for _ in 0..2 {
        let mut requests = JoinSet::new();
        for number in 0..100 {
            let (keys, token) = (keys.clone(), signer.token(Some(&format!("unknown-{number}"))));
            requests.spawn(async move { check(&keys, &token).await });
        }
        assert_eq!(requests.join_all().await, [Err(Refused::UnknownKey); 100]);
        assert_eq!(server.requests(), 1);
    }
    assert_eq!(check(&keys, &signer.token(Some("known"))).await, Ok(()));
}

#[tokio::test]
async fn keys_are_kept_while_the_server_is_wrong_or_away() {
    let (good, other) = (Signer::p256(), Signer::p256());
    let mut server = KeyServer::start(Answer::key("good", &good)).await;
    let keys = server.member_keys(EAGER);
    assert_eq!(check(&keys, &good.token(Some("good"))).await, Ok(()));
    let too_long = json!({ "keys": [other.jwk("other")], "long": "x".repeat(256 << 10) });
    for answer in [
        Answer::Text("not JSON".to_owned()),
        Answer::Text(json!([other.jwk("other")]).to_string()),
        Answer::Text(too_long.to_string()),
        Answer::Keys(Vec::new()),
        Answer::Keys(vec![json!({ "kty": "oct", "kid": "other", "k": "AA" })]),
        Answer::Status(StatusCode::INTERNAL_SERVER_ERROR, other.jwk("other")),
        Answer::Status(StatusCode::ACCEPTED, other.jwk("other")),
        Answer::Redirect(other.jwk("other")),
    ] {
        server.set(answer.clone());
        let before = server.requests();
        assert_eq!(
            check(&keys, &other.token(Some("other"))).await,
            Err(Refused::UnknownKey),
            "{answer:?}"
        );
        assert_eq!(server.requests(), before + 1, "{answer:?}");
        assert_eq!(check(&keys, &good.token(Some("good"))).await, Ok(()), "{answer:?}");
        let fresh = server.member_keys(EAGER);
        assert_eq!(
            check(&fresh, &good.token(Some("good"))).await,
            Err(Refused::KeysUnavailable),
            "{answer:?}"
        );
    }
    server.stop().await;
    let before = server.requests();
    assert_eq!(
        check(&keys, &other.token(Some("other"))).await,
        Err(Refused::UnknownKey)
    );
    assert_eq!(server.requests(), before, "the server is still there");
    assert_eq!(check(&keys, &good.token(Some("good"))).await, Ok(()));
}

#[tokio::test]
async fn a_server_that_comes_late_is_asked_again() {
    let signer = Signer::p256();
    let server = KeyServer::start(Answer::Text("starting".to_owned())).await;
    let keys = server.member_keys(EAGER);
    assert_eq!(check(&keys, &signer.token(None)).await, Err(Refused::KeysUnavailable));
    server.set(Answer::key("name", &signer));
    assert_eq!(check(&keys, &signer.token(None)).await, Ok(()));
}

#[tokio::test]
async fn a_slow_server_holds_up_unknown_keys_for_a_short_time_and_known_ones_not_at_all() {
    let (good, other) = (Signer::p256(), Signer::p256());
    let server = KeyServer::start(Answer::key("good", &good)).await;
    let slow = Pace {
        wait: Duration::from_millis(100),
        ..EAGER
    };
    let refresh = Duration::ZERO;
    let (keys, old_keys) = (server.member_keys(slow), server.member_keys(Pace { refresh, ..slow }));
    for keys in [&keys, &old_keys] {
        until(keys, &good.token(Some("good")), Ok(())).await;
    }
    server.set(Answer::Never);
    let begun = Instant::now();
    assert_eq!(
        check(&keys, &other.token(Some("other"))).await,
        Err(Refused::UnknownKey)
    );
    assert!(begun.elapsed() < QUICK, "{:?}", begun.elapsed());
    // Ready when it is polled for the first time, although a fetch is running, or due.
    for keys in [&keys, &old_keys] {
        let token = good.token(Some("good"));
        assert_eq!(timeout(Duration::ZERO, check(keys, &token)).await, Ok(Ok(())));
    }
}

#[tokio::test]
async fn a_fetch_has_a_time_limit() {
    let signer = Signer::p256();
    let server = KeyServer::start(Answer::Never).await;
    let keys = server.member_keys(Pace {
        fetch: Duration::from_millis(100),
        ..EAGER
    });
    let begun = Instant::now();
    assert_eq!(check(&keys, &signer.token(None)).await, Err(Refused::KeysUnavailable));
    assert!(begun.elapsed() < QUICK, "{:?}", begun.elapsed());
}
