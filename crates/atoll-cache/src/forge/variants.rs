//! FORGE without one or the other of its techniques, to see what each is worth (FORGE 6.7, Fig.
//! 18).
//!
//! All clients of a pool do without the same ones. Then what they promise is what the engine
//! promises: a variant adds locks, round trips or bytes to steps that are sound without them. The
//! exception are dead clients: nobody repairs a lock that one of them held, so that variants with
//! locks are for runs without faults. What a variant needs besides the pool is in an area of its
//! own, all zero when the first client comes, so that the format of pools knows nothing of
//! variants:
//!
//! ```text
//! 0                 64                128                  128 + 8 B a bucket
//! +-----------------+-----------------+--------------------+-------------------------------------------+
//! | lock of the     | lock of the     | locks of buckets,  | counters: 16 bits an object of every      |
//! | small queue     | main queue      | 8 B each           | chunk, four to a word                     |
//! +-----------------+-----------------+--------------------+-------------------------------------------+
//! ```
//!
//! A lock is 0 or 1. Who swaps 0 for 1 has it, and gives it back by a WRITE of 0, for which it does
//! not wait; no other verb changes a lock that is held. A bucket's lock is never held while room is
//! made, and nothing is locked under a queue's: a bucket's comes before a queue's, so that no two
//! clients wait for each other. Counters: atomics only.

use super::Forge;
use super::group::MapEntry;
use super::layout::{BUCKET_SLOTS, Queue};
use super::leaving::LeavingParts;
use super::settings::ForgeSettings;
use super::slot::{KeyHash, Slot};
use super::technique::Technique;
use crate::CacheError;
use atoll_fabric::purpose::Scope;
use atoll_fabric::{Address, BATCH_VERBS_MAX, Batch, Buffer, Endpoint, Purpose};
use atoll_pool::{ChunkId, PoolError, PoolSettings};

const LINE: u64 = 64;
const LOCKED: u64 = 1;
/// Longest pause after the first failure to take a lock; it doubles with each further one.
const LOCK_PAUSE_NS: u64 = 1_000;
/// Doublings of that pause.
const LOCK_DOUBLINGS: u32 = 5;

/// Which of FORGE's techniques a client does without. All off: the engine as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    /// Without the lock-free index (FORGE 4.2, where a slot of two words is updated without a lock
    /// by versions). Our slot is one word and needs neither; here every change holds its bucket's
    /// lock from its first look at the bucket to its last effect, which serializes writers as slots
    /// with locks do.
    pub locked_index: bool,
    /// Without the contention-free queue (FORGE 5.1, where fetch-and-add hands out tickets). Here
    /// whoever puts a group in or takes one out holds the queue's lock meanwhile, and READs and
    /// then moves the cursor.
    pub locked_queues: bool,
    /// Without lightweight regrouping (FORGE 5.3, where a two-way index map says where objects and
    /// slots are). Here an evictor READs the whole group, goes through its records for their keys,
    /// and READs the bucket of each.
    pub whole_groups: bool,
    /// Without the hotness-aware queue (FORGE 5.4, 5.5: two queues, virtual segments, groups that
    /// are mostly active put back). Here all groups pass through one queue; what was hot in those
    /// that are evicted goes to its tail in a new group, like what is new. Ghosts are an option of
    /// the pool.
    pub plain_queue: bool,
    /// Without lazy synchronization of hotness (FORGE 5.2, where accesses are counted at home until
    /// the group nears the queue's head). Here every hit adds one to the object's counter in the
    /// pool at once, by a fetch-and-add that nobody waits for.
    pub eager_hotness: bool,
}

impl Variant {
    /// Without any of the techniques: groups, and a FIFO of them (the baseline of FORGE 6.7).
    pub const BASELINE: Self =
        Self { locked_index: true, locked_queues: true, whole_groups: true, plain_queue: true, eager_hotness: true };

    /// Bytes of the area that variants of a pool with these settings need.
    pub fn area_bytes(settings: &PoolSettings) -> Result<u64, PoolError> {
        let bytes = settings.capacity_bytes.saturating_add(settings.growth_bytes_max);
        let chunks = bytes / u64::from(settings.chunk_bytes.max(1));
        Ok(counters_offset(&ForgeSettings::decode(settings)?) + chunks * counter_bytes(settings))
    }
}

fn counters_offset(settings: &ForgeSettings) -> u64 {
    2 * LINE + 8 * u64::from(settings.buckets)
}

