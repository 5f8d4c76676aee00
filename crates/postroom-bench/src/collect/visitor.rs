//! The requests to tasteam.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use tokio::time::sleep;

use super::{Load, Measured};
use crate::wire::Wire;

/// A client of tasteam with a restaurant and a group of its own.
#[derive(Debug)]
pub(super) struct Visitor {
    wire: Wire,
    restaurant: i64,
    group: i64,
}

#[derive(Deserialize)]
struct Made {
    id: i64,
}

impl Visitor {
    pub(super) async fn open(server: SocketAddr) -> Result<Self> {
        let mut wire = Wire::open(server).await?;
        Ok(Self {
            restaurant: make(&mut wire, "/tasteam/restaurants").await?,
            group: make(&mut wire, "/tasteam/groups").await?,
            wire,
        })
    }

    /// Reviews, joins and searches in turn; their numbers go on, so that each member joins once. Answers how many did not fail: each
    /// of those is activity to collect.
    pub(super) async fn send(&mut self, (count, pace, number): Load<'_>, measured: &mut Measured) -> Result<u64> {
        let (restaurant, group, mut sent) = (self.restaurant, self.group, 0);
        for _ in 0..count {
            if let Some(pace) = pace {
                sleep(pace).await;
            }
            *number += 1;
            let (method, path, body) = match *number % 3 {
                0 => (
                    "POST",
                    "/tasteam/reviews".to_owned(),
                    format!(r#"{{"memberId":42,"restaurantId":{restaurant},"content":"good","hasImage":true}}"#),
                ),
                1 => (
                    "PUT",
                    format!("/tasteam/groups/{group}/members/{number}"),
                    r#"{"joinType":"EMAIL"}"#.to_owned(),
                ),
                _ => ("GET", "/tasteam/search?q=bench&memberId=9".to_owned(), String::new()),
            };
            let begun = Instant::now();
            let (status, _) = self.wire.send(method, &path, &body).await?;
            measured.latencies_ms.push(begun.elapsed().as_secs_f64() * 1e3);
            match (200..300).contains(&status) {
                true => sent += 1,
                false => measured.failed += 1,
            }
        }
        Ok(sent)
    }
}

async fn make(wire: &mut Wire, path: &str) -> Result<i64> {
    let (status, body) = wire.send("POST", path, r#"{"name":"bench"}"#).await?;
    ensure!(
        status == 201,
        "{path} answered {status}: {}",
        String::from_utf8_lossy(body)
    );
    let Made { id } = serde_json::from_slice(body).context("read what was made")?;
    Ok(id)
}
