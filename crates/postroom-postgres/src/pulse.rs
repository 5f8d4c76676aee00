//! The pulse: takes a tick if something can have become readable. The statement carries the argument.

use std::time::Duration;

use postroom::{Pulse, Result};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::error::driver;
use crate::{Postgres, rebase};

const PULSE: &str = include_str!("../sql/pulse.sql");
const DOING: &str = "take a tick of the outbox";

pub(crate) async fn pulse(store: &Postgres) -> Result<Pulse> {
    let mut beat = beat(store).await?;
    if !beat.is_home {
        rebase::rebase(store).await?;
        beat = self::beat(store).await?;
    }
    if let Some(wait) = beat.wait {
        // The last tick is a few milliseconds old. Waiting here is cheaper than asking again and again.
        tokio::time::sleep(wait).await;
        beat = self::beat(store).await?;
    }
    Ok(Pulse {
        more: beat.wait.is_some(),
        is_waiting: false,
        ..beat.pulse
    })
}

struct Beat {
    pulse: Pulse,
    /// The ticks belong to this cluster.
    is_home: bool,
    /// There is something to make readable, this much later.
    wait: Option<Duration>,
}

async fn beat(store: &Postgres) -> Result<Beat> {
    let mut connection = store.reader().await?;
    let row = sqlx::query(PULSE)
        .fetch_one(&mut *connection)
        .await
        .map_err(|source| driver(DOING, source))?;
    store.end(connection).await?;
    read(&row).map_err(|source| driver(DOING, source))
}

fn read(row: &PgRow) -> sqlx::Result<Beat> {
    let duration = |seconds: f64| Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
    Ok(Beat {
        pulse: Pulse {
            head: row.try_get("head")?,
            due_in: row.try_get::<Option<f64>, _>("due_in_s")?.map(duration),
            signal: row.try_get::<Option<i64>, _>("signal")?.unwrap_or(0),
            more: false,
            is_waiting: false,
        },
        is_home: row.try_get("is_home")?,
        wait: row
            .try_get::<Option<f64>, _>("wait_ms")?
            .map(|ms| duration(ms / 1000.0)),
    })
}
