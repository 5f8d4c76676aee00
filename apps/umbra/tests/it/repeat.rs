//! A redelivered event changes nothing.

use std::mem;
use std::time::Duration;

use postroom::dead::{self, Selection};
use postroom::replay::{self, Range, Replay};
use postroom::table::{Table, named};
use postroom::{BoxError, BoxHandler, BoxTask, Database, Event, ExternalTask, Handler, Handling, Result, Tx};
use postroom_testkit::Fresh;
use postroom_testkit::stage::Stage;
use postroom_testkit::wait::until;
use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Expr, ExprTrait, Query};

use crate::catalogue::everything;
use crate::site::{GROUPS, Site, umbra};

on_each_database! {
    replayed: u_05_a_replay_changes_nothing_sqlite, u_05_a_replay_changes_nothing_postgres,
        u_05_a_replay_changes_nothing_mariadb;
    twice: u_05_every_event_handled_twice_sqlite, u_05_every_event_handled_twice_postgres,
        u_05_every_event_handled_twice_mariadb;
}

/// Replays all events to all groups, although their state has moved on. Then replays some types alone, so that no later event
/// can correct the effect of an old one.
async fn replayed(fresh: Fresh) {
    let site = Site::with(fresh, |umbra| umbra.pace.period = Duration::from_secs(1)).await;
    everything(&site).await;
    replaying_changes_nothing(&site, &[]).await;
    replaying_changes_nothing(&site, &["BotInstalled", "SubscriptionStarted", "PlanUpgraded"]).await;
    site.stage.close().await;
}

/// Replays events of these types (empty: all types) to all groups as if they were new, and compares all rows before and
/// after.
pub(crate) async fn replaying_changes_nothing(site: &Site, types: &[&str]) {
    site.quiet().await;
    let before = (
        site.rows().await,
        site.events().await,
        site.told(),
        site.cards.charges(),
    );
    for group in GROUPS {
        let replay = Replay {
            route: group.to_owned(),
            range: Range {
                types: types.iter().map(|one| (*one).to_owned()).collect(),
                ..Range::default()
            },
            per_second: 10_000,
            again: true,
        };
        replay::start(&*site.fresh, &replay, "test").await.unwrap();
    }
    until("the replay ends", async || !is_replaying(site).await).await;
    site.quiet().await;
    assert_eq!(before.0, site.rows().await);
    assert_eq!(before.1, site.events().await);
    assert_eq!(before.2, site.told());
    assert_eq!(before.3, site.cards.charges());
    assert!(
        dead::list(site.fresh.db(), &Selection::default(), None, 1)
            .await
            .unwrap()
            .is_empty()
    );
}

async fn is_replaying(site: &Site) -> bool {
    let mut select = Query::select();
    select
        .column("state")
        .from(named(site.fresh.db(), Table::Replay))
        .and_where(Expr::col("state").eq("running"));
    site.fresh.db().query_one(&select).await.unwrap().is_some()
}

/// Calls a handler twice for each event.
struct Twice(BoxHandler);

impl Handler for Twice {
    async fn handle(&self, tx: &mut Tx, event: &Event) -> Result<(), BoxError> {
        self.0.handle(tx, event).await?;
        self.0.handle(tx, event).await
    }
}

/// Runs an external task twice for each event.
struct Again(BoxTask);

impl ExternalTask for Again {
    async fn run(&self, db: &Database, event: &Event) -> Result<(), BoxError> {
        self.0.run(db, event).await?;
        self.0.run(db, event).await
    }
}

/// Each event is handled twice in a row, with the same result as once.
async fn twice(fresh: Fresh) {
    let (mut settings, cards, dm) = umbra();
    settings.pace.period = Duration::from_secs(1);
    let mut module = settings.module();
    for subscriber in &mut module.subscribers {
        let once = mem::replace(&mut subscriber.handling, Handling::Each(BoxHandler::new(nothing)));
        subscriber.handling = match once {
            Handling::Each(handler) => Handling::Each(BoxHandler::new(Twice(handler))),
            Handling::External(task) => Handling::External(BoxTask::new(Again(task))),
            Handling::Batch(_) => panic!("no subscriber uses batches"),
        };
    }
    let stage = Stage::open(fresh.store(), vec![module], None).await;
    let site = Site {
        cards,
        dm,
        stage,
        fresh,
    };
    everything(&site).await;
    let told = site.told();
    let once = |notice: &str| {
        assert_eq!(
            told.iter().filter(|one| *one == notice).count(),
            1,
            "{notice}: {told:#?}"
        );
    };
    once("Payment failed (3 of 3), we will try again in 24 hours");
    once("Subscription canceled: payment failed four times");
    once("Downgraded to Free");
    once("Your licence is suspended: the bot was removed from your server");
    let events = site.events().await;
    let count = |event: &str| events.iter().filter(|one| *one == event).count();
    for (event, expected) in [
        ("PaymentFailed", 3),
        ("LicenseDowngraded", 2),
        ("LicenseSuspended", 2),
        ("SubscriptionSuspended", 2),
        ("LicenseCanceled", 1),
        ("LicenseGranted", 10),
    ] {
        assert_eq!(count(event), expected, "{event}");
    }
    assert_eq!(count("PaymentSucceeded"), count("LicenseExtended"));
    site.check_money().await;
    site.stage.close().await;
}

async fn nothing(_: &mut Tx, _: &Event) -> Result<()> {
    Ok(())
}
