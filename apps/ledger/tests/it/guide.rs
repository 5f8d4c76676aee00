//! The guide's walk-through, run as it stands.

#![expect(clippy::unwrap_used, reason = "a test harness: what is missing has failed")]

use std::path::Path;
use std::process::Stdio;

use postroom_testkit::fresh;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::books;
use crate::world::World;

const GUIDE: &str = "../../docs/guide/ledger.md";

/// The blocks of the guide with this title, and what it says they print.
fn blocks(title: &str) -> Vec<(String, String)> {
    let guide = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(GUIDE)).unwrap();
    let fence = format!("```sh title={title}\n");
    let mut blocks = Vec::new();
    for part in guide.split(&fence).skip(1) {
        let (script, rest) = part.split_once("```\n").unwrap();
        let printed = rest
            .trim_start()
            .strip_prefix("```text\n")
            .and_then(|rest| rest.split_once("```"));
        blocks.push((script.to_owned(), printed.map_or("", |(printed, _)| printed).to_owned()));
    }
    blocks
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_walk_through_says_what_the_guide_says() {
    let world = World::on(fresh::sqlite().await).await;
    let blocks = blocks("walk-through");
    assert!(blocks.len() > 4, "the guide has {} blocks", blocks.len());
    let script: String = blocks.iter().map(|(script, _)| script.as_str()).collect();
    let mut bash = Command::new("bash")
        .args(["-eu", "-o", "pipefail"])
        .env("LEDGER", format!("{}/ledger", world.client.0.0))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut input = bash.stdin.take().unwrap();
    input.write_all(script.as_bytes()).await.unwrap();
    drop(input);
    let output = bash.wait_with_output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let expected: String = blocks.iter().map(|(_, printed)| printed.as_str()).collect();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    books::settle(&world.fresh).await;
    world.close().await;
}
