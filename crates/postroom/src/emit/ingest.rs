//! Accepting events from producers that cannot emit in a transaction of their own: each id once, however often it is sent.

use std::collections::HashMap;

use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend};
use serde_json::Value;
use uuid::Uuid;

use crate::emit::append;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::event::envelope::{FOREIGN_ID, source_of};
use crate::store::inbox;
use crate::store::table::{self, Table, read_event, uuid_value};
use crate::store::tx::Tx;

/// How often a transaction is run again that met another one with the same event.
const RERUNS: u32 = 3;

/// Appends those of the events that were not accepted before, all or none; answers how many were new. An id is remembered as
/// long as the inbox keeps its rows.
///
/// An id that comes again with another type, key or payload is a `Conflict`, as long as the first one is in the outbox or the
/// archive. Time and headers may differ: a producer that tries again may write them anew.
pub async fn ingest(db: &DatabaseConnection, events: &[Event]) -> Result<usize> {
    for event in events {
        event.check()?;
    }
    let mut reruns = 0;
    loop {
        match try_accept(db, events).await {
            Err(error) if error.kind() == ErrorKind::Conflict && reruns < RERUNS => reruns += 1,
            Err(error) if error.kind() == ErrorKind::Conflict => {
                let says = "others accept the same events all the while; try again";
                return Err(Error::caused(ErrorKind::Unavailable, says, error));
            }
            Err(error) => return Err(error),
            Ok(answer) => return answer,
        }
    }
}

/// The outer result is about the database, the inner one about the events: only the first may be another one the next time.
async fn try_accept(db: &DatabaseConnection, events: &[Event]) -> Result<Result<usize>> {
    let tx = table::begin_own(db).await?;
    let keys: Vec<String> = events
        .iter()
        .map(|event| format!("{}:{}", inbox::ACCEPTED, event.id))
        .collect();
    let known = inbox::known(&tx, &keys).await?;
    let is_known = |(_, key): &(&Event, &String)| known.contains(*key);
    let repeated = events.iter().zip(&keys).filter(is_known).map(|(event, _)| event.id);
    let recorded = recorded(&tx, &repeated.collect::<Vec<_>>()).await?;
    let mut first: HashMap<Uuid, &Event> = recorded.iter().map(|event| (event.id, event)).collect();
    let (mut fresh, mut fresh_keys) = (Vec::new(), Vec::new());
    for (event, key) in events.iter().zip(&keys) {
        match first.get(&event.id) {
            Some(first) if !is_same(first, event) => return Ok(Err(other_content(event))),
            Some(_) => {}
            None if known.contains(key) => {} // it has left the outbox
            None => {
                first.insert(event.id, event);
                fresh.push(event.clone());
                fresh_keys.push(key.as_str());
            }
        }
    }
    inbox::record(&tx, &fresh_keys).await?;
    append(&tx, &fresh).await?;
    tx.commit().await?;
    Ok(Ok(fresh.len()))
}

/// Gives foreign events their own id back that are copies of events in this log: whoever passed them on has left out what tells
/// so. Source and id make an event.
pub(crate) async fn recognise(db: &DatabaseConnection, events: &mut [&mut Event]) -> Result<()> {
    let id_of = |event: &Event| Uuid::parse_str(event.headers.get(FOREIGN_ID)?).ok();
    let ids: Vec<Uuid> = events.iter().filter_map(|event| id_of(event)).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let tx = table::look(db).await?;
    let ours = recorded(&tx, &ids).await?;
    tx.commit().await?;
    let is_ours = |event: &Event, id: Uuid| {
        let same = |our: &&Event| our.id == id && source_of(our) == event.source && our.event_type == event.event_type;
        ours.iter().find(same).is_some()
    };
    for event in events {
        if let Some(id) = id_of(event).filter(|id| is_ours(event, *id)) {
            event.id = id;
            event.headers.remove(FOREIGN_ID);
        }
    }
    Ok(())
}

/// Those of these events that are kept, as they came first.
async fn recorded(tx: &Tx, ids: &[Uuid]) -> Result<Vec<Event>> {
    let backend = tx.get_database_backend();
    let mut events = Vec::new();
    if ids.is_empty() {
        return Ok(events);
    }
    let incoming = (backend == DbBackend::MySql).then_some(Table::Incoming); // before it has a number
    for place in incoming.into_iter().chain([Table::Outbox, Table::Audit]) {
        let mut select = table::select_events(backend);
        select
            .from(table::named(tx, place))
            .and_where(Expr::col("event_id").is_in(ids.iter().map(|id| uuid_value(backend, *id))));
        let rows = tx
            .query_all(&select)
            .await
            .map_err(|source| Error::db("look for events that were accepted", source))?;
        for row in &rows {
            events.push(read_event(row, backend)?);
        }
    }
    Ok(events)
}

/// Whether two events say the same of the same thing, however their JSON is written.
fn is_same(first: &Event, again: &Event) -> bool {
    let is_same_payload = || match (parsed(first), parsed(again)) {
        (Some(first), Some(again)) => is_same_json(&first, &again),
        _ => first.payload.get() == again.payload.get(),
    };
    first.event_type == again.event_type && first.key() == again.key() && is_same_payload()
}

fn parsed(event: &Event) -> Option<Value> {
    serde_json::from_str(event.payload.get()).ok()
}

/// Whether two documents have the same content. PostgreSQL writes numbers anew: `1e2` comes back as `100`.
fn is_same_json(first: &Value, again: &Value) -> bool {
    match (first, again) {
        (Value::Number(one), Value::Number(other)) if one.is_f64() || other.is_f64() => one.as_f64() == other.as_f64(),
        (Value::Array(ones), Value::Array(others)) => {
            ones.len() == others.len() && ones.iter().zip(others).all(|(one, other)| is_same_json(one, other))
        }
        (Value::Object(ones), Value::Object(others)) => {
            let is_there = |(name, one)| others.get(name).is_some_and(|other| is_same_json(one, other));
            ones.len() == others.len() && ones.iter().all(is_there)
        }
        (one, other) => one == other,
    }
}

fn other_content(event: &Event) -> Error {
    let id = event.headers.get(FOREIGN_ID).cloned();
    Error::new(
        ErrorKind::Conflict,
        format!(
            "the event {:?} of {:?} was accepted before with another type, key or data; give a new event a new id",
            id.unwrap_or_else(|| event.id.to_string()),
            event.source
        ),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn content_is_the_same_however_its_numbers_are_written() {
        let check = |one: &str, other: &str, expected: bool| {
            let [one, other] = [one, other].map(|text| serde_json::from_str::<Value>(text).unwrap_or_default());
            assert_eq!(is_same_json(&one, &other), expected, "{one} and {other}");
        };
        check(
            r#"{"a": [1e2, -0.0], "b": null}"#,
            r#"{"b": null, "a": [100, 0]}"#,
            true,
        );
        check("[1, 2]", "[1]", false);
        check(r#"{"a": 1}"#, r#"{"a": 2}"#, false);
        check(r#"{"a": null}"#, "{}", false);
        assert!(
            !is_same_json(&json!(u64::MAX), &json!(u64::MAX - 1)),
            "not as fractions"
        );
    }
}
