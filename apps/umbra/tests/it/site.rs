//! Umbra on its own stage, a client, and functions that wait.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use postroom::table::{Table, named};
use postroom::{Broker, Delays, Event, Retry, operate};
use postroom_testkit::stage::Stage;
use postroom_testkit::wait::{until, until_some};
use postroom_testkit::{Client, Fresh};
use sea_orm::sea_query::{Asterisk, Expr, Order, Query};
use sea_orm::{ConnectionTrait, DbBackend, QueryResult};
use serde_json::{Value, json};
use umbra::Umbra;
use umbra::billing::card::Charge;
use umbra::billing::{FakeCards, Pace};
use umbra::notification::FakeDm;

/// All tables of the module, with their sort columns.
pub(crate) const TABLES: [(&str, &str); 13] = [
    ("umbra_guild", "guild_id"),
    ("umbra_user", "user_id"),
    ("umbra_session", "session_id"),
    ("umbra_billing_key", "billing_key_id"),
    ("umbra_subscription", "subscription_id"),
    ("umbra_attempt", "attempt_id"),
    ("umbra_license", "license_id"),
    ("umbra_snapshot", "snapshot_id"),
    ("umbra_restore", "restore_job_id"),
    ("umbra_member", "member_id"),
    ("umbra_address", "address"),
    ("umbra_notice", "event_id"),
    ("umbra_audit", "outbox_event_id"),
];

/// The groups of the module.
pub(crate) const GROUPS: [&str; 5] = [
    "umbra-licensing",
    "umbra-billing",
    "umbra-charges",
    "umbra-notification",
    "umbra-audit",
];

/// A row of the table of attempts.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) attempt_id: String,
    pub(crate) subscription_id: String,
    pub(crate) status: String,
    pub(crate) amount: Option<i64>,
}

/// A running Umbra with its fakes.
pub(crate) struct Site {
    pub(crate) cards: Arc<FakeCards>,
    pub(crate) dm: Arc<FakeDm>,
    pub(crate) stage: Stage,
    // Last field: the database is dropped after the stage has stopped.
    pub(crate) fresh: Fresh,
}

/// Timing for tests: long periods and short retry delays.
pub(crate) fn umbra() -> (Umbra, Arc<FakeCards>, Arc<FakeDm>) {
    let (cards, dm) = (Arc::new(FakeCards::default()), Arc::new(FakeDm::default()));
    let umbra = Umbra {
        cards: Arc::clone(&cards) as _,
        dm: Arc::clone(&dm) as _,
        pace: Pace {
            retry_after: Duration::from_millis(100),
            ask_after: Duration::from_millis(100),
            ..Pace::default()
        },
        retry: Retry {
            delays: Delays::Fixed(Duration::from_millis(20)),
            ..Umbra::default().retry
        },
    };
    (umbra, cards, dm)
}

impl Site {
    pub(crate) async fn open(fresh: Fresh) -> Self {
        Self::with(fresh, |_| ()).await
    }

    /// A site with changed settings.
    pub(crate) async fn with(fresh: Fresh, change: impl FnOnce(&mut Umbra)) -> Self {
        let (mut umbra, cards, dm) = umbra();
        change(&mut umbra);
        let stage = Stage::open(fresh.store(), vec![umbra.module()], None).await;
        Self {
            cards,
            dm,
            stage,
            fresh,
        }
    }

    /// A site whose subscribers are fed by a broker.
    pub(crate) async fn through(fresh: Fresh, broker: Arc<dyn Broker>) -> Self {
        let (umbra, cards, dm) = umbra();
        let stage = Stage::open(fresh.store(), vec![umbra.module()], Some(broker)).await;
        Self {
            cards,
            dm,
            stage,
            fresh,
        }
    }

    /// Sends a request and returns the status and the answer. A rejected request returns a problem.
    pub(crate) async fn request(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let client = Client(self.stage.url.clone());
        let answer = client.must(method, &format!("/umbra{path}"), &[], &body).await;
        let is_problem = answer.kind == "application/problem+json";
        assert_eq!(is_problem, answer.status >= 400, "{method} {path}: {answer:?}");
        (answer.status, answer.body)
    }

