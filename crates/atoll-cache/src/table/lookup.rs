//! How a client answers a GET: READ the slots of the key's bucket, READ the block, check the
//! record. A GET costs two round trips and takes no lock. The client records the access in the pool
//! without waiting.
//!
//! | what the block READ says | then |
//! |---|---|
//! | a whole record of the slot's tag, this key | hit, as of the moment when the bucket was READ |
//! | the same, another key | an equal fingerprint: the next slot |
//! | torn, or of another tag | the block was reused meanwhile: retry |
//!
//! A tag comes back at the same place only after every operation has ended that could remember it
//! (see `stock`). So a record that passes is the slot's own. A key that is present throughout stays
//! in one slot. So a lookup that READs the bucket word by word, in any order, cannot miss it.

use super::access::ACCESS_WORDS;
use super::layout::{ACCESS_BYTES, BUCKET_SLOTS, SLOTS_BYTES};
use super::operation::Operation;
use super::replacement::{Accessed, Replacement};
use super::slot::{KeyHash, Slot};
use super::{Core, Hole, Objects};
use crate::candidate::Candidate;
use crate::index::examine::drop_damaged_of;
use crate::index::{ATTEMPTS_MAX, Index, Unlink};
use crate::record::Header;
use crate::{CacheError, Lookup, Meta, Value};
use atoll_fabric::{Address, Batch, Buffer, Endpoint};

/// Attempts after which a lookup examines the object for damage.
const REREADS_MAX: u32 = 16;

/// The words beside an object, where there are extensions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beside {
    /// The extension: the words in front of the object's record.
    pub(super) extension: arrayvec::ArrayVec<u64, { super::settings::EXTENSION_WORDS_MAX as usize }>,
    /// Its slot's access information.
    pub(super) information: arrayvec::ArrayVec<u64, ACCESS_WORDS>,
}

impl Beside {
    /// The access information, if it was READ.
    pub(super) fn information(&self) -> Option<&[u64]> {
        (!self.information.is_empty()).then_some(&self.information)
    }
}

impl<E: Endpoint> Core<E> {
    /// READs the slots of a key's bucket.
    #[inline]
    pub(super) async fn read_bucket(&self, op: &mut Operation, hash: KeyHash) -> Result<(), CacheError> {
        let mut buffer = std::mem::take(&mut op.bucket);
        buffer.resize(SLOTS_BYTES as usize);
        op.bucket = self.client.endpoint.read(self.shared.layout.bucket(hash.bucket), buffer).await?;
        Ok(())
    }

    /// READs a slot's block into `into`, with its extents if the object is large, and judges it.
    pub(super) async fn read_candidate(
        &self,
        slot: u64,
        word: Slot,
        key: &[u8],
        into: &mut Value,
        beside: &mut Beside,
    ) -> Result<Candidate, CacheError> {
        let Some((at, bytes, _)) = self.find_record(word).await? else { return Ok(Candidate::Reused) };
        let mut buffer = into.emptied();
        buffer.resize(bytes);
        into.buffer = self.read_block(slot, at, buffer, beside).await?;
        self.judge_candidate(word, key, into).await
    }

    /// READs a block. Where there are extensions, it fills `beside` too.
    #[inline]
    pub(super) async fn read_block(
        &self,
        slot: u64,
        at: Address,
        buffer: Buffer,
        beside: &mut Beside,
    ) -> Result<Buffer, CacheError> {
        beside.extension.clear();
        beside.information.clear();
        let words = self.extension_bytes() / 8;
        if words == 0 {
            return Ok(self.client.endpoint.read(at, buffer).await?);
        }
        let mut information = Buffer::new();
        information.resize(ACCESS_BYTES as usize);
        let mut batch = Batch::new();
        let block = batch.read(at, buffer);
        let information = batch.read(self.shared.layout.access(slot), information);
        self.client.endpoint.post(&mut batch).await?;
        let block = batch.take(block);
        beside.extension.extend(block.words().iter().copied().take(words));
        beside.information.extend(batch.take(information).words().iter().copied().take(ACCESS_WORDS));
        Ok(block)
    }

