//! The subscriptions of each stream, in 64 shards. A frame copies the list under the lock and is delivered outside it; the copy is
//! kept until the list changes.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::StreamKey;
use crate::list::List;
use crate::peer::Subscription;

const SHARDS: usize = 64;

/// The subscriptions that follow a stream now.
pub(crate) type Audience = Arc<[Arc<Subscription>]>;

type Shard = HashMap<StreamKey, Followers>;

/// All streams with a subscription in this process.
#[derive(Debug)]
pub(crate) struct Audiences {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Followers {
    list: List<Subscription>,
    copy: Option<Audience>,
}

impl Audiences {
    pub(crate) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
        }
    }

    pub(crate) fn add(&self, subscription: Arc<Subscription>) {
        let Some(mut shard) = self.shard(subscription.stream.as_str()) else {
            return;
        };
        let followers = shard.entry(subscription.stream.clone()).or_default();
        followers.copy = None;
        followers.list.add(subscription);
    }

    pub(crate) fn remove(&self, subscription: &Subscription) {
        let name = subscription.stream.as_str();
        let Some(mut shard) = self.shard(name) else { return };
        let Some(followers) = shard.get_mut(name) else { return };
        followers.list.remove(subscription);
        // Dropped outside the lock: it may be the last owner of many subscriptions.
        let copy = followers.copy.take();
        if followers.list.elements().is_empty() {
            shard.remove(name);
        }
        drop(shard);
        drop(copy);
    }

    /// The name of a stream and its subscriptions, if it has any.
    pub(crate) fn of(&self, stream: &str) -> Option<(StreamKey, Audience)> {
        let mut shard = self.shard(stream)?;
        let key = shard.get_key_value(stream)?.0.clone();
        let followers = shard.get_mut(stream)?;
        let list = &followers.list;
        let copy = followers.copy.get_or_insert_with(|| list.elements().into());
        Some((key, Arc::clone(copy)))
    }

    /// All streams that have subscriptions.
    pub(crate) fn streams(&self) -> Vec<StreamKey> {
        let keys = |shard: &Mutex<Shard>| -> Vec<StreamKey> {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.keys().cloned().collect()
        };
        self.shards.iter().flat_map(keys).collect()
    }

    fn shard(&self, stream: &str) -> Option<MutexGuard<'_, Shard>> {
        let place = shard_of(self.hasher.hash_one(stream));
        let shard = self.shards.get(place)?;
        Some(shard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the remainder is below 64")]
fn shard_of(hash: u64) -> usize {
    (hash % SHARDS as u64) as usize
}
