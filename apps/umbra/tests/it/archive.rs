//! Published events go into the archive, and there they stay as they were.

use std::time::Duration;

use postroom::replay::{self, Range, Replay};
use postroom::table::{Table, named};
use postroom::{ErrorKind, Prune};
use postroom_testkit::Fresh;
use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Asterisk, Expr, Query};
use tokio::time::{Instant, sleep};

use crate::site::{PATIENCE, Site};

on_each_database! {
    archived: u_07_archived_events_are_read_only_sqlite, u_07_archived_events_are_read_only_postgres,
        u_07_archived_events_are_read_only_mariadb;
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
    let deadline = Instant::now() + PATIENCE;
    while count(&site).await < emitted {
        site.fresh.prune(&prune(Duration::ZERO)).await.unwrap();
        site.fresh.pulse().await.unwrap();
        assert!(
            Instant::now() < deadline,
            "{} of {emitted} are archived",
            count(&site).await
        );
        sleep(Duration::from_millis(50)).await;
    }
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

/// How many events are archived.
async fn count(site: &Site) -> usize {
    let mut select = Query::select();
    select.column(Asterisk).from(named(site.fresh.db(), Table::Audit));
    site.fresh.db().query_all(&select).await.unwrap().len()
}
