//! Searching for a key's object under protection, for changes. What is found cannot be reused until
//! the operation has ended.
//!
//! WRITE the protection, READ the slot, READ the record: if the slot is unchanged, the record
//! cannot be reused. A record that is unsound although it cannot have been reused is damaged. Its
//! object is dropped (`unlink`). What follows from what is found is the same for all engines: see
//! [`crate::search`].

use super::lookup::REUSE_NS;
use super::operation::Operation;
use super::slot::{KeyHash, Slot};
use super::technique::Technique;
use super::{Forge, Hole};
use crate::index::{ATTEMPTS_MAX, Index, Unlink};
use crate::search::{self, Searched, complete_large};
use crate::{CacheError, Meta, Want};
use atoll_fabric::{Batch, Endpoint, Intent};
use atoll_pool::ChunkId;

/// An object found, and protected with the chunk that is known beside it.
pub(crate) type Found = search::Found<Slot, ChunkId>;
/// What a search for a key gave.
pub(crate) type Search = search::Search<Slot, ChunkId>;

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// Protects `chunk` and READs the slot and its record behind that; the slot's word now.
    pub(super) async fn read_protected(
        &self,
        op: &mut Operation,
        slot: u64,
        word: Slot,
    ) -> Result<Option<(Slot, ChunkId)>, CacheError> {
        let Some((at, bytes, chunk)) = self.find_record(word).await? else { return Ok(None) };
        let is_protected = !self.is_open(Hole::Protection);
        if is_protected {
            self.client.member().prepare(&self.client.endpoint, &mut op.notes.protection).await?;
        }
        // What follows if this is the key's object: its count is looked up, and its bytes are
        // counted as dead.
        self.shared.hotness.expect(chunk);
        self.client.endpoint.expect(self.client.pool.layout.dead_bytes(chunk), 8, Intent::Write);
        let mut record = std::mem::take(&mut op.record);
        record.resize(bytes);
        let slot = self.shared.layout.slot(slot);
        // The protection is on the home: elsewhere nothing is READ behind it but what is posted
        // later.
        let home = self.client.pool.layout.clock();
        let is_in_order = self.is_in_order(home, slot) && self.is_in_order(home, at);
        if is_protected && !is_in_order {
            Box::pin(self.protect_first(op, chunk)).await?;
        }
        let mut batch = Batch::new();
        if is_protected && is_in_order {
            self.client.member().protect(&mut batch, &mut op.notes.protection, chunk);
        }
        let now = batch.read_word(slot);
        let read = batch.read(at, record);
        self.client.endpoint.post(&mut batch).await?;
        op.record = batch.take(read);
        Ok(Some((Slot(batch.word(now)), chunk)))
    }

    /// Ends the protection, if there is one.
    #[inline]
    pub(super) fn unprotect(&self, op: &mut Operation) {
        self.client.member().unprotect(&self.client.endpoint, &mut op.notes.protection);
    }

    /// Looks for the key's object in the bucket that was read, and protects it. `skip` is a slot of
    /// the caller's own.
    pub(super) async fn search(
        &self,
        op: &mut Operation,
        (hash, key): (KeyHash, &[u8]),
        want: Want,
        pending: bool,
        skip: Option<u64>,
        begun_ns: u64,
    ) -> Result<Search, CacheError> {
        for place in op.candidates(hash) {
            let (word, slot) = op.seen(hash, place);
            if word.is_free() || word.is_pending() != pending || skip == Some(slot) {
                continue;
            }
            let searched = self.search_slot(op, slot, word, key, want, begun_ns).await?;
            if !matches!(searched, Search::Absent) {
                return Ok(searched);
            }
        }
        Ok(Search::Absent)
    }

    /// Protects what a slot with this word points to and looks whether it is the key's object;
    /// `Absent` if it is another key's.
    pub(super) async fn search_slot(
        &self,
        op: &mut Operation,
        slot: u64,
        word: Slot,
        key: &[u8],
        want: Want,
        begun_ns: u64,
    ) -> Result<Search, CacheError> {
        let Some((now, chunk)) = self.read_protected(op, slot, word).await? else {
            self.drop_damaged(slot, word).await?;
            return Ok(Search::Anew);
        };
        let late = self.client.endpoint.now_ns().wrapping_sub(begun_ns) > REUSE_NS;
        if late {
            return Ok(Search::Anew);
        }
        let record = std::mem::take(&mut op.record);
        let judged = self.judge(word, &record).map(|record| (record.header, record.large(), record.key == key));
        if now != word {
            op.record = record;
            return Ok(match judged {
                Some((header, None, true)) => Search::Overtaken { token: header.token, slot, now },
                _ => Search::Anew,
            });
        }
        let Some((header, large, is_ours)) = judged else {
            op.record = record;
            self.drop_damaged(slot, word).await?;
            return Ok(Search::Anew);
        };
        let found = Found { slot, word, header, large: None, beside: chunk };
        let searched = match large {
            None if is_ours => {
                if want == Want::Value {
                    header.copy_value(&record, &mut op.old);
                }
                Search::Found(found)
            }
            None => Search::Absent,
            // Boxed, as all that is rare on this way: its state would make every change's larger.
            Some(body) => Box::pin(complete_large(self, op, found, body, key, want)).await?,
        };
        op.record = record;
        Ok(searched)
    }

    /// Looks at a key's slots under protection, which drops what is damaged.
    pub(super) async fn examine(&self, op: &mut Operation, hash: KeyHash, key: &[u8]) -> Result<(), CacheError> {
        let begun_ns = self.client.endpoint.now_ns();
        self.read_bucket(op, hash).await?;
        self.search(op, (hash, key), Want::Value, false, None, begun_ns).await?;
        self.unprotect(op);
        Ok(())
    }

    /// What is known of a key's object, if it is present.
    pub(super) async fn present(&self, op: &mut Operation, key: &[u8]) -> Result<Option<Meta>, CacheError> {
        let hash = self.key_hash(key);
        for _ in 0..ATTEMPTS_MAX {
            let begun_ns = self.client.endpoint.now_ns();
            self.read_bucket(op, hash).await?;
            let search = self.search(op, (hash, key), Want::Meta, false, None, begun_ns).await?;
            self.unprotect(op);
            match search {
                Search::Anew | Search::Overtaken { .. } => self.stats.rereads.add(1),
                Search::Absent => return Ok(None),
                Search::Found(found) => {
                    let now_ms = self.client.pool_ms(begun_ns).await?;
                    if !found.header.is_expired(now_ms) {
                        return Ok(Some(Meta::of(&found.header)));
                    }
                    if self.take_expired(op, found.slot, found.word).await? {
                        return Ok(None);
                    }
                }
            }
        }
        Err(CacheError::Damaged { what: "an object that stays unsound" })
    }
}

impl<E: Endpoint, T: Technique<E>> Searched for Forge<E, T> {
    type Hash = KeyHash;
    type Beside = ChunkId;

    fn read_bucket(&self, op: &mut Operation, hash: KeyHash) -> impl Future<Output = Result<(), CacheError>> {
        self.read_bucket(op, hash)
    }

    fn search(
        &self,
        op: &mut Operation,
        key: (KeyHash, &[u8]),
        want: Want,
        pending: bool,
        skip: Option<u64>,
        begun_ns: u64,
    ) -> impl Future<Output = Result<Search, CacheError>> {
        self.search(op, key, want, pending, skip, begun_ns)
    }

    /// The record is protected; its extents are not. They pass to a copy of the record in another
    /// chunk and are freed with that copy.
    async fn drop_unlisted(&self, slot: u64, word: Slot) -> Result<(), CacheError> {
        match self.slot_word(slot).await? == word {
            true => self.drop_damaged(slot, word).await,
            false => Ok(()),
        }
    }
}
