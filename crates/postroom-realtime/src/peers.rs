//! All peers of this process by the id of their connection, in 64 shards.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use crate::peer::Peer;

const SHARDS: usize = 64;

type Shard = HashMap<Uuid, Arc<Peer>>;

#[derive(Debug)]
pub(crate) struct Peers {
    shards: Box<[Mutex<Shard>]>,
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
        let peers = |shard: &Mutex<Shard>| -> Vec<Arc<Peer>> {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.values().cloned().collect()
        };
        self.shards.iter().flat_map(peers).collect()
    }

    pub(crate) fn len(&self) -> usize {
        let len = |shard: &Mutex<Shard>| shard.lock().unwrap_or_else(PoisonError::into_inner).len();
        self.shards.iter().map(len).sum()
    }

    /// The last bits of an id are random.
    fn shard(&self, id: Uuid) -> Option<MutexGuard<'_, Shard>> {
        let shard = self.shards.get((id.as_u128() % SHARDS as u128) as usize)?;
        Some(shard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
