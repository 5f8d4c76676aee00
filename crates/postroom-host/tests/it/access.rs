//! Locked doors: which callers a route admits, and how soon a revoked token is refused.

use std::time::{Duration, Instant};

use axum::extract::Path;
use postroom::operate::token::{self, NewToken, Role, Scope};
use postroom::{CancellationToken, Event, Subscriber, Tx};
use postroom_access::MemberKeys;
use postroom_host::{Access, Caller, Doors, Module, Platform, Routes};
use postroom_testkit::client::Answer;
use postroom_testkit::wait::until;
use postroom_testkit::{Client, Fresh, fresh};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

const SECRET: &[u8] = b"thirty-two bytes that nobody knows";
const LEVELS: [Access; 6] = [
    Access::Open,
    Access::Member,
    Access::Service,
    Access::Viewer,
    Access::Operator,
    Access::Admin,
];

async fn say_who(caller: Caller) -> String {
    json!(caller.name()).to_string()
}

async fn say_which(Path(id): Path<String>, caller: Caller) -> String {
    json!([id, caller.name()]).to_string()
}

async fn ignore(_: &mut Tx, _: &Event) -> postroom::Result<()> {
    Ok(())
}

/// A module with one route for each level.
fn shop() -> Module {
    let route =
        |module: Module, access: Access| module.http(Routes::new(access).get(&format!("/shop/{access}"), say_who));
    let sales = Subscriber::matching("sales", ["shop.**"], ignore);
    let module = LEVELS.into_iter().fold(Module::new("shop").subscriber(sales), route);
    module.http(Routes::new(Access::Service).get("/shop/orders/{id}", say_which))
}

/// A process with locked doors.
struct Locked {
    client: Client,
    stop: CancellationToken,
    process: JoinSet<postroom::Result<()>>,
}

impl Locked {
    async fn start(fresh: &Fresh, doors: Doors) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = Client(format!("http://{}", listener.local_addr().unwrap()));
        let platform = Platform::new(fresh.store()).module(shop()).serve(listener).doors(doors);
        let (stop, mut process) = (CancellationToken::new(), JoinSet::new());
        process.spawn(platform.build().unwrap().run(stop.clone()));
        Self { client, stop, process }
    }

    async fn get(&self, path: &str, token: &str) -> Answer {
        let bearer = format!("Bearer {token}");
        self.client.must("GET", path, &[("authorization", &bearer)], "").await
    }

    async fn end(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.process.join_next().await {
            ended.unwrap().unwrap();
        }
    }
}

fn doors() -> Doors {
    Doors::locked().members(MemberKeys::from_secret(SECRET).unwrap())
}

async fn make(fresh: &Fresh, name: &str, role: Role, modules: &[&str]) -> String {
    let new = NewToken {
        name: name.to_owned(),
        role,
        scope: Scope {
            modules: modules.iter().map(|&module| module.to_owned()).collect(),
            emit: Default::default(),
        },
        expires_at: None,
    };
    token::create(fresh.db(), &new, "test").await.unwrap().to_string()
}

/// Which levels a token opens.
async fn opened(locked: &Locked, token: &str) -> Vec<Access> {
    let mut opened = Vec::new();
    for access in LEVELS {
        let answer = locked.get(&format!("/shop/{access}"), token).await;
        match answer.status {
            200 => opened.push(access),
            401 => assert_eq!(answer.code(), "unauthenticated"),
            _ => assert_eq!((answer.status, answer.code()), (403, "forbidden")),
        }
    }
    opened
}

#[tokio::test]
async fn each_token_opens_the_routes_of_its_role_and_scope() {
    let fresh = fresh::sqlite().await;
    let service = make(&fresh, "till", Role::Service, &["shop"]).await;
    let other = make(&fresh, "bank", Role::Service, &["bank"]).await;
    let viewer = make(&fresh, "kim", Role::Viewer, &[]).await;
    let operator = make(&fresh, "lee", Role::Operator, &[]).await;
    let admin = make(&fresh, "park", Role::Admin, &[]).await;
    let member = MemberKeys::from_secret(SECRET)
        .unwrap()
        .mint("42", Duration::from_secs(60))
        .unwrap();
    let locked = Locked::start(&fresh, doors()).await;
    use Access::{Admin, Member, Open, Operator, Service, Viewer};
    assert_eq!(opened(&locked, "").await, [Open]);
    assert_eq!(opened(&locked, &member).await, [Open, Member]);
    assert_eq!(opened(&locked, &service).await, [Open, Service]);
    assert_eq!(opened(&locked, &other).await, [Open]);
    assert_eq!(opened(&locked, &viewer).await, [Open, Viewer]);
    assert_eq!(opened(&locked, &operator).await, [Open, Viewer, Operator]);
    assert_eq!(opened(&locked, &admin).await, [Open, Service, Viewer, Operator, Admin]);
    assert_eq!(locked.get("/shop/service", &service).await.ok(), json!("token:till"));
    assert_eq!(
        locked.get("/shop/orders/7", &service).await.ok(),
        json!(["7", "token:till"])
    );
    assert_eq!(locked.get("/shop/member", &member).await.ok(), json!("member:42"));
    until("a viewer sees the details", || async {
        locked.get("/health/ready", &viewer).await.body.get("lines").is_some()
    })
    .await;
    let plain = locked.get("/health/ready", "").await;
    assert_eq!(plain.body.as_object().unwrap().len(), 1, "{plain:?}");
    assert_eq!(
        locked.get("/shop/open", "postroom_viewer_0").await.ok(),
        json!("anonymous")
    );
    let twice = [
        ("authorization", format!("Bearer {viewer}")),
        ("authorization", format!("Bearer {admin}")),
    ];
    let twice = twice.each_ref().map(|(name, value)| (*name, value.as_str()));
    assert_eq!(locked.client.must("GET", "/shop/viewer", &twice, "").await.status, 401);
    locked.end().await;
}