/// Bytes of one chunk's counters.
fn counter_bytes(settings: &PoolSettings) -> u64 {
    u64::from(2 * settings.group_objects_max).next_multiple_of(8)
}

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// Lets this client do without some techniques; `area` is where the variants' area begins. To
    /// be called before its first operation, by all clients of the pool or by none.
    pub fn set_variant(&mut self, variant: Variant, area: Address) {
        (self.variant, self.variant_area) = (variant, area);
    }

    /// The lock of a queue.
    pub(super) fn queue_lock(&self, queue: Queue) -> Address {
        self.variant_area.add(queue as u64 * LINE)
    }

    /// The lock of a key's bucket.
    pub(super) fn bucket_lock(&self, hash: KeyHash) -> Address {
        self.variant_area.add(2 * LINE + 8 * u64::from(hash.bucket))
    }

    /// The counters of a chunk's objects.
    pub(super) fn chunk_counters(&self, chunk: ChunkId) -> Address {
        let bytes = counter_bytes(&self.client.pool.settings);
        self.variant_area.add(counters_offset(&self.shared.settings) + u64::from(chunk.0) * bytes)
    }

    /// Takes a lock, with pauses of random length between looks at one that is held.
    pub(super) async fn lock(&self, at: Address) -> Result<(), CacheError> {
        let mut tried = 0;
        loop {
            let mut batch = Batch::new();
            let swap = batch.compare_and_swap(at, 0, LOCKED);
            self.client.endpoint.post(&mut batch).await?;
            if batch.swapped(swap) {
                return Ok(());
            }
            loop {
                self.client.endpoint.pause(self.client.endpoint.random() % (LOCK_PAUSE_NS << tried)).await;
                tried = LOCK_DOUBLINGS.min(tried + 1);
                if atoll_pool::read_word(&self.client.endpoint, at).await? == 0 {
                    break;
                }
            }
        }
    }

    /// Gives a lock back that this client has. Until the WRITE lands nobody else, nor this client,
    /// can take it.
    pub(super) fn unlock(&self, at: Address) {
        let mut batch = Batch::new();
        batch.write_word(at, 0);
        self.client.endpoint.post_unawaited(&mut batch);
    }

    /// Counts an access in the pool, which a counter of 16 bits holds until its group is evicted:
    /// one that overflows is a count too many for the next object, and all of them are hints.
    #[cold]
    pub(super) fn count_in_pool(&self, chunk: ChunkId, number: u16) {
        if u32::from(number) >= self.client.pool.settings.group_objects_max {
            return;
        }
        let mut batch = Batch::new();
        let word = self.chunk_counters(chunk).add(8 * u64::from(number / 4));
        batch.fetch_and_add(word, 1 << (16 * (number % 4)));
        let _scope = Scope::new(&self.client.endpoint, Purpose::Hotness);
        self.client.endpoint.post_unawaited(&mut batch);
    }

    /// READs a whole group that this client owns, and finds the slot of each of its objects by the
    /// object's key. `None` if the chunk does not hold as many records as it should: then something
    /// else than a client wrote to it, and the map must serve.
    pub(super) async fn read_whole_group(
        &self,
        chunk: ChunkId,
        generation: u32,
        objects: usize,
    ) -> Result<Option<LeavingParts>, CacheError> {
        let layout = &self.client.pool.layout;
        let mut bytes = Buffer::new();
        bytes.resize(layout.chunk_bytes as usize);
        let mut bytes = self.client.endpoint.read(layout.chunk(chunk), bytes).await?;
        let mut records = self.parse(&mut bytes, generation);
        if records.len() < objects {
            return Ok(None);
        }
        records.truncate(objects);
        let mut entries = Vec::with_capacity(objects);
        for part in records.chunks(BATCH_VERBS_MAX) {
            let mut batch = Batch::new();
            for record in part {
                let mut bucket = Buffer::new();
                bucket.resize(8 * BUCKET_SLOTS);
                batch.read(self.shared.layout.bucket(record.hash.bucket), bucket);
            }
            self.client.endpoint.post(&mut batch).await?;
            for (index, record) in part.iter().enumerate() {
                let bucket = batch.take_nth(index);
                // A record has no place for the frequency that its object brings along: that alone
                // is taken from the map, which was READ with the rest.
                let map = &bytes.words()[bytes.words().len() - objects..];
                let MapEntry { carry, .. } = MapEntry::from_word(map[objects - 1 - entries.len()]);
                let first = u64::from(record.hash.bucket) * BUCKET_SLOTS as u64;
                let entry = MapEntry { carry, ..record.map_entry(first) };
                let words = bucket.words().iter().map(|word| Slot(*word));
                let mut here = words.enumerate().filter(|(_, word)| self.points_to(*word, chunk, generation, &entry));
                entries.push(match here.next() {
                    Some((place, word)) => (MapEntry { slot: first + place as u64, ..entry }, Some(word)),
                    None => (entry, None),
                });
            }
        }
        Ok(Some(LeavingParts { entries, is_known: true, bytes }))
    }
}
