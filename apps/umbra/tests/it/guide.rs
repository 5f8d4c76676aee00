//! The guide's walk, run as it stands.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use postroom_testkit::fresh;
use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

use crate::site::{PATIENCE, Site};

const GUIDE: &str = "../../docs/guide/umbra.md";

/// The text of the guide's walk.
fn walk() -> String {
    let guide = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(GUIDE)).unwrap();
    let (_, block) = guide.split_once("```sh title=walk\n").unwrap();
    block.split_once("```").unwrap().0.to_owned()
}

#[tokio::test]
async fn the_guides_walk_goes_as_it_says() {
    let site = Site::open(fresh::sqlite().await).await;
    let shell = Command::new("sh")
        .args(["-e", "-c", &walk()])
        .env("UMBRA", format!("{}/umbra", site.stage.url))
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = timeout(2 * PATIENCE, shell).await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        said.contains("unknown_plan") && said.contains("already_subscribed"),
        "{said}"
    );
    assert_eq!(said.matches("BotKicked").count(), 1, "{said}");
    let alerts: Vec<Value> = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert!(
        alerts.len() == umbra::alert::RULES.len() + 1 && alerts.iter().all(|rule| rule["is_firing"] == false),
        "{said}"
    );
    site.stage.close().await;
}
