//! A process with every way in, and a PostHog that refuses some events.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use postroom::operate::token::{NewToken, Role, Scope};
use postroom::operate::{self, token};
use postroom::{CancellationToken, DomainEvent, Event, Result, dead, emit, parse_payload, table};
use postroom_access::MemberKeys;
use postroom_activity::{ActivityEvent, ActivityMapper, ActivityRecorded, Catalogue, Recorder};
use postroom_host::{Access, Doors, Module, Platform};
use postroom_redis::{Options, Redis};
use postroom_testkit::fake_posthog::{FakePosthog, PROJECT_API_KEY};
use postroom_testkit::redis_server::RedisServer;
use postroom_testkit::wait::until;
use postroom_testkit::{Client, Fresh};
use schemars::JsonSchema;
use sea_orm::{ConnectionTrait as _, Statement};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::corpus::{self, Case, SECRETS};
use super::{activity, dump, log, trace};
use crate::ingest_site::EVENTS;

const STREAM: &str = postroom_activity::TOPIC;
/// Events with this name are refused by PostHog.
const POISON: &str = "poisoned";

/// A domain event that carries an id only.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct CaseSeen {
    case: usize,
}

impl DomainEvent for CaseSeen {
    const TYPE: &'static str = "shop.case.seen.v1";
    const AGGREGATE_TYPE: &'static str = "case";

    fn aggregate_id(&self) -> String {
        self.case.to_string()
    }
}

/// Adds the document of the case, as a careless mapper would.
#[derive(Debug)]
struct CaseMapper;

impl ActivityMapper for CaseMapper {
    fn event_type(&self) -> &'static str {
        CaseSeen::TYPE
    }

    fn map(&self, event: &Event) -> Result<Option<ActivityEvent>> {
        let seen: CaseSeen = event.decode()?;
        Ok(corpus::hidden()
            .get(seen.case)
            .map(|case| poisoned(activity("mapped", case))))
    }
}

/// Some events are ones that PostHog refuses.
fn poisoned(event: ActivityEvent) -> ActivityEvent {
    match event.event_id.ends_with('5') {
        true => ActivityEvent {
            event_name: POISON.to_owned(),
            ..event
        },
        false => event,
    }
}

pub(crate) struct Scene<'a> {
    fresh: &'a Fresh,
    client: Client,
    posthog: FakePosthog,
    recorder: Recorder,
    token: String,
    strangers: std::sync::Mutex<usize>,
    clients: std::sync::Mutex<usize>,
    _process: JoinSet<Result<()>>,
}

#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) stored: i64,
    pub(crate) dead: i64,
}

