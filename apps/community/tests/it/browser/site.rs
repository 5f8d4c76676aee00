//! A community at one address, which can be killed and started there again, and an instance beside it that goes on.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::net::SocketAddr;
use std::time::Duration;

use axum::http::header;
use community::Demo;
use postroom::{CancellationToken, Result};
use postroom_access::MemberKeys;
use postroom_host::{Access, Doors, Module, Platform, Routes};
use postroom_shared::SharedState;
use postroom_testkit::stage::{Running, Scenery};
use postroom_testkit::{Client, Fresh, fresh};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::world::Member;

/// Short, so that a killed instance is not waited for.
const LEASE: Duration = Duration::from_secs(2);

/// The community.
pub(super) struct Site {
    address: SocketAddr,
    keys: MemberKeys,
    shared: SharedState,
    demo: Demo,
    /// Absent: it was killed.
    process: Option<JoinSet<Result<()>>>,
    beside: Running,
    fresh: Fresh,
}

impl Site {
    pub(super) async fn start() -> Self {
        Self::with(Doors::unlocked()).await
    }

    /// With these doors, which get the keys of members.
    pub(super) async fn with(doors: Doors) -> Self {
        let fresh = fresh::sqlite().await;
        let keys = MemberKeys::from_secret(&[7; 32])
            .unwrap()
            .leeway(Duration::ZERO)
            .unwrap();
        let demo = Demo::new(keys.clone());
        let shared = demo.shared(SharedState::local());
        let scenery = Scenery {
            shared: Some(shared.clone()),
            members: Some(keys.clone()),
            ..Scenery::default()
        };
        let mut site = Self {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            beside: Running::open(&fresh, vec![community::module()], scenery).await,
            keys,
            shared,
            demo,
            process: None,
            fresh,
        };
        site.run(doors).await;
        site
    }

    /// Starts it again, where it was.
    pub(super) async fn restart(&mut self) {
        self.run(Doors::unlocked()).await;
    }

    async fn run(&mut self, doors: Doors) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.address = listener.local_addr().unwrap();
        let page = async || {
            (
                [(header::CONTENT_TYPE, "text/html")],
                "<!doctype html><title>page</title>",
            )
        };
        let pages = Module::new("pages").http(Routes::new(Access::Open).get("/page", page));
        let process = Platform::new(self.fresh.store())
            .lease_ttl(LEASE)
            .shared(self.shared.clone())
            .doors(doors.members(self.keys.clone()))
            .module(self.demo.join(community::module()))
            .module(pages)
            .serve(listener)
            .build()
            .unwrap();
        process.migrate().await.unwrap();
        let mut running = JoinSet::new();
        running.spawn(process.run(CancellationToken::new()));
        self.process = Some(running);
    }

    /// Ends it as if its process was killed. The instance beside it goes on.
    pub(super) fn kill(&mut self) {
        self.process = None;
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn client(&self) -> Client {
        Client(self.url())
    }

    pub(super) fn token(&self, member: i64) -> String {
        self.token_for(member, Duration::from_mins(10))
    }

    pub(super) fn token_for(&self, member: i64, lifetime: Duration) -> String {
        self.keys.mint(&member.to_string(), lifetime).unwrap()
    }

    /// A member who acts at the instance beside.
    pub(super) fn member(&self, id: i64) -> Member {
        Member {
            id,
            client: self.beside.client.clone(),
            token: self.token(id),
        }
    }
}
