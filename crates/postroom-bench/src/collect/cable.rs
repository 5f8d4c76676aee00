//! A cable to a Redis, which can be cut: for the service at its end, that Redis was killed.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use postroom_host::Feed;
use postroom_redis::{Options, Redis};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use uuid::Uuid;

/// The name of the broker, which is part of the name of the route that publishes there.
const NAME: &str = "bench-redis";
/// That route begins so.
pub(super) const ROUTE: &str = "to-bench-redis";
const PORT: &str = ":6379";

/// A Redis at the end of a cable.
#[derive(Debug)]
pub(super) struct Cable {
    /// Its address without the cable, for what is removed in the end.
    direct: redis::Client,
    /// Its address through the cable.
    url: String,
    /// Every key begins so.
    prefix: String,
    is_cut: watch::Sender<bool>,
    _end: JoinSet<()>,
}

impl Cable {
    /// A cable to the Redis at this address.
    pub(super) async fn to(url: &str) -> Result<Self> {
        let (before, server, after) = parts(url)?;
        let direct = redis::Client::open(url).context("read the address of Redis")?;
        direct
            .get_multiplexed_async_connection()
            .await
            .context("connect to Redis")?;
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("listen on a free port")?;
        let address = listener.local_addr().context("read the bound address")?;
        let (is_cut, mut end) = (watch::Sender::new(false), JoinSet::new());
        end.spawn(forward(listener, server, is_cut.clone()));
        Ok(Self {
            direct,
            url: format!("{before}{address}{after}"),
            prefix: format!("postroom-bench-{}", Uuid::now_v7()),
            is_cut,
            _end: end,
        })
    }

    /// The feed of a module, through the cable.
    pub(super) fn feed(&self) -> Result<Feed> {
        let options = Options {
            stream: format!("{}:{{{{topic}}}}:{{number}}", self.prefix),
            ..Options::default()
        };
        Ok(Feed::new(NAME, Arc::new(Redis::open(&self.url, options)?)))
    }

    /// Ends every connection and refuses others, until it is mended.
    pub(super) fn set_cut(&self, is_cut: bool) {
        self.is_cut.send_replace(is_cut);
    }

    /// Removes every key of the bench.
    pub(super) async fn remove(&self) -> Result<()> {
        let mut connection = self.direct.get_multiplexed_async_connection().await?;
        let mut cursor = 0_u64;
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor)
                .arg("MATCH")
                .arg(format!("{}*", self.prefix))
                .arg("COUNT")
                .arg(10_000);
            let (next, keys): (u64, Vec<String>) = scan.query_async(&mut connection).await?;
            for key in keys {
                redis::cmd("UNLINK").arg(key).exec_async(&mut connection).await?;
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }
}

async fn forward(listener: TcpListener, server: String, is_cut: watch::Sender<bool>) {
    let mut connections = JoinSet::new();
    while let Ok((mut client, _)) = listener.accept().await {
        let (server, mut cut) = (server.clone(), is_cut.subscribe());
        if *cut.borrow_and_update() {
            continue; // it is closed at once
        }
        connections.spawn(async move {
            if let Ok(mut server) = TcpStream::connect(server).await {
                tokio::select! {
                    _ended = copy_bidirectional(&mut client, &mut server) => {}
                    _cut = cut.wait_for(|is_cut| *is_cut) => {}
                }
            }
        });
    }
}

/// The address before the server, the server with its port, and what follows.
fn parts(url: &str) -> Result<(String, String, String)> {
    let rest = url.strip_prefix("redis://");
    let rest = rest.context("the address of Redis must begin with redis://: the cable does not encrypt")?;
    let (authority, after) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (login, host) = authority
        .rsplit_once('@')
        .map_or(("", authority), |(login, host)| (login, host));
    ensure!(
        !host.is_empty(),
        "the address of Redis must name a host: redis://127.0.0.1:6379"
    );
    let port = if host.rsplit(']').next().is_some_and(|end| end.contains(':')) {
        ""
    } else {
        PORT
    };
    let before = if login.is_empty() {
        "redis://".to_owned()
    } else {
        format!("redis://{login}@")
    };
    Ok((before, format!("{host}{port}"), after.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_found_in_its_address() {
        let check = |url: &str, expected: [&str; 3]| {
            let (before, server, after) = parts(url).unwrap();
            assert_eq!([before.as_str(), &server, &after], expected, "{url}");
        };
        check("redis://127.0.0.1:28475/", ["redis://", "127.0.0.1:28475", "/"]);
        check("redis://me:pw@host/1", ["redis://me:pw@", "host:6379", "/1"]);
        check("redis://[::1]", ["redis://", "[::1]:6379", ""]);
        assert!(parts("rediss://host").is_err() && parts("redis://").is_err());
    }
}
