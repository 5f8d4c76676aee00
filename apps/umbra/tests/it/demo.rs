//! The demo adds guilds by itself.

use postroom::operate;
use postroom_testkit::fresh;
use postroom_testkit::stage::Stage;
use postroom_testkit::wait::until;

#[tokio::test]
async fn guilds_come_by_themselves() {
    let fresh = fresh::sqlite().await;
    let stage = Stage::open(fresh.store(), vec![umbra::demo()], None).await;
    until("a guild was added", || async {
        let status = operate::status(&*fresh).await.unwrap();
        let job = status.jobs.iter().find(|job| job.name == "umbra-traffic");
        assert_eq!(job.and_then(|job| job.last_error.as_deref()), None);
        let audit = status.routes.iter().find(|route| route.route == "umbra-audit");
        // A user, a guild, a card, a subscription and two licences.
        audit.is_some_and(|audit| audit.delivered >= 6)
    })
    .await;
    stage.close().await;
}