impl<'a> Scene<'a> {
    pub(crate) async fn open(fresh: &'a Fresh, redis: Option<&RedisServer>) -> Self {
        log::begin();
        let (posthog, recorder) = (FakePosthog::open().await, Recorder::default());
        posthog.rule(|rules| {
            rules.poison.insert(POISON.to_owned());
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = Client(format!("http://{}", listener.local_addr().unwrap()));
        let doors = Doors::locked()
            .members(MemberKeys::from_secret(b"thirty-two bytes that nobody knows").unwrap())
            .metrics(Access::Open);
        let platform = Platform::new(fresh.second().await)
            .modules([module(&posthog, &recorder), Module::new("shop").event::<CaseSeen>()])
            .serve(listener)
            .doors(doors);
        let platform = match redis {
            Some(server) => platform.feed(postroom_activity::NAME, broker(server)),
            None => platform,
        };
        let process = platform.build().unwrap();
        process.migrate().await.unwrap();
        let mut running = JoinSet::new();
        running.spawn(process.run(CancellationToken::new()));
        Self {
            fresh,
            client,
            posthog,
            recorder,
            token: service_token(fresh).await,
            strangers: std::sync::Mutex::default(),
            clients: std::sync::Mutex::default(),
            _process: running,
        }
    }

    /// A domain event, the recorder, a client, and `POST /api/v1/events` with activity events and with what is none.
    pub(crate) async fn send_every_way(&self) {
        let tx = table::begin(self.fresh.db()).await.unwrap();
        for case in corpus::hidden() {
            emit(&tx, &CaseSeen { case: case.number }).await.unwrap();
            self.recorder.record(poisoned(activity("recorded", case)));
        }
        tx.commit().await.unwrap();
        for cases in corpus::hidden().chunks(100) {
            self.send_as_client(cases).await;
            self.post(cases).await;
        }
    }

    async fn send_as_client(&self, cases: &[Case]) {
        let events = cases
            .iter()
            .map(|case| serde_json::to_value(activity("client", case)).unwrap());
        let body = json!({ "events": events.collect::<Vec<_>>() }).to_string();
        let headers = [("user-agent", "kim@example.com"), ("x-forwarded-for", "192.0.2.77")];
        let answer = self.client.must("POST", EVENTS, &headers, &body).await.ok();
        let results = answer["results"].as_object().unwrap().values();
        let results: Vec<&Value> = results
            .chain(answer["rejected"].as_array().into_iter().flatten())
            .collect();
        let of = |word: &str| results.iter().filter(|result| result["result"] == word).count();
        assert_eq!(of("ok") + of("drop"), cases.len(), "{answer}");
        assert!(
            of("drop") <= 6,
            "only what is nested too deep or has a NUL is dropped: {answer}"
        );
        *self.clients.lock().unwrap() += of("ok");
    }

    async fn post(&self, cases: &[Case]) {
        let bearer = format!("Bearer {}", self.token);
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/cloudevents-batch+json"),
        ];
        let activities = cases.iter().map(|case| {
            let activity = poisoned(activity("posted", case));
            cloud_event(&format!("post-{}", case.number), case, json!(activity))
        });
        // Each of them fails its whole batch, so some are enough.
        let others = cases
            .iter()
            .step_by(5)
            .map(|case| cloud_event(&format!("other-{}", case.number), case, case.document.clone()));
        let batch = json!(activities.chain(others).collect::<Vec<_>>()).to_string();
        self.client.must("POST", "/api/v1/events", &headers, &batch).await.ok();
    }

    /// Entries of programs that know nothing of Postroom: CloudEvents, and entries that are no events.
    pub(crate) async fn send_by_strangers(&self, server: &RedisServer) {
        let client = redis::Client::open(server.url()).unwrap();
        let patient = redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(30)));
        let client = client.get_multiplexed_async_connection_with_config(&patient).await;
        let mut client = client.unwrap();
        let mut ids: Vec<String> = Vec::new();
        for case in corpus::hidden() {
            let text = case.document.to_string();
            let activity = poisoned(activity("stranger", case));
            let event = cloud_event(&format!("stranger-{}", case.number), case, json!(activity)).to_string();
            let broken = format!("{text} ");
            let mut fields: Vec<String> = Vec::new();
            // A number with a point is no number of a phone as a text.
            let named = case.document.as_object().into_iter().flatten();
            for (name, value) in named.filter(|(_, value)| !value.is_f64()) {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                fields.extend([name.replace('\0', ""), value.replace('\0', "")]);
            }
            let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
            let unreadable: &[&str] = match case.number % 2 {
                0 if !fields.is_empty() => &fields,
                _ => &["content-type", "text/plain", "data", &broken],
            };
            for entry in [
                &["content-type", "application/cloudevents+json", "data", &event],
                unreadable,
            ] {
                let mut add = redis::cmd("XADD");
                add.arg(STREAM).arg("*").arg(entry);
                ids.push(add.query_async(&mut client).await.unwrap());
            }
            *self.strangers.lock().unwrap() += 1;
        }
        self.settle().await;
        // The stranger's own words are not ours to remove; only what we have made of them counts.
        let removed: usize = redis::cmd("XDEL")
            .arg(STREAM)
            .arg(&ids)
            .query_async(&mut client)
            .await
            .unwrap();
        assert!(removed > 0);
    }

    /// Waits until everything is stored and sent, or a dead letter.
    pub(crate) async fn settle(&self) {
        until("everything is stored", || async {
            self.counts().await.stored >= self.stored_max()
        })
        .await;
        until("nothing is under way", || async {
            self.fresh.catch_up().await;
            let status = operate::status(&**self.fresh).await.unwrap();
            status
                .routes
                .iter()
                .all(|route| route.backlog + route.retrying + route.waiting == 0)
        })
        .await;
    }

    /// The rows that there will be: one per case and way, and those of clients.
    pub(crate) fn stored_max(&self) -> i64 {
        let all = 3 * corpus::hidden().len() + *self.clients.lock().unwrap() + *self.strangers.lock().unwrap();
        i64::try_from(all).unwrap()
    }

    pub(crate) async fn counts(&self) -> Counts {
        let db = self.fresh.db();
        let select = Statement::from_string(db.get_database_backend(), "select count(*) from user_activity_event");
        let row = db.query_one_raw(select).await.unwrap().unwrap();
        let letters = dead::list(db, &dead::Selection::default(), None, 10_000).await.unwrap();
        Counts {
            stored: row.try_get_by_index(0).unwrap(),
            dead: i64::try_from(letters.len()).unwrap(),
        }
    }

    /// Looks for every secret in everything.
    pub(crate) async fn must_be_clean(&self, redis: &[Value]) {
        let mut found = Vec::new();
        let mut tables: std::collections::BTreeMap<String, Vec<Value>> = std::collections::BTreeMap::new();
        for (table, row) in dump::tables(self.fresh).await {
            tables.entry(table).or_default().push(row);
        }
        let with_rows: Vec<&String> = tables.keys().collect();
        assert!(with_rows.len() >= 5, "{with_rows:?}");
        for (table, rows) in &tables {
            found.extend(secrets_in(table, rows));
        }
        let requests: Vec<Value> = self.posthog.requests().iter().map(|request| request.json()).collect();
        assert!(!requests.is_empty());
        found.extend(secrets_in("requests to PostHog", &requests));
        found.extend(secrets_in("Redis", redis));
        let metrics = self.client.get("/metrics").await.body.as_str().unwrap().to_owned();
        for kind in [
            "email",
            "phone",
            "token",
            "review_body",
            "keyword",
            "resident_number",
            "card",
        ] {
            assert!(
                metrics.contains(&format!("activity_pii_removed_total{{kind=\"{kind}\"}}")),
                "{metrics}"
            );
        }
        let lines = log::lines();
        assert!(lines.len() > 100, "{}", lines.len());
        let texts = |lines: Vec<String>| lines.into_iter().map(Value::String).collect::<Vec<_>>();
        found.extend(secrets_in("metrics", &texts(vec![metrics])));
        found.extend(plain_secrets_in("log lines", &lines));
        assert!(found.is_empty(), "{} found:\n{}", found.len(), found.join("\n"));
    }
}

