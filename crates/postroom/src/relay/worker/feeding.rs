//! How a worker follows the feed of its route: it reads the whole log until the broker feeds the route, and notes how far the
//! broker has brought everything.

use std::time::{Duration, Instant};

use uuid::Uuid;

use super::progress::commit;
use super::{ShardWorker, Work};
use crate::error::Result;
use crate::event::entry::{Entry, Position};
use crate::route::To;
use crate::state::feeding::{self, Feeding};
use crate::state::{cursor, known_failures};
use crate::store::outbox::with_timeout;
use crate::store::tx::Tx;
use crate::store::{inbox, table};

/// Between two looks at what the broker has brought meanwhile.
const LOOK: Duration = Duration::from_secs(2);
/// Events that are looked up in one statement.
const LOOK_UP: usize = 500;

/// The feed of a route.
#[derive(Debug)]
pub(super) enum Stage {
    /// The log.
    Log {
        /// Up to here the log may hold what a broker brought before.
        again_to: Option<Position>,
        /// The number of the route from which on its group must have joined: another process may have told the broker before what it
        /// does not want.
        joined_from: i64,
        /// The end of the log, as it was when the broker's group had joined; from there on the broker can feed the route.
        joined_at: Option<Position>,
    },
    /// The broker.
    Fed {
        /// Everything that the route wants up to here is handled or kept.
        handled_to: Position,
        look_at: Instant,
    },
}

impl Stage {
    pub(super) fn is_fed(&self) -> bool {
        matches!(self, Self::Fed { .. })
    }

    pub(super) fn is_joining(&self) -> bool {
        matches!(self, Self::Log { joined_at: None, .. })
    }
}

impl Work {
    /// Under which lease, and on which server, it may be noted how far the route is handled.
    fn holder(&self) -> feeding::Holder<'_> {
        feeding::Holder {
            epoch: self.epoch,
            server: &self.server,
        }
    }

    /// When to look what the broker has brought, if something is open.
    pub(super) fn look_at(&self) -> Option<Instant> {
        match self.stage {
            Stage::Fed { handled_to, look_at } if handled_to != self.log.position => Some(look_at),
            _ => None,
        }
    }

    /// Whether what comes next in the log may have been brought by a broker before.
    pub(super) fn reads_again(&self) -> bool {
        matches!(self.stage, Stage::Log { again_to: Some(_), .. })
    }
}

impl ShardWorker {
    /// Reads who feeds the route. One that was fed in another way is set back to what may be unhandled. The caller has locked
    /// the cursor.
    pub(super) async fn stage(&self, tx: &Tx, version: i64) -> Result<Stage> {
        let fed = feeding::read(tx, &self.shard).await?;
        let mark = self.feeding.as_ref().map(|feeding| &feeding.mark);
        let is_set_back = fed.by.is_some();
        let is_same = mark.is_some_and(|mark| fed.is_by(mark));
        let again_to = match (fed.by, fed.handled_to) {
            (Some(_), Some(handled_to)) if is_same => {
                let look_at = Instant::now();
                return Ok(Stage::Fed { handled_to, look_at });
            }
            (Some(before), handled_to) => {
                tracing::info!(route = %self.route.name, before, now = mark, "the route is fed in another way; it reads the log first");
                let from = match handled_to {
                    Some(handled_to) => handled_to,
                    None => cursor::read(tx, &self.shard).await?.position,
                };
                let head = self.pages.outbox().head().await?;
                feeding::set_back(tx, &self.shard, from, head).await?;
                Some(head)
            }
            (None, again_to) => again_to,
        };
        Ok(Stage::Log {
            again_to,
            joined_from: version + i64::from(is_set_back),
            joined_at: None,
        })
    }

    /// Goes on in the change of a feed, or notes what the broker has brought.
    pub(super) async fn follow_feed(&self, work: &mut Work) -> Result<()> {
        while self.change_feed(work).await? {}
        match (&work.stage, &self.feeding) {
            (Stage::Fed { handled_to, look_at }, Some(feeding))
                if *handled_to != work.log.position && *look_at <= Instant::now() =>
            {
                self.note_handled(work, feeding, *handled_to).await
            }
            _ => Ok(()),
        }
    }

    /// Takes the next step from the log to the broker, if it can be taken now.
    async fn change_feed(&self, work: &mut Work) -> Result<bool> {
        let Stage::Log {
            again_to,
            joined_from,
            joined_at,
        } = work.stage
        else {
            return Ok(false);
        };
        let is_reached = |place: Option<Position>| place.is_some_and(|place| work.log.position.has_reached(place));
        match &self.feeding {
            _ if is_reached(again_to) => self.forget_before(work).await?,
            Some(feeding) if is_reached(joined_at) => self.hand_over(work, feeding).await?,
            Some(_) if joined_at.is_none() && self.has_joined(joined_from) => {
                let outbox = self.pages.outbox();
                with_timeout(outbox.pulse()).await?;
                let joined_at = Some(with_timeout(outbox.head()).await?);
                work.stage = Stage::Log {
                    again_to,
                    joined_from,
                    joined_at,
                };
            }
            Some(_) | None => return Ok(false),
        }
        Ok(true)
    }

