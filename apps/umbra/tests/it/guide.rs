//! Runs the walk of the guide exactly as the guide prints it.

use postroom_testkit::{fresh, walk};
use serde_json::{Value, json};

use crate::site::Site;

const GUIDE: &str = "docs/guide/umbra.md";

/// A second run on the same store gives the same output.
#[tokio::test]
async fn the_guides_walk_goes_as_it_says() {
    let site = Site::open(fresh::sqlite().await).await;
    let url = format!("{}/umbra", site.stage.url);
    for _ in 0..2 {
        let said = walk::run(&walk::blocks(GUIDE, "walk"), ("UMBRA", &url)).await.done();
        assert!(said.contains("\nunknown_plan\nalready_subscribed\n"), "{said}");
        let mut last = said
            .lines()
            .rev()
            .map(|line| serde_json::from_str::<Vec<Value>>(line).unwrap());
        let (alerts, audit) = (last.next().unwrap(), last.next().unwrap());
        assert_eq!(audit, [json!("BotInstalled"), json!("BotKicked")]);
        assert!(
            alerts.len() == umbra::alert::RULES.len() + 1 && alerts.iter().all(|rule| rule["is_firing"] == false),
            "{said}"
        );
    }
    site.stage.close().await;
}

#[tokio::test]
async fn the_guides_walk_ends_where_something_fails() {
    let site = Site::open(fresh::sqlite().await).await;
    let (walk, begin) = (walk::blocks(GUIDE, "walk"), "{\\\"discord_user_id\\\"");
    assert!(walk.contains(begin));
    let walk = walk.replace(begin, "{\\\"discord\\\"");
    let walked = walk::run(&walk, ("UMBRA", &format!("{}/umbra", site.stage.url))).await;
    assert_eq!((walked.is_done, walked.said.as_str()), (false, ""));
    assert!(walked.complained.contains("discord_user_id"), "{}", walked.complained);
    site.stage.close().await;
}
