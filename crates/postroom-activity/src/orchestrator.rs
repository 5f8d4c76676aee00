//! From domain events and client events to stored rows, and on to the sinks. Every way in comes through here.

use std::sync::Arc;

use postroom::{BatchHandler, BoxError, Event, Handler, Result, Tx, append, emit};
use time::UtcOffset;

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

    /// One without mappers that passes what it stores on to the sinks. For programs that store events beside the module.
    pub fn with_sinks() -> Self {
        Self::new(MapperRegistry::default(), true)
    }

    /// Records the activity that a domain event reports, in the transaction of its handler. An event without a mapper is none.
    pub async fn handle_domain_event(&self, tx: &Tx, event: &Event) -> Result<()> {
        if let Some(activity) = self.mappers.map(event)? {
            emit(tx, &ActivityRecorded(admit(activity)?)).await?;
        }
        Ok(())
    }

    /// Stores activity events that are not stored yet, and passes the new ones on to the sinks, in one transaction. Returns the
    /// answer to each event, in their order. An event that breaks a limit fails all of them: check them before.
    pub async fn handle_client_events(&self, tx: &Tx, events: Vec<ActivityEvent>) -> Result<Vec<Stored>> {
        let events: Vec<ActivityEvent> = events.into_iter().map(admit).collect::<Result<_>>()?;
        let mut new = tables::insert_new(tx, &events).await?;
        let answers = events.iter().map(|event| match new.remove(&event.event_id) {
            true => Stored::New,
            false => Stored::Known,
        });
        let answers: Vec<Stored> = answers.collect();
        if self.has_sinks {
            let is_new = |(_, answer): &(ActivityEvent, &Stored)| **answer == Stored::New;
            let new = events.into_iter().zip(&answers).filter(is_new);
            let new = new.map(|(event, _)| Event::of(&ActivityStored(event)));
            append(tx, &new.collect::<Result<Vec<Event>>>()?).await?;
        }
        Ok(answers)
    }
}

/// The event as it is stored and sent: every way in comes through here. Its time has milliseconds in UTC, as every database can
/// keep it, so that it is the same whenever the event is read and sent again.
fn admit(mut event: ActivityEvent) -> Result<ActivityEvent> {
    event.check()?;
    let at = event.occurred_at.to_offset(UtcOffset::UTC);
    event.occurred_at = at.truncate_to_millisecond();
    Ok(event)
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
        self.0.handle_client_events(tx, recorded).await?;
        Ok(())
    }
}
