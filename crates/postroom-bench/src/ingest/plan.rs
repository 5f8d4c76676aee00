//! The events of a run, by their numbers: which are sent, with which content, and which answers they must get. Pure.

use anyhow::{Context as _, Result};
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

/// Events in a request.
pub(super) const BATCH: u64 = 100;
/// The session of every event that a client sends.
pub(super) const SESSION: &str = "bench";
/// The session of the events that are inserted without Postroom.
pub(super) const PLAIN_SESSION: &str = "bench-plain";

/// The numbers of events that are inserted without Postroom begin here.
pub(super) const PLAIN: u64 = 1 << 40;
/// The first event happened so long before the bench; each one happens a millisecond after the one before.
const AGO: Duration = Duration::hours(12);

/// The plan of one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    first: OffsetDateTime,
    /// How many events are sent, also repeated and invalid ones.
    pub(super) events: u64,
    /// Client `c` of `n` sends the batches `c`, `c + n`, and so on.
    pub(super) clients: u64,
}

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One that is to be stored.
    New,
    /// An event with this number, which was sent before.
    Again(u64),
    /// One that no client may send.
    Invalid,
}

/// A request, and the answers that it must get.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) body: String,
    /// Each id of the request with its answer.
    pub(super) answers: Vec<(Uuid, &'static str)>,
}

impl Plan {
    pub(super) fn new(now: OffsetDateTime, events: u64, clients: u64) -> Self {
        Self {
            first: (now - AGO).truncate_to_millisecond(),
            events,
            clients,
        }
    }

    pub(super) fn batches(&self) -> u64 {
        self.events.div_ceil(BATCH)
    }

    /// Of a hundred events, one is invalid and five are repeated: three in the same request, two from an earlier one of the same
    /// client, if it has sent one.
    fn kind(&self, number: u64) -> Kind {
        let earlier = 1 + BATCH * self.clients;
        match number % 100 {
            50 => Kind::Invalid,
            39 | 79 if number >= earlier => Kind::Again(number - earlier),
            slot if slot % 20 == 19 => Kind::Again(number - 1),
            _ => Kind::New,
        }
    }

    /// Whether an event with this id is to be stored.
    pub(super) fn is_stored(&self, id: Uuid) -> bool {
        let number = u64::try_from(id.as_u128() & u128::from(PLAIN - 1)).unwrap_or(u64::MAX);
        number < self.events && self.kind(number) == Kind::New && self.id(number).is_ok_and(|own| own == id)
    }

    /// How many events are to be stored.
    pub(super) fn stored(&self) -> u64 {
        (0..self.events)
            .filter(|number| self.kind(*number) == Kind::New)
            .count() as u64
    }

    pub(super) fn request(&self, batch: u64) -> Result<Request> {
        let (mut body, mut answers) = (String::from(r#"{"events":["#), Vec::new());
        let numbers = batch * BATCH..self.events.min((batch + 1) * BATCH);
        for number in numbers {
            let (sent, name, answer) = match self.kind(number) {
                Kind::New => (number, "page.viewed", Some("ok")),
                Kind::Again(earlier) if earlier / BATCH == batch => (earlier, "page.viewed", None),
                Kind::Again(earlier) => (earlier, "page.viewed", Some("duplicate")),
                Kind::Invalid => (number, "page.closed", Some("drop")),
            };
            if !body.ends_with('[') {
                body.push(',');
            }
            self.write(&mut body, sent, name, SESSION)?;
            let id = self.id(sent)?;
            answers.extend(answer.map(|answer| (id, answer)));
        }
        body.push_str("]}");
        Ok(Request { body, answers })
    }

    /// Events for the inserts without Postroom, as a JSON array.
    pub(super) fn plain(&self, from: u64, count: u64) -> Result<String> {
        let mut array = String::from("[");
        for number in from..from + count {
            if number > from {
                array.push(',');
            }
            self.write(&mut array, PLAIN + number, "page.viewed", PLAIN_SESSION)?;
        }
        array.push(']');
        Ok(array)
    }

    fn write(&self, to: &mut String, number: u64, name: &str, session: &str) -> Result<()> {
        let (id, at, page) = (self.id(number)?, self.at(number).format(&Rfc3339)?, number % 1_000);
        to.push_str(&format!(
            r#"{{"eventId":"{id}","eventName":"{name}","eventVersion":"v1","occurredAt":"{at}","anonymousId":"visitor-{page}","#
        ));
        to.push_str(&format!(
            r#""sessionId":"{session}","requestPath":"/restaurants/{page}","requestMethod":"GET","platform":"web","#
        ));
        to.push_str(&format!(
            r#""appVersion":"1.4.2","locale":"ko-KR","properties":{{"path":"/restaurants/{page}","position":{page}}}}}"#
        ));
        Ok(())
    }

    fn at(&self, number: u64) -> OffsetDateTime {
        self.first + Duration::milliseconds(i64::try_from(number % PLAIN).unwrap_or_default())
    }

    /// A UUID of version 7, which carries the number of its event.
    fn id(&self, number: u64) -> Result<Uuid> {
        let ms = u128::try_from(self.at(number).unix_timestamp_nanos() / 1_000_000).context("a time after 1970")?;
        Ok(Uuid::from_u128(ms << 80 | 0x7 << 76 | 0b10 << 62 | u128::from(number)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(events: u64, clients: u64) -> Plan {
        Plan::new(OffsetDateTime::UNIX_EPOCH + Duration::days(20_000), events, clients)
    }

    #[test]
    fn five_of_a_hundred_are_repeated_and_one_is_invalid() {
        let plan = plan(10_000, 4);
        let count = |is: fn(Kind) -> bool| (0..10_000).filter(|number| is(plan.kind(*number))).count();
        assert_eq!(count(|kind| kind == Kind::Invalid), 100);
        assert_eq!(count(|kind| matches!(kind, Kind::Again(_))), 500);
        assert_eq!(plan.stored(), 9_400);
        let again = (0..10_000).filter_map(|number| match plan.kind(number) {
            Kind::Again(earlier) => Some(plan.kind(earlier)),
            Kind::New | Kind::Invalid => None,
        });
        assert!(
            again.into_iter().all(|kind| kind == Kind::New),
            "what is repeated was stored"
        );
    }

    #[test]
    fn each_id_of_a_request_has_one_answer() {
        let plan = plan(1_000, 2);
        let count = |batch: u64| {
            let Request { body, answers } = plan.request(batch).unwrap();
            let sent: serde_json::Value = serde_json::from_str(&body).unwrap();
            let of = |word: &str| answers.iter().filter(|(_, answer)| *answer == word).count();
            (
                sent["events"].as_array().unwrap().len(),
                of("ok"),
                of("duplicate"),
                of("drop"),
            )
        };
        assert_eq!(count(0), (100, 94, 0, 1), "nothing was sent before");
        assert_eq!(count(2), (100, 94, 2, 1));
        let stored: Vec<Uuid> = (0..10)
            .flat_map(|batch| plan.request(batch).unwrap().answers)
            .filter(|(_, answer)| *answer == "ok")
            .map(|(id, _)| id)
            .collect();
        assert_eq!(stored.len() as u64, plan.stored());
        assert!(stored.iter().all(|id| plan.is_stored(*id)));
        assert!(!plan.is_stored(plan.id(50).unwrap()) && !plan.is_stored(plan.id(1_000).unwrap()));
        assert!(!plan.is_stored(plan.id(PLAIN).unwrap()));
    }
}
