//! The tables of the community.

use postroom_testkit::{fresh, half_way};

#[tokio::test]
async fn a_migration_that_broke_off_is_run_again_mariadb() {
    half_way::goes_on(
        &fresh::mysql().await,
        community::NAME,
        &community::module().migrations(sea_orm::DbBackend::MySql),
    )
    .await;
}
