//! Locked doors before the routes of every module.

use std::time::Duration;

use postroom::CancellationToken;
use postroom::operate::token::{self, NewToken, Role, Scope};
use postroom_access::MemberKeys;
use postroom_host::{Access, Doors, Operation};
use postroom_testkit::wait::until;
use postroom_testkit::{Client, Fresh, fresh};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::platform;
use crate::config::Config;
use crate::{hash_secret, module};

const SECRET: &[u8] = b"thirty-two bytes that nobody knows";

/// A request to an operation: its path with values for its parameters.
fn path(operation: &Operation) -> String {
    let segment = |segment: &str| {
        if segment.starts_with('{') {
            "7".to_owned()
        } else {
            segment.to_owned()
        }
    };
    operation.path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

async fn make(
    fresh: &Fresh,
    name: &str,
    role: Role,
    modules: &[&str],
    expires_at: Option<time::OffsetDateTime>,
) -> String {
    let new = NewToken {
        name: name.to_owned(),
        role,
        scope: Scope {
            modules: modules.iter().map(|&module| module.to_owned()).collect(),
            ..Scope::default()
        },
        expires_at,
    };
    token::create(fresh.db(), &new, "test").await.unwrap().to_string()
}

/// Tokens that no route accepts.
async fn worthless(fresh: &Fresh) -> Vec<(&'static str, String)> {
    let revoked = make(fresh, "revoked", Role::Admin, &[], None).await;
    token::revoke(fresh.db(), "revoked", "test").await.unwrap();
    let soon = postroom::clock::now() + Duration::from_millis(200);
    let expired = make(fresh, "expired", Role::Admin, &[], Some(soon)).await;
    until("it has expired", || async { postroom::clock::now() > soon }).await;
    let other = MemberKeys::from_secret(b"another secret of thirty-two bytes").unwrap();
    let forged = other.mint("7", Duration::from_secs(60)).unwrap();
    // {"alg":"none"} and {"sub":"7","exp":4102444800}
    let unsigned = "eyJhbGciOiJub25lIn0.eyJzdWIiOiI3IiwiZXhwIjo0MTAyNDQ0ODAwfQ.".to_owned();
    vec![
        ("none", String::new()),
        ("unknown", format!("postroom_admin_{:064x}", 7)),
        ("revoked", revoked),
        ("expired", expired),
        ("a member's, with another key", forged),
        ("a member's, without a signature", unsigned),
        ("nonsense", "nonsense".to_owned()),
    ]
}

#[tokio::test]
async fn every_route_of_every_module_refuses_callers_without_a_right() {
    let fresh = fresh::sqlite().await;
    let mut config = Config::default();
    hash_secret::invent(&mut config);
    let modules = module::all(&config);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client(format!("http://{}", listener.local_addr().unwrap()));
    let doors = Doors::locked().members(MemberKeys::from_secret(SECRET).unwrap());
    let platform = platform(&config, &fresh.store(), modules)
        .unwrap()
        .serve(listener)
        .doors(doors);
    let process = platform.build().unwrap();
    process.migrate().await.unwrap();
    let operations = process.operations();
    assert!(operations.len() > 40, "{}", operations.len());
    let stop = CancellationToken::new();
    let mut running = JoinSet::new();
    running.spawn(process.run(stop.clone()));

    let worthless = worthless(&fresh).await;
    let stranger = make(&fresh, "stranger", Role::Service, &["another-module"], None).await;
    let member = MemberKeys::from_secret(SECRET)
        .unwrap()
        .mint("7", Duration::from_secs(60))
        .unwrap();
    let mut asked = 0;
    for (module, operation) in &operations {
        if operation.access == Access::Open {
            continue;
        }
        let at = format!("{} {} of {module}", operation.method, operation.path);
        for (kind, token) in &worthless {
            let answer = ask(&client, operation, token).await;
            assert!([401, 429].contains(&answer.status), "{at}, {kind}: {answer:?}");
            assert!(
                ["unauthenticated", "too_many_tries"].contains(&answer.code()),
                "{at}, {kind}: {answer:?}"
            );
            assert!(
                token.is_empty() || !answer.body.to_string().contains(token.as_str()),
                "{at}, {kind}: {answer:?}"
            );
        }
        let without_right: &[&String] = match operation.access {
            Access::Member => &[&stranger],
            _ => &[&stranger, &member],
        };
        for token in without_right {
            let answer = ask(&client, operation, token).await;
            assert_eq!((answer.status, answer.code()), (403, "forbidden"), "{at}: {answer:?}");
        }
        asked += 1;
    }
    assert!(asked > 40, "{asked}");
    stop.cancel();
    running.join_next().await.unwrap().unwrap().unwrap();
}

async fn ask(client: &Client, operation: &Operation, token: &str) -> postroom_testkit::client::Answer {
    let bearer = format!("Bearer {token}");
    let headers: &[(&str, &str)] = match token {
        "" => &[],
        _ => &[("authorization", &bearer)],
    };
    client
        .must(operation.method.as_str(), &path(operation), headers, "")
        .await
}
