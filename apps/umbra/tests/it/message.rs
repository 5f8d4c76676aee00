//! Discord answers slowly.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use async_trait::async_trait;
use postroom_testkit::Fresh;
use postroom_testkit::wait::until;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use umbra::notification::dm::{Dm, Message, Sent};

use crate::site::Site;

on_each_database! {
    slow: a_slow_discord_holds_up_nobody_sqlite, a_slow_discord_holds_up_nobody_postgres,
        a_slow_discord_holds_up_nobody_mariadb;
}

/// Sends no message until the gate is opened.
#[derive(Debug)]
struct Slow {
    dm: Arc<dyn Dm>,
    is_asked: AtomicBool,
    gate: Semaphore,
}

#[async_trait]
impl Dm for Slow {
    async fn send(&self, message: &Message) -> Sent {
        self.is_asked.store(true, SeqCst);
        self.gate.acquire().await.unwrap().forget();
        self.dm.send(message).await
    }
}

/// While Discord answers slowly, no transaction is open, and other events are handled.
async fn slow(fresh: Fresh) {
    let mut made = None;
    let site = Site::with(fresh, |umbra| {
        let slow = Arc::new(Slow {
            dm: Arc::clone(&umbra.dm),
            is_asked: AtomicBool::default(),
            gate: Semaphore::new(0),
        });
        umbra.dm = Arc::clone(&slow) as _;
        made = Some(slow);
    })
    .await;
    let slow = made.unwrap();
    let ada = site.user("1001", "visa").await;
    site.guild("g1", &ada).await;
    site.subscription("g1", &ada).await;
    until("a message is sent", async || slow.is_asked.load(SeqCst)).await;
    let guild = json!({ "guild_id": "g2", "installer_user_id": ada });
    let installed = timeout(Duration::from_secs(10), site.post("/guilds", guild)).await;
    assert_eq!(installed.unwrap()["status"], "installed");
    let nothing_open = async || site.fresh.open_transactions().await.unwrap().is_empty();
    until("no transaction stays open", nothing_open).await;
    assert!(site.told().is_empty());

    slow.gate.add_permits(1);
    site.quiet().await;
    assert_eq!(site.told(), ["Pro activated"]);
    site.stage.close().await;
}
