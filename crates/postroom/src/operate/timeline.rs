//! The way of one event: how each route has delivered it.

use std::collections::HashMap;
use std::fmt;

use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{ConnectionTrait, DbBackend, QueryResult};
use serde::Serialize;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{Carrier, RouteStatus, listing};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::event::entry::Entry;
use crate::state::dead::LetterState;
use crate::store::db_clock::read_stamp;
use crate::store::outbox::Inspect;
use crate::store::table::{self, Table, read_entry, read_event, read_time, read_uuid, uuid_value};
use crate::store::tx::Tx;

/// The way of one event.
#[derive(Clone, Debug, Serialize)]
pub struct Timeline {
    /// The event as it was recorded.
    pub entry: Entry,
    /// Whether it has left the outbox for the archive.
    pub is_archived: bool,
    /// How each route has delivered it.
    #[serde(rename = "steps")]
    pub deliveries: Vec<Delivery>,
}

/// How one route has delivered an event.
#[derive(Clone, Debug, Serialize)]
pub struct Delivery {
    /// The route.
    pub route: String,
    /// How far it has come.
    pub state: DeliveryState,
    /// How often it was tried, where it failed.
    pub attempts: Option<u32>,
    /// The last error, or why the route cannot go on.
    pub error: Option<String>,
    /// When it is tried again, if it is parked for a retry.
    #[serde(with = "time::serde::rfc3339::option")]
    pub retry_at: Option<OffsetDateTime>,
    /// When its subscriber handled it, or its destination got it, if the route records that.
    #[serde(with = "time::serde::rfc3339::option")]
    pub handled_at: Option<OffsetDateTime>,
}

/// How far a route has come with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// The route has not reached it yet.
    Pending,
    /// It failed, and is tried again.
    Parked,
    /// It waits behind another event of its key.
    Waiting,
    /// It is a dead letter that holds its key.
    Held,
    /// It is a dead letter that waits for a decision.
    Dead,
    /// It was a dead letter, and an operator retried it.
    Retried,
    /// It was a dead letter, and an operator discarded it.
    Discarded,
    /// It is delivered, or not for this route: a store does not know which events a route takes. See
    /// [`Timeline::mark_unwanted`].
    Passed,
    /// The route does not take events of this type.
    Unwanted,
}

/// An event that waits for its time.
#[derive(Clone, Debug, Serialize)]
pub struct Scheduled {
    /// The event.
    #[serde(flatten)]
    pub event: Event,
    /// When it enters the outbox.
    #[serde(with = "time::serde::rfc3339")]
    pub due_at: OffsetDateTime,
}

impl DeliveryState {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Parked => "parked",
            Self::Waiting => "waiting",
            Self::Held => "held",
            Self::Dead => "dead",
            Self::Retried => "retried",
            Self::Discarded => "discarded",
            Self::Passed => "passed",
            Self::Unwanted => "unwanted",
        }
    }

    /// The state that the row of a parked entry or of a dead letter means.
    fn of_row(name: &str) -> Result<Self> {
        match name {
            "retry" => Ok(Self::Parked),
            "wait" => Ok(Self::Waiting),
            "held" => Ok(Self::Held),
            letter => Ok(match LetterState::named(letter)? {
                LetterState::Dead => Self::Dead,
                LetterState::Retried => Self::Retried,
                LetterState::Discarded => Self::Discarded,
            }),
        }
    }
}

impl fmt::Display for DeliveryState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Timeline {
    /// Marks the routes that do not take the event's type, as far as `carriers` knows them. A route that has left a trace of the
    /// event took it, whatever it takes now.
    pub fn mark_unwanted(&mut self, carriers: &[Carrier]) {
        let event_type = &self.entry.event.event_type;
        for delivery in &mut self.deliveries {
            let carrier = carriers.iter().find(|carrier| carrier.route == delivery.route);
            let is_wanted = carrier.is_none_or(|carrier| carrier.filter.matches(event_type));
            let is_open = matches!(delivery.state, DeliveryState::Passed | DeliveryState::Pending);
            if !is_wanted && is_open && delivery.handled_at.is_none() {
                delivery.state = DeliveryState::Unwanted;
            }
        }
    }
}

/// The way of one event, or `NotFound`; see [`scheduled`] for one whose time has not come. This writes nothing.
pub async fn timeline(store: &dyn Inspect, event_id: Uuid) -> Result<Timeline> {
    let gone = || Error::new(ErrorKind::NotFound, format!("no event {event_id} is kept here"));
    let tx = table::look(store.db()).await?;
    // MySQL's writers insert elsewhere; a sequencer moves the rows into the log.
    let incoming = (tx.get_database_backend() == DbBackend::MySql).then_some(Table::Incoming);
    let mut found = None;
    for table in incoming.into_iter().chain([Table::Outbox, Table::Audit]) {
        if found.is_none() {
            let is_archived = matches!(table, Table::Audit);
            found = find(&tx, table, event_id).await?.map(|entry| (entry, is_archived));
        }
    }
    tx.commit().await?;
    let (entry, is_archived) = found.ok_or_else(gone)?;
    let mut timelines = listing::trace(store, vec![entry], is_archived).await?;
    timelines.pop().ok_or_else(gone)
}

