//! `postroom bench access`: what the check of a token costs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use postroom::operate::token::{self, NewToken, Role, Scope};
use postroom::table::{self, Table};
use postroom_host::{Access, Doors, Module, Platform, Routes};
use sea_orm::ConnectionTrait as _;
use sea_orm::sea_query::{Expr, ExprTrait as _, Query};
use serde::Serialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::figure::{Figure, Outcome};
use crate::site::Site;

const MODULE: &str = "bench";
const TOKEN: &str = "postroom-bench";
/// Both servers take turns this often, so that other load on the machine meets both.
const ROUNDS: u32 = 10;

/// Measures the requests per second of a route that does nothing, with and without the check of a token.
#[derive(Debug)]
pub struct AccessBench {
    /// Clients side by side, each with a connection of its own.
    pub clients: u16,
    /// Duration of all rounds together.
    pub seconds: u32,
}

/// The measured values.
#[derive(Debug, Serialize)]
pub(super) struct AccessResult {
    unchecked_per_s: f64,
    checked_per_s: f64,
    /// The part of the requests per second that the check costs.
    cost: f64,
}

impl AccessBench {
    pub(super) async fn run(&self, site: &Site) -> Result<AccessResult> {
        let new = NewToken {
            name: TOKEN.to_owned(),
            role: Role::Service,
            scope: Scope {
                modules: [MODULE.to_owned()].into(),
                ..Scope::default()
            },
            expires_at: None,
        };
        let token = token::create(site.store.db(), &new, "bench").await?;
        let measured = self.measure(site, &token.to_string()).await;
        remove_token(site).await?;
        measured
    }

    async fn measure(&self, site: &Site, token: &str) -> Result<AccessResult> {
        let mut servers = JoinSet::new();
        let unlocked = serve(site, Doors::unlocked(), &mut servers).await?;
        let locked = serve(site, Doors::locked(), &mut servers).await?;
        let round = Duration::from_secs(self.seconds.into()) / (2 * ROUNDS);
        let (mut unchecked, mut checked) = (0.0, 0.0);
        for number in 0..ROUNDS {
            site.progress(&format!("round {number} of {ROUNDS}"));
            // A header that is as long and that no part of the server reads: only the check differs.
            unchecked += self
                .rate(unlocked, &format!("x-bench-header: Bearer {token}\r\n"), round)
                .await?;
            checked += self
                .rate(locked, &format!("authorization: Bearer {token}\r\n"), round)
                .await?;
        }
        Ok(AccessResult {
            unchecked_per_s: unchecked / f64::from(ROUNDS),
            checked_per_s: checked / f64::from(ROUNDS),
            cost: 1.0 - checked / unchecked,
        })
    }

    /// Requests per second of all clients together.
    async fn rate(&self, server: SocketAddr, headers: &str, round: Duration) -> Result<f64> {
        let request: Arc<str> = format!("GET /bench/nothing HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n").into();
        let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut clients = JoinSet::new();
        let begun = Instant::now();
        for _ in 0..self.clients {
            let (request, stop, count) = (Arc::clone(&request), Arc::clone(&stop), Arc::clone(&count));
            clients.spawn(async move { ask(server, &request, &stop, &count).await });
        }
        tokio::time::sleep(round).await;
        let rate = count.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        while let Some(ended) = clients.join_next().await {
            ended.context("run a client")??;
        }
        Ok(rate)
    }
}

/// Serves a route that does nothing.
async fn serve(site: &Site, doors: Doors, servers: &mut JoinSet<()>) -> Result<SocketAddr> {
    let routes = Routes::new(Access::Service).get("/bench/nothing", async || "");
    let platform = Platform::new(Arc::clone(&site.store)).doors(doors);
    let router = platform.module(Module::new(MODULE).http(routes)).build()?.router();
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .context("listen on a free port")?;
    let address = listener.local_addr().context("read the bound address")?;
    servers.spawn(async move {
        // It ends with the bench.
        drop(axum::serve(listener, router).await);
    });
    Ok(address)
}

/// Sends the request again and again over one connection. Every response has the length of the first one.
async fn ask(server: SocketAddr, request: &str, stop: &AtomicBool, count: &AtomicU64) -> Result<()> {
    let mut stream = TcpStream::connect(server).await?;
    stream.set_nodelay(true)?;
    let mut response = vec![0; 4096];
    stream.write_all(request.as_bytes()).await?;
    let mut length = stream.read(&mut response).await?;
    let first = String::from_utf8_lossy(response.get(..length).unwrap_or_default()).into_owned();
    ensure!(
        first.starts_with("HTTP/1.1 200"),
        "the bench's own route answered {first:?}"
    );
    response.truncate(length);
    while length > 0 && !stop.load(Ordering::Relaxed) {
        stream.write_all(request.as_bytes()).await?;
        length = stream.read_exact(&mut response).await?;
        count.fetch_add(1, Ordering::Relaxed);
    }
    ensure!(
        response.starts_with(b"HTTP/1.1 200"),
        "the token was refused in the middle of the bench"
    );
    Ok(())
}

/// Removes the token and its traces in the operators' log.
async fn remove_token(site: &Site) -> Result<()> {
    let db = site.store.db();
    for (table, column) in [(Table::AccessToken, "name"), (Table::AdminAudit, "target")] {
        let mut delete = Query::delete();
        delete
            .from_table(table::named(db, table))
            .and_where(Expr::col(column).eq(TOKEN));
        db.execute(&delete).await.context("remove the token of the bench")?;
    }
    Ok(())
}

impl AccessResult {
    pub(super) fn outcome(&self) -> Result<Outcome> {
        let rate = |value: f64| format!("{value:.0}/s");
        let figures = vec![
            Figure::new(
                "requests without a token",
                rate(self.unchecked_per_s),
                "to doors that are not locked, with another header as long as the token",
            ),
            Figure::new("requests with a token", rate(self.checked_per_s), ""),
            Figure::new(
                "cost of the check",
                format!("{:.1} %", self.cost * 100.0),
                "goal: less than 3 %",
            ),
        ];
        Outcome::new(self, figures)
    }
}
