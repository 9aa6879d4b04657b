//! The index of a cache: buckets of sixteen slots, one word a slot, spread over the memory nodes.
//!
//! Every engine here has one. A key belongs to one bucket. A slot that is live points to the record
//! of a key's object. A key stays in its slot while it is present.
//!
//! | engine's duty | trait |
//! |---|---|
//! | say what a slot word means | [`SlotWord`] |
//! | READ, judge and drop the record that a slot points to | [`Index`] |
//! | remove an object | [`Unlink`] |
//!
//! What follows from that is written once:
//!
//! | module | concept |
//! |---|---|
//! | [`absent`] | what is lost with a memory node |
//! | [`copies`] | copies of objects that other processes keep, and how they end |
//! | [`buckets`] | where the buckets are |
//! | [`directory`] | where the buckets are that a growing index adds |
//! | [`split`] | how a bucket is split while clients use it |
//! | [`walk`] | walks over all buckets: scan, random key, flush, count |
//! | [`examine`] | damaged objects |
//! | [`extents`] | which extents the objects have, and which no object has |
//! | [`verify`] | the invariants of every slot in a quiet pool |

pub(crate) mod absent;
pub(crate) mod buckets;
pub(crate) mod copies;
pub(crate) mod directory;
pub(crate) mod examine;
pub(crate) mod extents;
pub(crate) mod split;
pub(crate) mod verify;
pub(crate) mod walk;

use self::copies::Sharing;
use crate::extent::pins::Pins;
use crate::extent::unlisted::{Abandoned, Unlisted};
use crate::extent::{ExtentIo, Extents, LatelyBound, OpenChunk, chunks_needed};
use crate::limit::Limit;
use crate::operation::{self, Idle, Operation};
use crate::record::{Hasher, Header, LargeBody, Record};
use crate::stats::Counters;
use crate::{CacheError, Cause};
use atoll_fabric::{Address, Batch, Buffer, Endpoint, VerbError};
use atoll_pool::registry::{self, Place};
use atoll_pool::{ChunkId, Client};
use std::cell::RefCell;
use std::sync::Arc;

/// Slots of a bucket. A key has one bucket. With half of the slots in use, one bucket in some
/// thousand is full.
pub const BUCKET_SLOTS: usize = 16;
/// Bytes of a bucket's slots. They lie in front of the rest of the bucket.
pub const SLOTS_BYTES: u64 = 8 * BUCKET_SLOTS as u64;
/// Tries of an operation that finds only unsound records. After these the pool is damaged.
pub(crate) const ATTEMPTS_MAX: u32 = 10_000;

/// The bucket of a key with this hash, in an index of so many buckets.
#[inline]
pub(crate) fn bucket_of(hash: u64, buckets: u32) -> u32 {
    (((hash & 0xffff_ffff) * u64::from(buckets)) >> 32) as u32
}

/// The fingerprint of a key with this hash. None of its bits chooses the bucket.
#[inline]
pub(crate) fn fingerprint_of(hash: u64) -> u8 {
    (hash >> 56) as u8
}

/// The bits of a key's hash by which its bucket is split. They hardly take part in the choice of
/// the bucket.
#[inline]
pub(crate) fn split_of(hash: u64) -> u8 {
    hash as u8 & 0x7f
}

/// The number of a bucket's first slot.
#[inline]
pub(crate) fn first_slot(bucket: u32) -> u64 {
    u64::from(bucket) * BUCKET_SLOTS as u64
}

/// The bucket of a slot.
#[inline]
pub(crate) fn bucket_of_slot(slot: u64) -> u32 {
    (slot / BUCKET_SLOTS as u64) as u32
}

/// A slot word, as an engine encodes it.
pub(crate) trait SlotWord: Copy + Eq {
    /// The word with these bits.
    fn from_bits(bits: u64) -> Self;

    /// Its bits.
    fn bits(self) -> u64;

    /// Whether an insertion may use the slot as if it were empty.
    fn is_free(self) -> bool;

    /// Whether a lookup sees an object in the slot.
    fn is_live(self) -> bool;

    /// Whether an insertion is undecided in the slot.
    fn is_pending(self) -> bool;

    /// Whether the object's key and value lie in extents.
    fn is_large(self) -> bool;

    /// The fingerprint of a live word's key.
    fn fingerprint(self) -> u8;

    /// The empty word in place of this one.
    fn emptied(self) -> Self;