    /// Judges the block in `into`, completing a large object.
    pub(super) async fn judge_candidate(
        &self,
        word: Slot,
        key: &[u8],
        into: &mut Value,
    ) -> Result<Candidate, CacheError> {
        if self.is_open(Hole::Validation) {
            let (extension, bytes) = (self.extension_bytes(), into.buffer.len());
            into.buffer.narrow(extension, bytes - extension);
            return Ok(Candidate::believed(key, into));
        }
        let Some(record) = self.judge(word, &mut into.buffer) else { return Ok(Candidate::Reused) };
        let (header, is_ours, value_at) = (record.header, record.key == key, record.value_at);
        let Some(body) = record.large() else {
            into.start = value_at;
            return Ok(if is_ours { Candidate::Ours(header) } else { Candidate::Other });
        };
        if body.key_hash != self.shared.hasher.hash(key) || header.key_bytes != key.len() {
            return Ok(Candidate::Other);
        }
        // Boxed, as every rare step here: its state would enlarge every lookup.
        Box::pin(Candidate::read_body(self.extent_io(), (header, &body), key, into)).await
    }
}

impl<E: Endpoint, R: Replacement<E>> Objects<E, R> {
    /// Looks `key` up and counts the access.
    pub(super) async fn lookup(&self, op: &mut Operation, key: &[u8], into: &mut Value) -> Result<Lookup, CacheError> {
        let hash = self.core.key_hash(key);
        for attempt in 0..ATTEMPTS_MAX {
            let begun_ns = self.core.client.endpoint.now_ns();
            self.core.read_bucket(op, hash).await?;
            if let Some(lookup) = self.lookup_seen(op, hash, key, into, begun_ns).await? {
                return Ok(lookup);
            }
            self.core.stats.rereads.add(1);
            if attempt >= REREADS_MAX {
                Box::pin(drop_damaged_of(&self.core, op, hash.bucket)).await?;
            }
        }
        Err(CacheError::Damaged { what: "an object that stays unsound" })
    }

    /// Checks the slots that were READ, one by one. `None` if the lookup must retry.
    async fn lookup_seen(
        &self,
        op: &mut Operation,
        hash: KeyHash,
        key: &[u8],
        into: &mut Value,
        begun_ns: u64,
    ) -> Result<Option<Lookup>, CacheError> {
        let mut beside = Beside::default();
        for place in 0..BUCKET_SLOTS {
            let (word, slot) = op.seen(hash, place);
            if !word.may_be(hash.fingerprint) || word.is_pending() {
                continue;
            }
            self.core.expect_access(slot);
            match self.core.read_candidate(slot, word, key, into, &mut beside).await? {
                Candidate::Ours(header) => {
                    return self.found(op, hash, (slot, word), header, into, &beside, begun_ns).await;
                }
                Candidate::Other => {}
                Candidate::Reused => return Ok(None),
            }
        }
        let was_evicted = (0..BUCKET_SLOTS).any(|place| op.seen(hash, place).0.history_of(hash).is_some());
        self.core.stats.count_absent(was_evicted);
        Ok(Some(Lookup::Absent))
    }

    /// Ends a lookup that found the key's object in `into`: a hit, unless the object has expired.
    #[expect(clippy::too_many_arguments, reason = "all of what was found")]
    pub(super) async fn found(
        &self,
        op: &mut Operation,
        hash: KeyHash,
        (slot, word): (u64, Slot),
        header: Header,
        into: &mut Value,
        beside: &Beside,
        begun_ns: u64,
    ) -> Result<Option<Lookup>, CacheError> {
        into.meta = Meta::of(&header);
        if let Some(expiry_ms) = header.expiry_ms
            && self.core.client.has_come(expiry_ms, begun_ns).await?
        {
            if !Box::pin(self.take_expired(op, slot, word)).await? {
                return Ok(None);
            }
            self.core.stats.misses_expired.add(1);
            return Ok(Some(Lookup::Expired));
        }
        self.core.stats.hits.add(1);
        op.found = Some((slot, word));
        let (extension, information) = (&beside.extension[..], beside.information());
        let accessed = Accessed { slot, word, hash, bytes: header.record_bytes(), extension, information };
        self.replacement.accessed(&self.core, accessed).await?;
        Ok(Some(Lookup::Hit))
    }
}
