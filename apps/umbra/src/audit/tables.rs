//! The table of the audit.

use postroom::{Event, Migration, Result, Tx};
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict, Query};
use sea_orm::{ConnectionTrait, QueryResult};
use serde::Serialize;
use serde_json::value::RawValue;
use time::OffsetDateTime;

use crate::door::Part;
use crate::rows::{self, from_ms, to_ms};

pub(crate) const MIGRATION: Migration = Migration {
    number: 8,
    name: "audit",
    up: include_str!("../../migrations/0008_audit.up.sql"),
    down: include_str!("../../migrations/0008_audit.down.sql"),
};

const AUDIT: &str = "umbra_audit";

/// An event in a response of the audit.
#[derive(Debug, Serialize)]
pub(super) struct Record {
    outbox_event_id: String,
    event_type: String,
    payload: Box<RawValue>,
    #[serde(with = "time::serde::rfc3339")]
    occurred_at: OffsetDateTime,
}

/// Pattern 2, event id deduplication: the unique constraint keeps the first row, and a repetition is ignored without an
/// error.
pub(super) async fn record(tx: &Tx, event: &Event, payload: &str) -> Result<()> {
    let mut insert = Query::insert();
    insert
        .into_table(AUDIT)
        .columns([
            "outbox_event_id",
            "event_type",
            "aggregate_type",
            "aggregate_id",
            "payload",
            "occurred_at_ms",
        ])
        .values_panic([
            event.id.to_string().into(),
            event.event_type.as_str().into(),
            event.aggregate_type.as_str().into(),
            event.aggregate_id.as_str().into(),
            payload.into(),
            to_ms(event.occurred_at).into(),
        ])
        .on_conflict(
            OnConflict::column("outbox_event_id")
                .do_nothing_on(["outbox_event_id"])
                .to_owned(),
        );
    tx.execute(&insert).await?;
    Ok(())
}

/// One page of the events of an aggregate, oldest first.
pub(super) async fn of_aggregate(
    tx: &Tx,
    (aggregate_type, aggregate_id): (&str, &str),
    part: &Part,
) -> Result<Vec<Record>> {
    let of_it = Expr::col("aggregate_id")
        .eq(aggregate_id)
        .and(Expr::col("aggregate_type").eq(aggregate_type));
    let rows = rows::page(tx, AUDIT, of_it, ("outbox_event_id", part)).await?;
    rows.into_iter().map(read).collect()
}

fn read(row: QueryResult) -> Result<Record> {
    Ok(Record {
        outbox_event_id: row.try_get("", "outbox_event_id")?,
        event_type: row.try_get("", "event_type")?,
        payload: RawValue::from_string(row.try_get("", "payload")?)?,
        occurred_at: from_ms(row.try_get("", "occurred_at_ms")?),
    })
}