    /// The lowest of the two bits that say in a live word whether there may be copies.
    const SHARING_SHIFT: u32;

    /// Whether there may be copies of the object; of none if the word is not live.
    #[inline]
    fn sharing(self) -> Sharing {
        match self.bits() >> Self::SHARING_SHIFT & 3 {
            0 => Sharing::None,
            _ if !self.is_live() => Sharing::None,
            1 => Sharing::Copied,
            _ => Sharing::Closed,
        }
    }

    /// The same live word with another state of its copies.
    fn shared_as(self, sharing: Sharing) -> Self {
        Self::from_bits(self.bits() & !(3 << Self::SHARING_SHIFT) | (sharing as u64) << Self::SHARING_SHIFT)
    }
}

/// Makes an engine's slot, a word with methods of its own, the [`SlotWord`] of its index.
macro_rules! slot_word {
    ($slot:ty, sharing at $shift:expr) => {
        impl $crate::index::SlotWord for $slot {
            const SHARING_SHIFT: u32 = $shift;

            #[inline(always)]
            fn from_bits(bits: u64) -> Self {
                Self(bits)
            }

            #[inline(always)]
            fn bits(self) -> u64 {
                self.0
            }

            fn is_free(self) -> bool {
                Self::is_free(self)
            }

            fn is_live(self) -> bool {
                Self::is_live(self)
            }

            fn is_pending(self) -> bool {
                Self::is_pending(self)
            }

            fn is_large(self) -> bool {
                Self::is_large(self)
            }

            fn fingerprint(self) -> u8 {
                Self::fingerprint(self)
            }

            fn emptied(self) -> Self {
                Self::emptied(self)
            }
        }
    };
}
pub(crate) use slot_word;

/// Implements the methods of [`Index`] that return fields of the same names in each engine.
macro_rules! index_parts {
    ($endpoint:ty, $word:ty, $notes:ty) => {
        type Endpoint = $endpoint;
        type Word = $word;
        type Notes = $notes;

        #[inline(always)]
        fn member(&self) -> &atoll_pool::Client<$endpoint> {
            &self.client
        }

        #[inline(always)]
        fn hasher(&self) -> &$crate::record::Hasher {
            &self.shared.hasher
        }

        fn idle(&self) -> &$crate::operation::Idle<$word, $notes> {
            &self.operations
        }

        fn counters(&self) -> &$crate::stats::Counters {
            &self.stats
        }

        fn limit(&self) -> &$crate::limit::Limit {
            &self.limit
        }

        fn lately_bound(&self) -> &std::cell::RefCell<$crate::extent::LatelyBound> {
            &self.lately_bound
        }

        fn pins(&self) -> &std::sync::Arc<$crate::extent::pins::Pins> {
            &self.shared.pins
        }

        fn abandoned(&self) -> &std::sync::Arc<$crate::extent::unlisted::Abandoned> {
            &self.abandoned
        }
    };
}
pub(crate) use index_parts;

/// Implements the methods of [`Index`] that say where the buckets are of an index that keeps its
/// size.
macro_rules! fixed_buckets {
    () => {
        fn buckets(&self) -> u32 {
            self.shared.layout.buckets().count()
        }

        fn first_buckets(&self) -> u32 {
            self.shared.layout.buckets().count()
        }

        #[inline(always)]
        fn slot_at(&self, slot: u64) -> atoll_fabric::Address {
            self.shared.layout.slot(slot)
        }

        async fn read_slots(&self, first: u32, most: u32) -> Result<Vec<u64>, $crate::CacheError> {
            Ok(self.shared.layout.buckets().read_slots(&self.client.endpoint, &self.spares, first, most).await?)
        }
    };
}
pub(crate) use fixed_buckets;

/// What a client saw of a slot's record.
pub(crate) enum Look {
    /// The slot has changed, so the look proves nothing about the record.
    Changed,
    /// The slot still has its word, and the record is unsound.
    Damaged,
    /// The slot's own record. It is in the operation's buffer.
    Sound(Header, Option<Box<LargeBody>>),
}

/// The index of an engine, as one client uses it.
#[allow(async_fn_in_trait)]
pub(crate) trait Index {
    /// The client's way to the pool.
    type Endpoint: Endpoint;
    /// The engine's slot word.
    type Word: SlotWord;
    /// The notes that the engine takes in an operation.
    type Notes: operation::Notes;

    /// The client of the pool.
    fn member(&self) -> &Client<Self::Endpoint>;