/// Which secrets are somewhere in these documents, in any form.
fn secrets_in(place: &str, documents: &[Value]) -> Vec<String> {
    let mut leaves = BTreeSet::new();
    documents.iter().for_each(|document| collect(document, &mut leaves));
    let forms: Vec<String> = leaves
        .into_iter()
        .flat_map(|leaf| trace::forms(&Value::String(leaf)))
        .collect();
    plain_secrets_in(place, &forms)
}

/// The same in lines, as they are.
fn plain_secrets_in(place: &str, lines: &[String]) -> Vec<String> {
    let text = trace::plain(&lines.join(" "));
    let shown = |secret: &String| {
        let (before, after) = text.split_once(secret.as_str())?;
        let before: String = before.chars().rev().take(80).collect();
        let (before, after): (String, String) = (before.chars().rev().collect(), after.chars().take(80).collect());
        Some(format!("{place}: {secret:?} in …{before}{secret}{after}…"))
    };
    SECRETS.iter().filter_map(shown).collect()
}

fn collect(value: &Value, leaves: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            leaves.insert(text.clone());
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, leaves)),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            leaves.insert(name.clone());
            collect(value, leaves);
        }),
        other => {
            leaves.insert(other.to_string());
        }
    }
}

fn module(posthog: &FakePosthog, recorder: &Recorder) -> Module {
    let section = json!({
        "client_ingest_enabled": true,
        "mode": "INTERNAL_PLUS_POSTHOG",
        "posthog": {
            "enabled": true, "host": posthog.url, "project_api_key": PROJECT_API_KEY, "timeout_ms": 60_000,
            "circuit_open_seconds": 1,
        },
    });
    let catalogue = Catalogue::default().event("page.viewed", "v1", ["document"]).unwrap();
    let module = crate::activity()
        .mapper(CaseMapper)
        .catalogue(catalogue)
        .recorder(recorder.clone())
        .module();
    module.configure(section.as_object().unwrap().clone()).unwrap()
}

fn broker(server: &RedisServer) -> Arc<dyn postroom::Broker> {
    let named = Options {
        stream: "{topic}".to_owned(),
        partitions: 1,
        ..Options::default()
    };
    Arc::new(Redis::open(&server.url(), named).unwrap())
}

async fn service_token(fresh: &Fresh) -> String {
    let new = NewToken {
        name: "app".to_owned(),
        role: Role::Service,
        scope: Scope {
            modules: [postroom_activity::NAME.to_owned()].into(),
            emit: ["**".to_owned()].into(),
        },
        expires_at: None,
    };
    token::create(fresh.db(), &new, "test").await.unwrap().to_string()
}

/// An activity event as a CloudEvent, with the text of the case in its id, its subject and an attribute.
fn cloud_event(id: &str, case: &Case, data: Value) -> Value {
    let text = case.text.as_deref().unwrap_or("harmless");
    let data = parse_payload(&data.to_string().replace("\\u0000", "")).unwrap();
    json!({
        "specversion": "1.0", "id": format!("{text} of {id}"), "source": "/app", "type": ActivityRecorded::TYPE,
        "subject": text, "note": text, "data": data,
    })
}