#[tokio::test]
async fn unlocked_doors_ask_for_nothing_but_the_token_of_a_member() {
    let fresh = fresh::sqlite().await;
    let locked = Locked::start(&fresh, Doors::unlocked()).await;
    use Access::{Admin, Open, Operator, Service, Viewer};
    assert_eq!(opened(&locked, "").await, [Open, Service, Viewer, Operator, Admin]);
    let wrong = locked.get("/shop/service", "postroom_service_0").await;
    assert_eq!(wrong.code(), "unauthenticated", "a token that is shown is checked");
    for header in ["x-forwarded-for", "forwarded", "x-real-ip", "via"] {
        let through_proxy = locked
            .client
            .must("GET", "/shop/service", &[(header, "10.0.0.1")], "")
            .await;
        assert_eq!(
            (through_proxy.status, through_proxy.code()),
            (403, "forwarded"),
            "{header}"
        );
    }
    until("the details are shown", || async {
        locked.client.get("/health/ready").await.body.get("lines").is_some()
    })
    .await;
    locked.end().await;
}

#[tokio::test]
async fn guesses_are_slowed_down_and_a_known_token_is_not() {
    let fresh = fresh::sqlite().await;
    let token = make(&fresh, "kim", Role::Viewer, &[]).await;
    let locked = Locked::start(&fresh, doors()).await;
    assert_eq!(locked.get("/shop/viewer", &token).await.status, 200);
    let mut slowed = 0;
    for guess in 0..1_000 {
        let answer = locked
            .get("/shop/viewer", &format!("postroom_viewer_{guess:064x}"))
            .await;
        match answer.status {
            401 => {}
            429 => slowed += 1,
            _ => panic!("{answer:?}"),
        }
    }
    assert!(slowed > 900, "{slowed} of 1000 were slowed down");
    assert_eq!(locked.get("/shop/viewer", &token).await.status, 200);
    locked.end().await;
}

#[tokio::test]
async fn a_server_that_others_can_reach_has_locked_doors() {
    let fresh = fresh::sqlite().await;
    let open = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let platform = Platform::new(fresh.store()).serve(open).doors(Doors::unlocked());
    let error = platform.build().unwrap_err().to_string();
    assert!(error.contains("the doors are unlocked"), "{error}");
}

#[tokio::test]
async fn two_modules_cannot_have_the_same_route() {
    let fresh = fresh::sqlite().await;
    let other = Module::new("mall").http(Routes::new(Access::Open).get("/shop/orders/{order_id}", say_who));
    let error = Platform::new(fresh.store())
        .modules([shop(), other])
        .build()
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("GET /shop/orders/{order_id} of mall is the same as GET /shop/orders/{id} of shop"),
        "{error}"
    );
}

/// Its time is limited, so no other test runs beside it.
mod alone {
    use super::*;

    #[tokio::test]
    async fn a_revoked_token_is_refused_by_every_process_within_five_seconds() {
        let fresh = fresh::sqlite().await;
        let processes = [
            Locked::start(&fresh, doors()).await,
            Locked::start(&fresh, doors()).await,
        ];
        // Both have read their lists when the token is made.
        for process in &processes {
            assert_eq!(process.get("/shop/viewer", "postroom_viewer_0").await.status, 401);
        }
        let token = make(&fresh, "kim", Role::Viewer, &[]).await;
        for process in &processes {
            until("a new token is accepted", || async {
                process.get("/shop/viewer", &token).await.status == 200
            })
            .await;
        }
        token::revoke(fresh.db(), "kim", "test").await.unwrap();
        let revoked = Instant::now();
        for process in &processes {
            until("it is refused", || async {
                process.get("/shop/viewer", &token).await.status != 200
            })
            .await;
        }
        assert!(revoked.elapsed() < Duration::from_secs(5), "{:?}", revoked.elapsed());
        for process in processes {
            process.end().await;
        }
    }
}