    /// Hashes keys and records.
    fn hasher(&self) -> &Hasher;

    /// Operations of this client that are not under way.
    fn idle(&self) -> &Idle<Self::Word, Self::Notes>;

    /// This client's counters.
    fn counters(&self) -> &Counters;

    /// This client's reservation below the limit of objects.
    fn limit(&self) -> &Limit;

    /// The extents that this client has bound lately.
    fn lately_bound(&self) -> &RefCell<LatelyBound>;

    /// What this process keeps of the pool for its peers.
    fn pins(&self) -> &Arc<Pins>;

    /// Unlisted extents that this client has dropped.
    fn abandoned(&self) -> &Arc<Abandoned>;

    /// Buckets of the index, as far as this client knows.
    fn buckets(&self) -> u32;

    /// Buckets of the index when it was new.
    fn first_buckets(&self) -> u32;

    /// READs how many buckets the index has now.
    async fn learn_buckets(&self) -> Result<(), CacheError> {
        Ok(())
    }

    /// The bucket of a key with this hash.
    fn bucket_of_hash(&self, hash: u64) -> u32 {
        bucket_of(hash, self.buckets())
    }

    /// The bucket with this home number, which says where keys are whatever the size of the index.
    /// `None` if there is no such number.
    fn bucket_of_home(&self, home: u64) -> Option<u32> {
        u32::try_from(home).ok().filter(|bucket| *bucket < self.buckets())
    }

    /// Where a slot is, by its number: bucket * 16 + place.
    fn slot_at(&self, slot: u64) -> Address;

    /// READs the slots of the buckets from `first` on: at least one bucket, at most so many, and as
    /// many as lie in one piece. No bucket of them is being split.
    async fn read_slots(&self, first: u32, most: u32) -> Result<Vec<u64>, CacheError>;

    /// The address of a word's record, how many bytes to READ, and its chunk. `None` if the word
    /// points outside the heap that this client knows.
    fn record_span(&self, word: Self::Word) -> Option<(Address, usize, ChunkId)>;

    /// A hole: whether this client treats a word that points outside its known heap as damaged,
    /// without looking for new memory nodes.
    fn ignores_new_nodes(&self) -> bool;

