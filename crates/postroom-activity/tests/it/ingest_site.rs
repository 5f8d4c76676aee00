//! A process that takes events of clients, and what it has stored.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use postroom::CancellationToken;
use postroom_access::MemberKeys;
use postroom_activity::{ActivityEvent, ActivitySink, Catalogue, SinkAnswer};
use postroom_host::{Access, Doors, Platform, Serving};
use postroom_shared::RateLimiter;
use postroom_testkit::client::Answer;
use postroom_testkit::{Client, Fresh};
use sea_orm::ConnectionTrait as _;
use sea_orm::sea_query::{Alias, Expr, Query};
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use uuid::Uuid;

pub(crate) const EVENTS: &str = "/api/v1/activity/events";
const SECRET: &[u8] = b"thirty-two bytes that nobody knows";

/// A process. Dropping it ends it.
pub(crate) struct Site {
    pub(crate) client: Client,
    /// The ids that the sink was given.
    pub(crate) sunk: Arc<Mutex<Vec<String>>>,
    _process: JoinSet<postroom::Result<()>>,
}

/// How a process is set up.
#[derive(Default)]
pub(crate) struct Setup {
    pub(crate) settings: Value,
    pub(crate) rate_limiter: Option<Arc<dyn RateLimiter>>,
    pub(crate) serving: Serving,
}

impl Setup {
    /// Client ingest is switched on, with these other settings.
    pub(crate) fn with(mut settings: Value) -> Self {
        settings["client_ingest_enabled"] = true.into();
        Self {
            settings,
            ..Self::default()
        }
    }
}

/// A sink that takes everything.
#[derive(Debug)]
struct Collecting(Arc<Mutex<Vec<String>>>);

#[async_trait]
impl ActivitySink for Collecting {
    fn sink_type(&self) -> &'static str {
        "collecting"
    }

    async fn sink_batch(&self, events: &[ActivityEvent]) -> Vec<SinkAnswer> {
        let ids = events.iter().map(|event| event.event_id.clone());
        self.0.lock().unwrap().extend(ids);
        vec![SinkAnswer::Taken; events.len()]
    }
}

impl Site {
    /// Client ingest is switched on.
    pub(crate) async fn open(fresh: &Fresh) -> Self {
        Self::set(fresh, Setup::with(json!({}))).await
    }

    pub(crate) async fn set(fresh: &Fresh, setup: Setup) -> Self {
        let sunk = Arc::new(Mutex::new(Vec::new()));
        let catalogue = Catalogue::default()
            .event("page.viewed", "v1", ["path", "detail"])
            .unwrap()
            .event("page.viewed", "v2", ["path"])
            .unwrap();
        let activity = crate::activity()
            .catalogue(catalogue)
            .sink(Arc::new(Collecting(Arc::clone(&sunk))));
        let activity = match setup.rate_limiter {
            Some(shared) => activity.rate_limiter(shared),
            None => activity,
        };
        let settings = setup.settings.as_object().cloned().unwrap_or_default();
        let module = activity.module().configure(settings).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = Client(format!("http://{}", listener.local_addr().unwrap()));
        let doors = Doors::locked()
            .members(MemberKeys::from_secret(SECRET).unwrap())
            .metrics(Access::Open);
        let platform = Platform::new(fresh.second().await)
            .module(module)
            .serve_with(listener, setup.serving)
            .doors(doors);
        let process = platform.build().unwrap();
        process.migrate().await.unwrap();
        let mut running = JoinSet::new();
        running.spawn(process.run(CancellationToken::new()));
        Self {
            client,
            sunk,
            _process: running,
        }
    }

    /// Sends events without a token.
    pub(crate) async fn send(&self, events: &[Value]) -> Answer {
        self.client.post(EVENTS, &json!({ "events": events })).await
    }

    /// Sends events with a token.
    pub(crate) async fn send_as(&self, token: &str, events: &[Value]) -> Answer {
        let bearer = format!("Bearer {token}");
        let body = json!({ "events": events }).to_string();
        self.client
            .must("POST", EVENTS, &[("authorization", &bearer)], &body)
            .await
    }
}

/// The token of a member.
pub(crate) fn token_of(member: &str) -> String {
    let keys = MemberKeys::from_secret(SECRET).unwrap();
    keys.mint(member, Duration::from_mins(1)).unwrap()
}

/// An event that is valid, with a new id.
pub(crate) fn event() -> Value {
    let now = postroom::clock::now();
    json!({
        "eventId": Uuid::now_v7(), "eventName": "page.viewed", "eventVersion": "v1", "occurredAt": now.format(&Rfc3339).unwrap(),
        "anonymousId": "a1", "sessionId": "s1", "properties": { "path": "/" },
    })
}

/// The same event with these fields.
pub(crate) fn changed(event: &Value, change: Value) -> Value {
    let mut event = event.clone();
    for (name, value) in change.as_object().unwrap() {
        event[name] = value.clone();
    }
    event
}

/// The result of an event.
pub(crate) fn result<'a>(answer: &'a Answer, event: &Value) -> &'a Value {
    assert_eq!(answer.status, 200, "{answer:?}");
    &answer.body["results"][event["eventId"].as_str().unwrap()]
}

/// The word of an event's result, with its details.
pub(crate) fn word(answer: &Answer, event: &Value) -> String {
    let result = result(answer, event);
    let text = |name: &str| result[name].as_str().unwrap_or_default().to_owned();
    format!("{} {}", text("result"), text("details")).trim().to_owned()
}

/// How many events are stored.
pub(crate) async fn stored(fresh: &Fresh) -> i64 {
    let mut select = Query::select();
    select
        .expr_as(Expr::cust("count(*)"), Alias::new("count"))
        .from("user_activity_event");
    let row = fresh.db().query_one(&select).await.unwrap().unwrap();
    row.try_get("", "count").unwrap()
}

/// One column of a stored event, as text.
pub(crate) async fn column(fresh: &Fresh, event: &Value, name: &'static str) -> Option<String> {
    let mut select = Query::select();
    let id = event["eventId"].as_str().unwrap();
    select
        .expr_as(Expr::cust(format!("cast({name} as char(200))")), Alias::new("found"))
        .from("user_activity_event")
        .and_where(sea_orm::sea_query::ExprTrait::eq(Expr::col("event_id"), id));
    let row = fresh.db().query_one(&select).await.unwrap().unwrap();
    let found: Option<String> = row.try_get("", "found").unwrap();
    found.map(|text| text.trim().to_owned())
}
