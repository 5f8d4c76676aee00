//! From domain events and client events to stored rows, and on to the sinks. Every way in comes through here.

use std::collections::HashMap;
use std::sync::Arc;

use postroom::{BatchHandler, BoxError, Error, Event, Result, Screen as _, Tx, append};

use crate::event::{ActivityEvent, ActivityRecorded, ActivityStored, event_of};
use crate::mapper::MapperRegistry;
use crate::policy::is_same_event;
use crate::privacy::{Admitted, Privacy};
use crate::sink::known;
use crate::tables;

/// Handles events of the domain and of clients.
#[derive(Clone, Debug)]
pub struct Orchestrator {
    mappers: Arc<MapperRegistry>,
    privacy: Arc<Privacy>,
    /// Whether this process has a sink. If not, another process of the store may have one, which the store knows.
    has_sinks: bool,
}

impl Orchestrator {
    pub(crate) fn new(mappers: MapperRegistry, privacy: Arc<Privacy>, has_sinks: bool) -> Self {
        Self {
            mappers: Arc::new(mappers),
            privacy,
            has_sinks,
        }
    }

    /// One without mappers that passes what it stores on to the sinks. For programs that store events beside the module.
    pub fn with_sinks(privacy: Arc<Privacy>) -> Self {
        Self::new(MapperRegistry::default(), privacy, true)
    }

    /// One without mappers that passes what it stores on only if a process of the same store has a sink.
    pub fn without_sinks(privacy: Arc<Privacy>) -> Self {
        Self::new(MapperRegistry::default(), privacy, false)
    }

    /// Records the activity that a domain event reports, in the transaction of its handler. An event without a mapper is none.
    pub async fn handle_domain_event(&self, tx: &Tx, event: &Event) -> Result<()> {
        self.handle_domain_events(tx, &[event]).await
    }

    /// The same for several domain events.
    async fn handle_domain_events(&self, tx: &Tx, events: &[&Event]) -> Result<()> {
        let mut recorded = Vec::with_capacity(events.len());
        for event in events {
            if let Some(activity) = self.map(event)? {
                recorded.push(event_of(&ActivityRecorded(activity.into()))?);
            }
        }
        append(tx, &recorded).await
    }

    /// Stores activity events that are not stored yet, and passes the new ones on to the sinks, in one transaction. Returns the
    /// answer to each event, in their order. An event that breaks a limit fails all of them: check them before.
    pub async fn handle_client_events(&self, tx: &Tx, events: Vec<ActivityEvent>) -> Result<Vec<Stored>> {
        let events: Vec<Admitted> = events
            .into_iter()
            .map(|event| self.admit(event))
            .collect::<Result<_>>()?;
        self.store_admitted(tx, &events).await
    }

    /// The event as it is stored and sent. Every way in comes through here.
    pub(crate) fn admit(&self, event: ActivityEvent) -> Result<Admitted> {
        self.privacy.admit(event)
    }

    /// Stores events that were admitted, and answers as [`Self::handle_client_events`] does.
    pub(crate) async fn store_admitted(&self, tx: &Tx, events: &[Admitted]) -> Result<Vec<Stored>> {
        let mut answers = self.store(tx, events).await?;
        let is_known = |(_, answer): &(_, &Stored)| **answer == Stored::Known;
        let known = events.iter().zip(&answers).filter(is_known);
        let ids: Vec<&str> = known.map(|(event, _)| event.event_id.as_str()).collect();
        let rows = tables::by_ids(tx, &ids).await?;
        let rows: HashMap<&str, &ActivityEvent> = rows.iter().map(|row| (row.event_id.as_str(), row)).collect();
        for (event, answer) in events.iter().zip(&mut answers) {
            let stored = rows.get(event.event_id.as_str());
            if *answer == Stored::Known && stored.is_some_and(|stored| !is_same_event(stored, event)) {
                *answer = Stored::Conflicting;
            }
        }
        Ok(answers)
    }

    /// The types of domain events that are mapped.
    pub(crate) fn event_types(&self) -> Vec<&'static str> {
        self.mappers.event_types().collect()
    }

    /// The activity event that a domain event reports, as it is stored.
    pub(crate) fn map(&self, event: &Event) -> Result<Option<Admitted>> {
        // An error of a decoder quotes the value.
        let cleaned = |error: Error| Error::new(error.kind(), self.privacy.said(&error.report()));
        let mapped = self.mappers.map(event).map_err(cleaned)?;
        mapped.map(|activity| self.admit(activity)).transpose()
    }

    /// Stores mapped events again: those that have no row get one and go to the sinks; a row that differs is written anew.
    pub(crate) async fn store_again(&self, tx: &Tx, events: &[Admitted]) -> Result<StoredAgain> {
        let answers = self.store(tx, events).await?;
        let known = events.iter().zip(&answers);
        let known: Vec<&Admitted> = known
            .filter(|(_, answer)| **answer != Stored::New)
            .map(|(event, _)| event)
            .collect();
        let ids: Vec<&str> = known.iter().map(|event| event.event_id.as_str()).collect();
        let rows = tables::by_ids(tx, &ids).await?;
        let rows: HashMap<&str, &ActivityEvent> = rows.iter().map(|row| (row.event_id.as_str(), row)).collect();
        let mut again = StoredAgain {
            inserted: (events.len() - known.len()) as u64,
            ..StoredAgain::default()
        };
        for event in known {
            let row = rows.get(event.event_id.as_str());
            let is_same = |row: &&ActivityEvent| is_same_event(row, event) && row.member_id == event.member_id;
            match row.is_some_and(is_same) {
                true => again.unchanged += 1,
                false => {
                    tables::update(tx, event).await?;
                    again.updated += 1;
                }
            }
        }
        Ok(again)
    }

    async fn store(&self, tx: &Tx, events: &[Admitted]) -> Result<Vec<Stored>> {
        let mut new = tables::insert_new(tx, events).await?;
        let is_passed_on = !new.is_empty() && (self.has_sinks || known::is_any(tx).await?);
        let mut answers = Vec::with_capacity(events.len());
        let mut stored = Vec::new();
        for event in events {
            let is_new = new.remove(&event.event_id);
            answers.push(if is_new { Stored::New } else { Stored::Known });
            if is_new && is_passed_on {
                stored.push(event_of(&ActivityStored(event.clone().into()))?);
            }
        }
        append(tx, &stored).await?;
        Ok(answers)
    }
}

/// The result of storing mapped events again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoredAgain {
    pub(crate) inserted: u64,
    pub(crate) updated: u64,
    pub(crate) unchanged: u64,
}

impl StoredAgain {
    /// Both results together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            inserted: self.inserted + other.inserted,
            updated: self.updated + other.updated,
            unchanged: self.unchanged + other.unchanged,
        }
    }
}

/// The result of storing an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It has a row now.
    New,
    /// An event with this id had a row before, or is earlier in the same batch.
    Known,
    /// An event with this id and other content had a row before, or is earlier in the same batch.
    Conflicting,
}

/// Maps domain events; the subscriber `activity-map`.
#[derive(Debug)]
pub(crate) struct Map(pub(crate) Orchestrator);

impl BatchHandler for Map {
    async fn handle(&self, tx: &mut Tx, events: &[&Event]) -> Result<(), BoxError> {
        Ok(self.0.handle_domain_events(tx, events).await?)
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
        let recorded: Vec<Admitted> = recorded
            .into_iter()
            .map(|event| self.0.admit(event))
            .collect::<Result<_>>()?;
        self.0.store(tx, &recorded).await?;
        Ok(())
    }
}