    /// The record in a buffer, if it is sound and the word's own.
    fn judged<'r>(&self, word: Self::Word, record: &'r mut Buffer) -> Option<Record<'r>>;

    /// Looks at the record of a slot with this word, and distinguishes a damaged record from a
    /// reused one. Nothing reuses the record until [`Index::end_look`].
    async fn look(
        &self,
        op: &mut Operation<Self::Word, Self::Notes>,
        slot: u64,
        word: Self::Word,
    ) -> Result<Look, CacheError>;

    /// Ends a look: the record may be reused.
    fn end_look(&self, op: &mut Operation<Self::Word, Self::Notes>);

    /// Drops the object of a slot whose record is unsound, if the slot still has this word. No
    /// client wrote such a record, and every later lookup would find it again.
    async fn drop_damaged(&self, slot: u64, word: Self::Word) -> Result<(), CacheError>;

    /// READs and WRITEs extents.
    fn extent_io(&self) -> ExtentIo<'_, Self::Endpoint> {
        ExtentIo { client: self.member(), hasher: self.hasher(), pins: self.pins(), abandoned: self.abandoned() }
    }

    /// As [`Index::record_span`], also if the record is on a node that this client does not know
    /// yet.
    #[inline]
    async fn find_record(&self, word: Self::Word) -> Result<Option<(Address, usize, ChunkId)>, CacheError> {
        match self.record_span(word) {
            None if self.member().pool.layout.may_grow() && !self.ignores_new_nodes() => {
                self.member().learn_nodes().await?;
                Ok(self.record_span(word))
            }
            span => Ok(span),
        }
    }

    /// An error if the bucket is on a memory node that is gone, so that no key can be inserted.
    #[inline(always)]
    fn check_present(&self, bucket: u32) -> Result<(), CacheError> {
        let at = self.slot_at(first_slot(bucket));
        if self.member().is_absent(at) { Err(CacheError::NodeAbsent { node: at.node() }) } else { Ok(()) }
    }

    /// A slot's word now.
    async fn slot_word(&self, slot: u64) -> Result<Self::Word, CacheError> {
        let mut batch = Batch::new();
        let word = batch.read_word(self.slot_at(slot));
        self.member().endpoint.post(&mut batch).await?;
        Ok(Self::Word::from_bits(batch.word(word)))
    }

    /// Changes a slot's word from one to another; returns whether it had the first.
    async fn swap_slot(&self, slot: u64, from: Self::Word, to: Self::Word) -> Result<bool, CacheError> {
        let mut batch = Batch::new();
        let swap = batch.compare_and_swap(self.slot_at(slot), from.bits(), to.bits());
        self.member().endpoint.post(&mut batch).await?;
        Ok(batch.swapped(swap))
    }

    /// READs the record of a word without a look at its slot. Returns the record's header, if it is
    /// sound and belongs to the word. The record is in the operation's buffer.
    async fn read_record(
        &self,
        op: &mut Operation<Self::Word, Self::Notes>,
        word: Self::Word,
    ) -> Result<Option<(Header, Option<LargeBody>)>, CacheError> {
        let Some((at, bytes, _)) = self.find_record(word).await? else { return Ok(None) };
        let mut buffer = std::mem::take(&mut op.record);
        buffer.resize(bytes);
        op.record = self.member().endpoint.read(at, buffer).await?;
        Ok(self.judged(word, &mut op.record).map(|record| (record.header, record.large())))
    }

    /// Counts objects that this client removed or evicted.
    async fn count_removed(&self, objects: u64) -> Result<(), CacheError> {
        self.member().count_objects(-(objects as i64)).await?;
        Limit::note_removed(self.member(), objects);
        Ok(())
    }

    /// WRITEs key and value into chunks that the operation has drawn and that are `open`: exactly
    /// as many as they need.
    async fn write_extents(
        &self,
        op: &mut Operation<Self::Word, Self::Notes>,
        open: Vec<OpenChunk>,
        home: u32,
        body: (&[u8], &[u8]),
    ) -> Result<(Unlisted, LargeBody), CacheError> {
        let (key, value) = body;
        let (bodies, lists) = chunks_needed(key.len() + value.len(), self.member().pool.layout.chunk_bytes);
        assert_eq!(open.len(), bodies + lists, "an operation draws as many chunks as its object needs");
        let outgoing = std::mem::take(&mut op.outgoing);
        let (extents, body, outgoing) = self.extent_io().write_extents(open, home, key, value, outgoing).await?;
        op.outgoing = outgoing;
        Ok((extents, body))
    }

    /// Notes that the object of these extents, which this client wrote, is published.
    fn bind_extents(&self, extents: &Extents) {
        self.lately_bound().borrow_mut().note(extents);
        self.extent_io().bind_extents(extents);
    }
}

/// Removes single objects of an index.
#[allow(async_fn_in_trait)]
pub(crate) trait Unlink {
    /// The index.
    type Index: Index;

    /// The index.
    fn index(&self) -> &Self::Index;

    /// Removes the object of a slot, if the slot still has this word; returns whether it did. The
    /// object is noted under `cause`; without one, the caller notes it. The caller ends the look if
    /// the slot has changed.
    async fn unlink(
        &self,
        op: &mut Operation<<Self::Index as Index>::Word, <Self::Index as Index>::Notes>,
        slot: u64,
        word: <Self::Index as Index>::Word,
        cause: Option<Cause>,
    ) -> Result<bool, CacheError>;

    /// Whether this client leaves an expired object in its slot: a hole.
    fn leaves_expired(&self) -> bool;

    /// Removes an expired object before any caller learns that it has expired. A client that found
    /// it live a moment ago can then not publish it again. `false` if the slot has changed.
    async fn take_expired(
        &self,
        op: &mut Operation<<Self::Index as Index>::Word, <Self::Index as Index>::Notes>,
        slot: u64,
        word: <Self::Index as Index>::Word,
    ) -> Result<bool, CacheError> {
        if self.leaves_expired() {
            return Ok(true);
        }
        let removed = self.unlink(op, slot, word, Some(Cause::Expired)).await?;
        self.index().end_look(op);
        self.index().counters().expirations.add(u64::from(removed));
        Ok(removed)
    }
}

/// Makes the place of a client that stood still Fenced; returns whether this client did. With
/// `forced`, a hole, the client is declared dead even if it is not shut out.
pub(crate) async fn fence_suspect<E: Endpoint>(
    client: &Client<E>,
    place: &Place,
    forced: bool,
) -> Result<bool, VerbError> {
    match forced {
        true => registry::declare_dead(&client.endpoint, &client.pool, place).await,
        false => registry::fence_suspect(&client.endpoint, &client.pool, place).await,
    }
}
