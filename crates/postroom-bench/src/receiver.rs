//! The receivers of a relay: a subscriber with an effect in the database, a destination that accepts everything, a broker.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use postroom::{
    Batch, Destination, DomainEvent as _, Error, ErrorKind, Event, Filter, Handler, NullDestination, Receipt, Route,
    Start, Subscriber, To, Tx,
};
use postroom_address::BrokerAddress;
use sea_orm::{ConnectionTrait as _, Statement};
use uuid::Uuid;

use crate::native::{Native, Sql, sql};
use crate::paid::Paid;
use crate::tally::Tally;

/// The route, and the subscriber's group.
pub(super) const ROUTE: &str = "bench-relay";
/// One row per event.
pub(super) const EFFECT: Sql = sql!("effect");

/// Where the relay delivers to.
#[derive(Clone, Debug)]
pub enum Target {
    /// A receiver in this process.
    Here(Receiver),
    /// A topic of this broker, made and removed by the bench.
    Broker(BrokerAddress),
}

impl Default for Target {
    fn default() -> Self {
        Self::Here(Receiver::Subscriber)
    }
}

/// `subscriber`, `null` or the address of a broker.
impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "subscriber" => Ok(Self::Here(Receiver::Subscriber)),
            "null" => Ok(Self::Here(Receiver::Null)),
            address => {
                let broker = address.parse().map(Self::Broker);
                broker.map_err(|error| format!("name subscriber, null or a broker, whose address {error}"))
            }
        }
    }
}

/// As it is parsed, without the password of a broker.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here(Receiver::Subscriber) => f.write_str("subscriber"),
            Self::Here(Receiver::Null) => f.write_str("null"),
            Self::Broker(address) => address.fmt(f),
        }
    }
}

/// A receiver in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// A handler that inserts a row for each event.
    Subscriber,
    /// A destination that accepts everything and does nothing.
    Null,
}

impl Receiver {
    /// A route that starts at the head and tells the tally what arrives.
    pub(super) fn route(self, native: &Native, tally: &Arc<Tally>) -> Route {
        let tally = Arc::clone(tally);
        let route = match self {
            Self::Subscriber => Subscriber::matching(
                ROUTE,
                [Paid::TYPE],
                Effect {
                    insert: EFFECT.on(native),
                    tally,
                },
            )
            .into_route(),
            Self::Null => Route {
                filter: Filter::any_of([Paid::TYPE]),
                ..Route::new(
                    ROUTE,
                    To::Destination(Arc::new(Confirmed {
                        to: Arc::new(NullDestination),
                        tally,
                    })),
                )
            },
        };
        Route {
            start: Start::Head,
            ..route
        }
    }
}

/// A handler as a user would write it: reads the payload, inserts a row.
struct Effect {
    insert: &'static str,
    tally: Arc<Tally>,
}

impl Handler for Effect {
    async fn handle(&self, tx: &mut Tx, event: &Event) -> Result<(), postroom::BoxError> {
        self.tally.arrive([event.id].into_iter());
        let paid: Paid = event.decode()?;
        let values = [event.id.to_string().into(), paid.account_id.into(), paid.amount.into()];
        let insert = Statement::from_sql_and_values(tx.get_database_backend(), self.insert, values);
        let inserted = tx.execute_raw(insert).await;
        inserted.map_err(|source| Error::caused(ErrorKind::Failed, "insert the effect", source))?;
        Ok(())
    }
}

/// A destination whose deliveries are counted when they are confirmed.
#[derive(Debug)]
pub(super) struct Confirmed {
    pub(super) to: Arc<dyn Destination>,
    pub(super) tally: Arc<Tally>,
}

#[async_trait]
impl Destination for Confirmed {
    async fn deliver(&self, batch: &Batch<'_>) -> Vec<Receipt> {
        let receipts = self.to.deliver(batch).await;
        let answered = batch.entries.iter().zip(&receipts);
        let delivered = answered.filter(|(_, receipt)| **receipt == Receipt::Delivered);
        let ids: Vec<Uuid> = delivered.map(|(entry, _)| entry.event.id).collect();
        self.tally.arrive(ids.into_iter());
        receipts
    }
}
