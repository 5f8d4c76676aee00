//! All peers of this process by the id of their connection, in 64 shards.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use crate::peer::Peer;

const SHARDS: usize = 64;

#[derive(Debug)]
pub(crate) struct Peers {
    shards: Box<[Mutex<HashMap<Uuid, Arc<Peer>>>]>,
}

impl Peers {
    pub(crate) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    pub(crate) fn add(&self, peer: Arc<Peer>) {
        if let Some(mut shard) = self.shard(peer.id) {
            shard.insert(peer.id, peer);
        }
    }

    pub(crate) fn remove(&self, id: Uuid) {
        let removed = self.shard(id).and_then(|mut shard| shard.remove(&id));
        drop(removed);
    }

    pub(crate) fn get(&self, id: Uuid) -> Option<Arc<Peer>> {
        self.shard(id)?.get(&id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Peer>> {
        let peers = |shard: &Mutex<HashMap<Uuid, Arc<Peer>>>| -> Vec<Arc<Peer>> {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.values().cloned().collect()
        };
        self.shards.iter().flat_map(peers).collect()
    }

    pub(crate) fn len(&self) -> usize {
        let len = |shard: &Mutex<HashMap<Uuid, Arc<Peer>>>| shard.lock().unwrap_or_else(PoisonError::into_inner).len();
        self.shards.iter().map(len).sum()
    }

    /// The last bits of an id are random.
    #[expect(clippy::cast_possible_truncation, reason = "the remainder is below 64")]
    fn shard(&self, id: Uuid) -> Option<MutexGuard<'_, HashMap<Uuid, Arc<Peer>>>> {
        let shard = self.shards.get((id.as_u128() % SHARDS as u128) as usize)?;
        Some(shard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