    /// Whether the group of the route has joined since the route had this number.
    fn has_joined(&self, from: i64) -> bool {
        let joined = self.joined.borrow();
        joined.get(&self.route.name).is_some_and(|version| *version >= from)
    }

    /// Everything that a broker may have brought before has been read again.
    async fn forget_before(&self, work: &mut Work) -> Result<()> {
        with_timeout(async {
            let tx = table::begin_own(self.pages.outbox().db()).await?;
            cursor::fence(&tx, &self.shard, work.epoch).await?;
            feeding::forget_before(&tx, &self.shard, work.holder()).await?;
            commit(tx).await
        })
        .await?;
        if let Stage::Log { again_to, .. } = &mut work.stage {
            *again_to = None;
        }
        Ok(())
    }

    /// Everything before the group joined has been read from the log: from here on the broker feeds the route.
    async fn hand_over(&self, work: &mut Work, feeding: &Feeding) -> Result<()> {
        let (position, step) = (work.log.position, work.step(work.log.position));
        with_timeout(async {
            let tx = table::begin_own(self.pages.outbox().db()).await?;
            cursor::advance(&tx, &self.shard, &step, work.log.unsettled).await?;
            feeding::hand_over(&tx, &self.shard, &feeding.mark, position).await?;
            commit(tx).await
        })
        .await?;
        tracing::info!(route = %self.route.name, broker = feeding.mark, "the broker feeds the route from now on");
        work.settled_to(position);
        work.stage = Stage::Fed {
            handled_to: position,
            look_at: Instant::now() + LOOK,
        };
        Ok(())
    }

    /// Moves the mark of what is handled up to the first entry that is not.
    async fn note_handled(&self, work: &mut Work, feeding: &Feeding, handled_to: Position) -> Result<()> {
        let slice = self.pages.read(handled_to).await?;
        let wanted = slice.entries().iter();
        let wanted: Vec<&Entry> = wanted
            .filter(|entry| self.route.filter.matches(&entry.event.event_type))
            .collect();
        let open = with_timeout(self.open(&wanted)).await?;
        let to = match open.first().map(|entry| last_before(slice.entries(), entry)) {
            None => slice.next(),
            Some(Some(last)) => slice.after(last.id),
            Some(None) => handled_to,
        };
        if to != handled_to {
            with_timeout(async {
                let tx = table::begin_own(self.pages.outbox().db()).await?;
                feeding::note_handled(&tx, &self.shard, (work.holder(), &feeding.mark), (handled_to, to)).await?;
                commit(tx).await
            })
            .await?;
        }
        let is_passed = open.is_empty() && to != handled_to;
        work.stage = Stage::Fed {
            handled_to: to,
            look_at: Instant::now() + if is_passed { Duration::ZERO } else { LOOK },
        };
        Ok(())
    }

    /// Those of these entries that the route has neither handled, nor parked, nor given up, and that no route which publishes to
    /// it has given up.
    pub(super) async fn open<'a>(&self, entries: &[&'a Entry]) -> Result<Vec<&'a Entry>> {
        let To::Subscriber(subscriber) = &self.route.to else {
            return Ok(entries.to_vec());
        };
        let publishers = self.feeding.as_ref().map_or(&[][..], |feeding| &feeding.publishers);
        let tx = table::look(self.pages.outbox().db()).await?;
        let mut open = Vec::new();
        for some in entries.chunks(LOOK_UP) {
            let keys: Vec<String> = some
                .iter()
                .map(|entry| subscriber.idempotency_key(&entry.event))
                .collect();
            let known = inbox::known(&tx, &keys).await?;
            let unknown = some.iter().zip(&keys).filter(|(_, key)| !known.contains(*key));
            let unknown: Vec<&Entry> = unknown.map(|(entry, _)| *entry).collect();
            let ids: Vec<Uuid> = unknown.iter().map(|entry| entry.event.id).collect();
            let kept = known_failures::accounted_for(&tx, &self.route.name, publishers, &ids).await?;
            open.extend(unknown.into_iter().filter(|entry| !kept.contains(&entry.event.id)));
        }
        tx.commit().await?;
        Ok(open)
    }
}

/// The entry before this one.
fn last_before<'a>(entries: &'a [Entry], entry: &Entry) -> Option<&'a Entry> {
    entries.iter().take_while(|other| other.id != entry.id).last()
}