    /// A request that must succeed.
    pub(crate) async fn ok(&self, method: &str, path: &str, body: Value) -> Value {
        let (code, answer) = self.request(method, path, &body).await;
        assert!((200..300).contains(&code), "{method} {path}: {code} {answer}");
        answer
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Value {
        self.ok("POST", path, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.ok("GET", path, Value::Null).await
    }

    /// Registers a user with a card. Returns the user id.
    pub(crate) async fn user(&self, discord_user_id: &str, card_token: &str) -> String {
        let user = self.post("/users", json!({ "discord_user_id": discord_user_id })).await;
        let user_id = text(&user, "user_id");
        let card = json!({ "card_token": card_token });
        self.post(&format!("/users/{user_id}/billing-keys"), card).await;
        user_id
    }

    /// Installs the bot in a guild.
    pub(crate) async fn guild(&self, guild_id: &str, installer_user_id: &str) {
        let guild = json!({ "guild_id": guild_id, "installer_user_id": installer_user_id });
        self.post("/guilds", guild).await;
    }

    /// Creates a Pro subscription. Returns its id.
    pub(crate) async fn subscription(&self, guild_id: &str, user_id: &str) -> String {
        let wanted = json!({ "guild_id": guild_id, "user_id": user_id, "plan_code": "pro" });
        text(&self.post("/subscriptions", wanted).await, "subscription_id")
    }

    /// Waits until the resource at `path` matches. Returns it.
    pub(crate) async fn until(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        until_some(&format!("{path} matches"), || async {
            let (_, answer) = self.request("GET", path, &Value::Null).await;
            is_so(&answer).then_some(answer)
        })
        .await
    }

    /// Waits until every group has handled every event.
    pub(crate) async fn quiet(&self) {
        let quiet_at = Cell::new(None);
        until("every group has handled every event", || async {
            let before = self.events().await.len();
            // Check twice without a new event in between: a handler may have emitted events during the first check.
            let is_quiet = self.is_quiet().await;
            let was_quiet_at = quiet_at.replace(is_quiet.then_some(before));
            is_quiet && was_quiet_at == Some(before)
        })
        .await;
    }

    /// Whether no group has an undelivered event.
    async fn is_quiet(&self) -> bool {
        let status = operate::status(&*self.fresh).await.unwrap();
        let mut routes = status.routes.iter();
        let are_quiet = routes.all(|route| route.backlog + route.retrying + route.waiting == 0);
        status.routes.len() == GROUPS.len() && are_quiet
    }

    /// The types of all events in the outbox, in order.
    pub(crate) async fn events(&self) -> Vec<String> {
        let outbox = self.outbox().await;
        outbox.into_iter().map(|event| event.event_type).collect()
    }

    /// All events in the outbox, in order.
    pub(crate) async fn outbox(&self) -> Vec<Event> {
        self.fresh.pulse().await.unwrap();
        let mut position = postroom::Position::START;
        let mut events = Vec::new();
        loop {
            let page = self.fresh.read(position, 1_000).await.unwrap();
            events.extend(page.entries.iter().map(|entry| entry.event.clone()));
            if page.next == position {
                return events;
            }
            position = page.next;
        }
    }

    /// Makes all scheduled events due.
    pub(crate) async fn let_time_pass(&self) {
        // A literal: a server converts it to the time type of the column; SQLite has text in one form.
        let past = match self.fresh.db().get_database_backend() {
            DbBackend::Sqlite => "'2026-01-01T00:00:00.000Z'",
            _ => "'2026-01-01 00:00:00'",
        };
        let mut update = Query::update();
        update
            .table(named(self.fresh.db(), Table::Scheduled))
            .value("due_at", Expr::cust(past));
        self.fresh.db().execute(&update).await.unwrap();
    }

    /// All attempts: id, subscription, status and amount.
    pub(crate) async fn attempts(&self) -> Vec<Attempt> {
        let mut select = Query::select();
        select
            .column(Asterisk)
            .from("umbra_attempt")
            .order_by("attempt_id", Order::Asc);
        let rows = self.fresh.db().query_all(&select).await.unwrap();
        let read = |row: &QueryResult| Attempt {
            attempt_id: row.try_get("", "attempt_id").unwrap(),
            subscription_id: row.try_get("", "subscription_id").unwrap(),
            status: row.try_get("", "status").unwrap(),
            amount: row.try_get("", "amount").unwrap(),
        };
        rows.iter().map(read).collect()
    }

    /// Waits until `count` attempts have this status.
    pub(crate) async fn until_attempts(&self, status: &str, count: usize) {
        until(&format!("{count} attempts are {status}"), || async {
            let attempts = self.attempts().await;
            attempts.iter().filter(|one| one.status == status).count() == count
        })
        .await;
    }

    /// Checks that the charges and refunds of the card API match the tables and the events.
    pub(crate) async fn check_money(&self) {
        let attempts = self.attempts().await;
        let ids = |status: &str| -> BTreeSet<String> {
            let such = attempts.iter().filter(|one| one.status == status);
            such.map(|one| one.attempt_id.clone()).collect()
        };
        let charged = |charges: Vec<Charge>| -> BTreeSet<String> {
            let ids: BTreeSet<String> = charges.iter().map(|charge| charge.attempt_id.clone()).collect();
            assert_eq!(ids.len(), charges.len(), "twice: {charges:#?}");
            ids
        };
        assert_eq!(charged(self.cards.refunds()), ids("refunded"));
        let kept = &charged(self.cards.charges()) - &ids("refunded");
        assert_eq!(kept, ids("paid"));
        let amounts = attempts.iter().filter(|one| one.status == "paid");
        let amount: i64 = amounts.map(|one| one.amount.unwrap()).sum();
        assert_eq!(self.cards.balance(), amount);

        let events = self.outbox().await;
        let named = |name: &str| -> Vec<Value> {
            let such = events.iter().filter(|event| event.event_type == name);
            such.map(|event| event.decode().unwrap()).collect()
        };
        let told =
            |name: &str| -> BTreeSet<String> { named(name).iter().map(|event| text(event, "attempt_id")).collect() };
        assert_eq!(told("PaymentRefunded"), ids("refunded"));
        assert_eq!(named("PaymentRefunded").len(), ids("refunded").len());
        assert!(told("PaymentSucceeded").is_subset(&kept));
        let paid = named("PaymentSucceeded").len() + named("SubscriptionStarted").len();
        assert_eq!(paid, kept.len(), "each payment has one event");
    }

    /// The time until the scheduled event is due, in whole seconds.
    pub(crate) async fn due_in(&self) -> Duration {
        let seconds = match self.fresh.db().get_database_backend() {
            DbBackend::Postgres => "floor(extract(epoch from due_at - clock_timestamp()))::bigint",
            DbBackend::MySql => "timestampdiff(second, utc_timestamp(6), due_at)",
            _ => "cast((julianday(due_at) - julianday('now')) * 86400 as integer)",
        };
        let mut select = Query::select();
        select
            .expr_as(Expr::cust(seconds), "seconds")
            .from(named(self.fresh.db(), Table::Scheduled));
        let row = self.fresh.db().query_one(&select).await.unwrap().unwrap();
        let seconds: i64 = row.try_get("", "seconds").unwrap();
        Duration::from_secs(u64::try_from(seconds).unwrap())
    }

    /// The texts of the messages to users, oldest first.
    pub(crate) fn told(&self) -> Vec<String> {
        self.dm.messages().into_iter().map(|message| message.content).collect()
    }

    /// The event types of an aggregate, from the audit.
    pub(crate) async fn audit(&self, aggregate: &str) -> Vec<String> {
        let records = self.get(&format!("/audit/{aggregate}")).await;
        let records = records.as_array().unwrap();
        records.iter().map(|record| text(record, "event_type")).collect()
    }

    /// All rows of all tables of the module.
    pub(crate) async fn rows(&self) -> Vec<String> {
        let mut all = Vec::new();
        for (table, key) in TABLES {
            let mut select = Query::select();
            select.column(Asterisk).from(table).order_by(key, Order::Asc);
            let rows = self.fresh.db().query_all(&select).await.unwrap();
            all.extend(rows.iter().map(|row| format!("{table} {}", show(row))));
        }
        all
    }
}

/// A row as text, for any column types.
fn show(row: &QueryResult) -> String {
    let cell = |column: &String| {
        let text = row
            .try_get::<Option<String>>("", column)
            .map(|text| format!("{text:?}"));
        let text = text.or_else(|_| {
            row.try_get::<Option<i64>>("", column)
                .map(|number| format!("{number:?}"))
        });
        let text = text.or_else(|_| {
            row.try_get::<Option<bool>>("", column)
                .map(|claim| format!("{claim:?}"))
        });
        format!("{column}={}", text.unwrap())
    };
    let cells: Vec<String> = row.column_names().iter().map(cell).collect();
    cells.join(" ")
}

/// The text in a field.
pub(crate) fn text(value: &Value, field: &str) -> String {
    value[field]
        .as_str()
        .unwrap_or_else(|| panic!("{field} is missing in {value}"))
        .to_owned()
}
