//! From domain events and client events to stored rows, and on to the sinks. Every way in comes through here.

use std::sync::Arc;

use postroom::{BatchHandler, BoxError, Event, Handler, Result, Tx, append, emit};

use crate::event::{ActivityEvent, ActivityRecorded, ActivityStored};
use crate::mapper::MapperRegistry;
use crate::tables;

/// Handles events of the domain and of clients.
#[derive(Clone, Debug, Default)]
pub struct Orchestrator {
    mappers: Arc<MapperRegistry>,
    /// Whether stored events go on to a sink.
    has_sinks: bool,
}

impl Orchestrator {
    pub(crate) fn new(mappers: MapperRegistry, has_sinks: bool) -> Self {
        Self {
            mappers: Arc::new(mappers),
            has_sinks,
        }
    }

    /// Records the activity that a domain event reports, in the transaction of its handler. An event without a mapper is none.
    pub async fn handle_domain_event(&self, tx: &Tx, event: &Event) -> Result<()> {
        if let Some(activity) = self.mappers.map(event)? {
            activity.check()?;
            emit(tx, &ActivityRecorded(activity)).await?;
        }
        Ok(())
    }

    /// Stores activity events that are not stored yet, and passes the new ones on to the sinks, in one transaction. Returns the
    /// answer to each event, in their order.
    pub async fn handle_client_events(&self, tx: &Tx, events: &[ActivityEvent]) -> Result<Vec<Stored>> {
        let events: Vec<&ActivityEvent> = events.iter().collect();
        self.store(tx, &events).await
    }

    pub(crate) async fn store(&self, tx: &Tx, events: &[&ActivityEvent]) -> Result<Vec<Stored>> {
        let mut new = tables::insert_new(tx, events).await?;
        let mut answers = Vec::with_capacity(events.len());
        let mut stored = Vec::new();
        for &event in events {
            let is_new = new.remove(&event.event_id);
            answers.push(if is_new { Stored::New } else { Stored::Known });
            if is_new && self.has_sinks {
                stored.push(Event::of(&ActivityStored(event.clone()))?);
            }
        }
        append(tx, &stored).await?;
        Ok(answers)
    }
}

/// What became of an event that was to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It has a row now.
    New,
    /// An event with this id had a row before, or is earlier in the same batch.
    Known,
}

/// Maps domain events; the subscriber `activity-map`.
#[derive(Debug)]
pub(crate) struct Map(pub(crate) Orchestrator);

impl Handler for Map {
    async fn handle(&self, tx: &mut Tx, event: &Event) -> Result<(), BoxError> {
        Ok(self.0.handle_domain_event(tx, event).await?)
    }
}

/// Stores recorded events; the subscriber `activity-store`.
#[derive(Debug)]
pub(crate) struct Store(pub(crate) Orchestrator);

impl BatchHandler for Store {
    async fn handle(&self, tx: &mut Tx, events: &[&Event]) -> Result<(), BoxError> {
        let recorded: Vec<ActivityEvent> = events
            .iter()
            .map(|event| event.decode().map(|ActivityRecorded(activity)| activity))
            .collect::<Result<_>>()?;
        for activity in &recorded {
            activity.check()?;
        }
        let recorded: Vec<&ActivityEvent> = recorded.iter().collect();
        self.0.store(tx, &recorded).await?;
        Ok(())
    }
}
