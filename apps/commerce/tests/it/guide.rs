//! The guide's walk, run as it stands.

use std::path::Path;
use std::process::Command;

use postroom_testkit::fresh;

use crate::shop::Shop;

/// The text of the guide's block with this title.
fn block(title: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/commerce.md");
    let guide = std::fs::read_to_string(path).unwrap();
    let ending = format!(" title={title}");
    let mut lines = guide
        .lines()
        .skip_while(|line| !(line.starts_with("```") && line.ends_with(&ending)));
    assert!(lines.next().is_some(), "the guide has no block {title}");
    lines
        .take_while(|line| *line != "```")
        .map(|line| format!("{line}\n"))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_walk_says_what_the_guide_says() {
    let shop = Shop::open(fresh::sqlite().await, None).await;
    let mut walk = Command::new("timeout");
    walk.args(["60", "bash", "-euo", "pipefail", "-c", &block("walk")])
        .env("SHOP", &shop.client.0);
    let said = tokio::task::spawn_blocking(move || walk.output())
        .await
        .unwrap()
        .unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    assert_eq!(String::from_utf8(said.stdout).unwrap(), block("walk-says"));
}
