//! Published events move to the archive, which is read-only.

use std::mem;
use std::time::Duration;

use postroom::replay::{self, Range, Replay};
use postroom::table::{Table, named};
use postroom::{ErrorKind, Job, Prune, clock};
use postroom_testkit::Fresh;
use postroom_testkit::stage::Stage;
use postroom_testkit::wait::until;
use sea_orm::sea_query::{Asterisk, Expr, Query};
use sea_orm::{ConnectionTrait, DbBackend, Statement};
use serde_json::json;
use tokio::time::sleep;

use crate::site::{Site, umbra};

on_each_database! {
    archived: u_07_archived_events_are_read_only_sqlite, u_07_archived_events_are_read_only_postgres,
        u_07_archived_events_are_read_only_mariadb;
    daily: u_07_events_are_archived_once_a_day_sqlite, u_07_events_are_archived_once_a_day_postgres,
        u_07_events_are_archived_once_a_day_mariadb;
}

const DAYS_30: Duration = Duration::from_secs(30 * 86_400);

async fn archived(fresh: Fresh) {
    let site = Site::open(fresh).await;
    let ada = site.user("1001", "visa").await;
    site.guild("g1", &ada).await;
    site.subscription("g1", &ada).await;
    site.quiet().await;
    let emitted = site.events().await.len();

    let prune = |keep| Prune {
        keep,
        batch: 1_000,
        archive: true,
    };
    assert_eq!(
        site.fresh.prune(&prune(DAYS_30)).await.unwrap(),
        0,
        "nothing is 30 days old"
    );
    let all_archived = async || {
        site.fresh.prune(&prune(Duration::ZERO)).await.unwrap();
        site.fresh.pulse().await.unwrap();
        count(&site).await >= emitted
    };
    until("everything is archived", all_archived).await;
    assert!(site.events().await.is_empty());
    let before = site.rows().await;

    let mut update = Query::update();
    update
        .table(named(site.fresh.db(), Table::Audit))
        .value("event_type", Expr::val("Forged"));
    let refused = site.fresh.db().execute(&update).await.unwrap_err().to_string();
    assert!(refused.contains("audit_events"), "its trigger says so: {refused}");

    let again = Replay {
        route: "umbra-notification".to_owned(),
        range: Range::default(),
        per_second: 100,
        again: true,
    };
    let refused = replay::start(&*site.fresh, &again, "test").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    assert!(refused.report().contains("archived"), "{}", refused.report());
    assert_eq!(site.rows().await, before);
    assert_eq!(count(&site).await, emitted);
    site.stage.close().await;
}

/// The daily run archives the events that are old enough. Later events wait for the next day.
async fn daily(fresh: Fresh) {
    let mut site = Site::open(fresh).await;
    let ada = site.user("1001", "visa").await;
    site.guild("g1", &ada).await;
    site.subscription("g1", &ada).await;
    site.quiet().await;
    let old = site.events().await.len();

    let hour = clock::now() + Duration::from_secs(5);
    let job = Job::daily_retention(Duration::ZERO, true, hour.time());
    let stage = Stage::open(site.fresh.store(), vec![umbra().0.module().job(job)], None).await;
    mem::replace(&mut site.stage, stage).close().await;
    loop {
        let early = count(&site).await;
        if clock::now() >= hour {
            break;
        }
        assert_eq!(early, 0, "it is not time");
        sleep(Duration::from_millis(100)).await;
    }
    let is_done = async || count(&site).await == old && waits_for_tomorrow(&site).await;
    until("old events are archived, and the next run is tomorrow", is_done).await;
    site.post("/guilds/g1/kick", json!(null)).await;
    site.quiet().await;
    assert_eq!(count(&site).await, old, "later events wait for tomorrow");
    assert!(site.events().await.contains(&"BotKicked".to_owned()));
    site.stage.close().await;
}

/// Whether the next run of the archive is at least 20 hours away.
async fn waits_for_tomorrow(site: &Site) -> bool {
    let (table, in_hours) = match site.fresh.db().get_database_backend() {
        DbBackend::Postgres => ("postroom.outbox_job", "clock_timestamp() + interval '20 hours'"),
        DbBackend::MySql => ("postroom_outbox_job", "utc_timestamp(6) + interval 20 hour"),
        _ => (
            "postroom_outbox_job",
            "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+20 hours')",
        ),
    };
    let sql = format!("select name from {table} where name = 'retention' and next_at > {in_hours}");
    let statement = Statement::from_string(site.fresh.db().get_database_backend(), sql);
    site.fresh.db().query_one_raw(statement).await.unwrap().is_some()
}

/// The number of archived events.
async fn count(site: &Site) -> usize {
    let mut select = Query::select();
    select.column(Asterisk).from(named(site.fresh.db(), Table::Audit));
    site.fresh.db().query_all(&select).await.unwrap().len()
}
