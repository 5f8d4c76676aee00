//! Redis without persistence.

use anyhow::{Context as _, Result};

use super::daemon::Process;
use super::home::Home;
use super::{About, Service, probe};
use crate::process;

pub(super) struct Redis;

impl Service for Redis {
    fn about(&self) -> About {
        About {
            name: "redis",
            variable: "POSTROOM_TEST_REDIS_URL",
            user: Some("redis"),
            ports: 1,
            stop: "TERM",
            needs: None,
        }
    }

    fn missing(&self) -> Vec<&'static str> {
        if process::find("redis-server").is_some() {
            vec![]
        } else {
            vec!["redis-server"]
        }
    }

    fn start(&self, home: &Home) -> Result<Vec<Process>> {
        let mut server = home.command(process::find("redis-server").context("find redis-server")?);
        server.args(["--bind", "127.0.0.1", "--port", &home.port().to_string()]);
        server
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no", "--dir"])
            .arg(home.data());
        Ok(vec![home.spawn(&mut server)?])
    }

    fn is_ready(&self, home: &Home) -> bool {
        probe::ask(home.port(), b"PING\r\n") == Some(*b"+PONG")
    }

    fn url(&self, home: &Home) -> String {
        format!("redis://127.0.0.1:{}/", home.port())
    }
}