/// An event that waits for its time, if it does. This writes nothing.
pub async fn scheduled(store: &dyn Inspect, event_id: Uuid) -> Result<Option<Scheduled>> {
    let tx = table::look(store.db()).await?;
    let backend = tx.get_database_backend();
    let mut select = table::select_events(backend);
    select
        .column("due_at")
        .from(table::named(&tx, Table::Scheduled))
        .and_where(Expr::col("event_id").eq(uuid_value(backend, event_id)));
    let row = tx
        .query_one(&select)
        .await
        .map_err(|source| Error::db("look at the schedule", source))?;
    tx.commit().await?;
    let read = |row: QueryResult| {
        Ok(Scheduled {
            event: read_event(&row, backend)?,
            due_at: read_time(&row, backend, "due_at")?,
        })
    };
    row.map(read).transpose()
}

async fn find(tx: &Tx, table: Table, event_id: Uuid) -> Result<Option<Entry>> {
    let backend = tx.get_database_backend();
    let mut select = table::select_events(backend);
    select
        .columns(["id", "created_at"])
        .from(table::named(tx, table))
        .and_where(Expr::col("event_id").eq(uuid_value(backend, event_id)))
        .limit(1);
    let row = tx
        .query_one(&select)
        .await
        .map_err(|source| Error::db("look for an event", source))?;
    row.map(|row| read_entry(&row, backend, "id")).transpose()
}

/// The row of an event on a route.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) state: DeliveryState,
    pub(super) attempts: Option<u32>,
    pub(super) error: Option<String>,
    pub(super) retry_at: Option<OffsetDateTime>,
}

/// A route and an event.
pub(super) type At = (String, Uuid);

/// Reads what the rows of these events say in one of the tables for failures.
pub(super) async fn states(tx: &Tx, table: Table, event_ids: &[Uuid]) -> Result<HashMap<At, Seen>> {
    let backend = tx.get_database_backend();
    let is_parked = matches!(table, Table::Parked);
    let mut select = Query::select();
    select
        .columns(["route", "event_id", "state", "attempts", "error"])
        .columns(is_parked.then_some("next_at"))
        .from(table::named(tx, table))
        .and_where(Expr::col("event_id").is_in(event_ids.iter().map(|id| uuid_value(backend, *id))));
    let rows = tx
        .query_all(&select)
        .await
        .map_err(|source| Error::db("look where an event waits", source))?;
    rows.iter()
        .map(|row| {
            let at = (row.try_get("", "route")?, read_uuid(row, backend, "event_id")?);
            let seen = Seen {
                state: DeliveryState::of_row(&row.try_get::<String>("", "state")?)?,
                attempts: u32::try_from(row.try_get::<i32>("", "attempts")?).ok(),
                error: row.try_get("", "error")?,
                retry_at: match is_parked {
                    true => read_stamp(row, backend, "next_at")?,
                    false => None,
                },
            };
            Ok((at, seen))
        })
        .collect()
}

/// Reads from the inbox when the subscribers of these routes handled these events.
pub(super) async fn handled(
    tx: &Tx,
    routes: &[RouteStatus],
    event_ids: &[Uuid],
) -> Result<HashMap<At, OffsetDateTime>> {
    let of_event = |id: &Uuid| {
        let id = *id;
        routes.iter().map(move |route| format!("{}:{id}", route.route))
    };
    let keys: Vec<String> = event_ids.iter().flat_map(of_event).collect();
    let mut select = Query::select();
    select
        .columns(["idempotency_key", "handled_at"])
        .from(table::named(tx, Table::Handled))
        .and_where(Expr::col("idempotency_key").is_in(keys));
    let rows = tx
        .query_all(&select)
        .await
        .map_err(|source| Error::db("look into the inbox", source))?;
    let mut handled = HashMap::new();
    for row in &rows {
        let key: String = row.try_get("", "idempotency_key")?;
        let at = key.rsplit_once(':').map(|(route, id)| (route, Uuid::try_parse(id)));
        if let Some((route, Ok(id))) = at {
            let handled_at = read_time(row, tx.get_database_backend(), "handled_at")?;
            handled.insert((route.to_owned(), id), handled_at);
        }
    }
    Ok(handled)
}
