//! How a change searches for a key's object under protection. The chunk of the object that it
//! finds cannot be reused until the operation has ended.
//!
//! The client WRITEs the protection, READs the slot and READs the record. If the slot is unchanged,
//! the chunk cannot be reused, and the record's place only by a client that has replaced the record
//! (see `vacancies`). A record that is unsound nevertheless is damaged, or the slot has changed:
//! the client swaps the slot to empty (`unlink`), which fails if it has. The steps after the search
//! are the same for all engines: see [`crate::search`].

use super::operation::Operation;
use super::slot::{KeyHash, Slot};
use super::technique::Technique;
use super::{Forge, Hole};
use crate::index::{ATTEMPTS_MAX, Index, Unlink};
use crate::search::{self, Searched, complete_large};
use crate::{CacheError, Meta, Want};
use atoll_fabric::{Batch, Endpoint, Intent};
use atoll_pool::ChunkId;

/// An object found, with the chunk that the operation protects.
pub(crate) type Found = search::Found<Slot, ChunkId>;
/// The result of a search for a key.
pub(crate) type Search = search::Search<Slot, ChunkId>;

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// Protects the chunk of `word`, then READs the slot and its record. Returns the slot's word
    /// now and the chunk. `None` if `word` points to no chunk.
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
        // If this is the key's object, the client next looks its count up and counts its bytes as
        // dead.
        self.shared.hotness.expect(chunk);
        self.client.endpoint.expect(self.client.pool.layout.dead_bytes(chunk), 8, Intent::Write);
        let mut record = std::mem::take(&mut op.record);
        record.resize(bytes);
        let slot = self.slot_at(slot);
        // The protection is on the home. Verbs on other nodes are in order behind it only if they
        // are posted later.
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

    /// Searches the bucket that was READ for the key's object, and protects the object. `skip` is a
    /// slot of the caller's own.
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
            let (word, slot) = op.seen(place);
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

    /// Protects the record that a slot with this word points to, and checks whether it is the
    /// key's. `Absent` if it is another key's.
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
        if self.is_outdated(begun_ns) {
            Box::pin(self.measure_round_trip()).await?;
            return Ok(Search::Anew);
        }
        let record = std::mem::take(&mut op.record);
        let judged = self.judge(word, &record).map(|record| (record.header, record.large(), record.key == key));
        if now != word || now.is_frozen() {
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
            // Boxed, as every rare step here: its state would enlarge every change.
            Some(body) => Box::pin(complete_large(self, op, found, body, key, want)).await?,
        };
        op.record = record;
        Ok(searched)
    }

    /// Examines a key's slots under protection, and drops damaged objects.
    pub(super) async fn examine(&self, op: &mut Operation, hash: KeyHash, key: &[u8]) -> Result<(), CacheError> {
        let begun_ns = self.client.endpoint.now_ns();
        self.read_bucket(op, hash).await?;
        self.search(op, (hash, key), Want::Value, false, None, begun_ns).await?;
        self.unprotect(op);
        Ok(())
    }

    /// The metadata of a key's object, if it is present.
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
                    if !self.has_expired(&found.header, begun_ns).await? {
                        op.found = Some((found.slot, found.word));
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

    /// The record is protected; its extents are not. They may pass to a copy of the record in
    /// another chunk, and be freed with that copy.
    async fn drop_unlisted(&self, slot: u64, word: Slot) -> Result<(), CacheError> {
        match self.slot_word(slot).await? == word {
            true => self.drop_damaged(slot, word).await,
            false => Ok(()),
        }
    }
}
