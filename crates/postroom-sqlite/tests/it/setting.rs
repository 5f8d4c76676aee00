use postroom::operate;
use postroom_sqlite::Sqlite;

use crate::Fixture;

#[tokio::test]
async fn a_store_that_may_lose_commits_gets_advice() {
    let fixture = Fixture::new().await;
    let url = format!("sqlite://{}?synchronous=normal", fixture.file().display());
    let store = Sqlite::open(&url).await.unwrap();
    let settings = operate::settings(&store).await;
    let advised: Vec<(&str, &str)> = settings
        .iter()
        .filter(|setting| setting.advice.is_some())
        .map(|setting| (setting.name, setting.value.as_deref().unwrap()))
        .collect();
    assert_eq!(advised, [("synchronous", "normal")]);
    let safe = operate::settings(&fixture.store).await;
    assert!(safe.iter().all(|setting| setting.advice.is_none()), "{safe:?}");
}
