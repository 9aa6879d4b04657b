//! How a client changes a key.
//!
//! | step | verbs |
//! |---|---|
//! | find the object | READ the bucket's slots; READ the block of each with the key's fingerprint: see `search` |
//! | let the change decide | |
//! | overwrite | in one batch WRITE the new block, WRITE the cell that names the old block, CAS the slot |
//! | insert | see `insert` |
//! | remove | CAS the slot to the same block, dead |
//!
//! If a compare-and-swap fails, another client was faster, and the client retries the change. It
//! starts at the word that the swap found, if that word may be the key's. A blind change that
//! another blind change overtook is done: see [`overtaken`](crate::overtaken). The word that a
//! compare-and-swap expects comes back at the same slot only after every operation has ended that
//! could remember it. So a swap that succeeds found the object that was READ.

use super::class::Class;
use super::held::Held;
use super::operation::Operation;
use super::replacement::{Accessed, Inserted, Replacement};
use super::search::{Found, Search};
use super::slot::{KeyHash, Slot};
use super::{Core, Hole, Objects};
use crate::backoff::pause_ns;
use crate::extent::unlisted::Listing;
use crate::index::{ATTEMPTS_MAX, Index, Unlink, copies};
use crate::overtaken::Overtaken;
use crate::record::{Header, LargeBody};
use crate::search::decide;
use crate::{CacheError, Cause, Change, Verdict, Want};
use atoll_fabric::{Batch, Endpoint};

/// How an attempt ended.
enum Try {
    /// Done, with the token of the object that is there now.
    Done(Option<u64>),
    /// Another client was faster.
    Anew,
    /// The client must first have a block of this class, and so many fresh chunks.
    Short(Class, usize),
    /// The client must first count the object against the limit.
    Unreserved,
    /// The client must first evict an object of this bucket.
    Crowded(u32),
}

/// A new record, with its key, its value and the key's hash.
pub(super) struct New<'v> {
    pub(super) header: Header,
    pub(super) large: Option<Box<LargeBody>>,
    /// The extents of a new large value.
    pub(super) extents: Listing<'v>,
    pub(super) key: &'v [u8],
    pub(super) value: &'v [u8],
    pub(super) hash: KeyHash,
}

impl<E: Endpoint> Core<E> {
    /// The class of blocks for a record with this header.
    pub(super) fn class_for(&self, header: &Header) -> Option<Class> {
        let class = Class::of(header.record_bytes() + self.shared.settings.extension_bytes)?;
        (class.bytes() <= self.client.pool.layout.chunk_bytes).then_some(class)
    }

    /// Encodes a new record for a block, and returns its slot word.
    pub(super) fn encode_new(
        &self,
        op: &mut Operation,
        new: &New<'_>,
        extension: &[u64],
        held: Held,
        tag: u16,
    ) -> Slot {
        let body = new.large.as_deref();
        let place = (held.block, held.class, tag);
        self.encode(op, new.hash, new.key, new.value, &new.header, body, extension, place)
    }
}

impl<E: Endpoint, R: Replacement<E>> Objects<E, R> {
    /// Applies a change.
    pub(super) async fn apply<C: Change>(
        &self,
        op: &mut Operation,
        key: &[u8],
        change: &mut C,
    ) -> Result<Option<u64>, CacheError> {
        let hash = self.core.key_hash(key);
        let mut outcome = Err(CacheError::Damaged { what: "an object that stays unsound" });
        op.overtaken = None;
        for attempt in 0..ATTEMPTS_MAX {
            let step = match self.try_change(op, hash, key, change).await {
                Ok(Try::Done(token)) => {
                    outcome = Ok(token);
                    break;
                }
                Ok(Try::Anew) => {
                    self.core.stats.conflicts.add(1);
                    if let Some(pause_ns) = pause_ns(&self.core.client.endpoint, attempt) {
                        self.core.client.endpoint.pause(pause_ns).await;
                    }
                    Ok(())
                }
                Ok(Try::Short(class, chunks)) => self.restock(op, class, chunks).await,
                Ok(Try::Crowded(bucket)) => Box::pin(self.make_room_in(op, bucket)).await,
                Ok(Try::Unreserved) => Box::pin(self.reserve_object(op)).await,
                Err(error) => Err(error),
            };
            if let Err(error) = step {
                outcome = Err(error);
                break;
            }
        }
        self.core.limit.release(&self.core.client, op);
        self.core.put_back_drawn(op);
        outcome
    }

    async fn try_change<C: Change>(
        &self,
        op: &mut Operation,
        hash: KeyHash,
        key: &[u8],
        change: &mut C,
    ) -> Result<Try, CacheError> {
        let begun_ns = self.core.client.endpoint.now_ns();
        // The time is read before the bucket: an object that this change finds expired had expired
        // by then.
        let now_ms = self.core.client.pool_ms(begun_ns).await?;
        let found = match self.core.search_overtaken(op, key, change.wants()).await? {
            Some(found) => Some(found),
            None => {
                self.core.read_bucket(op, hash).await?;
                match self.core.search(op, hash, key, change.wants(), false, None).await? {
                    Search::Anew | Search::Overtaken { .. } => return Ok(Try::Anew),
                    Search::Found(found) => Some(found),
                    Search::Absent => None,
                }
            }
        };
        let (verdict, present_token) = decide(change, now_ms, found.as_ref(), &op.old);
        let holes = (self.core.is_open(Hole::OvertakenByCopy), self.core.is_open(Hole::OvertakenBySight));
        if let (Verdict::Put { .. }, Some(found)) = (&verdict, &found)
            && change.is_blind()
            && let Some(overtaken) = &op.overtaken
            && overtaken.is_by(&found.header, holes.0, holes.1)
        {
            return self.done_before(hash, found).await;
        }
        match (verdict, found) {
            // A client removes an expired object before it reports the expiry. Otherwise another
            // client, which found it live a moment ago, could bring it back.
            (Verdict::Leave, Some(found)) if present_token.is_none() && !self.core.is_open(Hole::UntakenExpiry) => {
                let removed = self.unlink(op, found.slot, found.word, Some(Cause::Expired)).await?;
                self.core.stats.expirations.add(u64::from(removed));
                Ok(if removed { Try::Done(None) } else { Try::Anew })
            }
            (Verdict::Leave, _) => Ok(Try::Done(present_token)),
            (Verdict::Remove | Verdict::Expire { .. }, None) => Ok(Try::Done(None)),
            (Verdict::Remove, Some(found)) => {
                let removed = self.unlink(op, found.slot, found.word, None).await?;
                self.core.stats.removes.add(u64::from(removed));
                Ok(if removed || self.core.is_open(Hole::LostUpdate) { Try::Done(None) } else { Try::Anew })
            }
            (Verdict::Expire { expiry_ms }, Some(found)) => {
                if found.large.is_none() && change.wants() == Want::Meta {
                    let Operation { old, record, .. } = op;
                    found.header.copy_value(record, old);
                }
                let value = std::mem::take(&mut op.old);
                let header = Header { expiry_ms, ..found.header };
                let new = New { header, large: None, extents: Listing(None), key, value: value.bytes(), hash };
                let tried = self.try_put(op, new, Some(found), true).await;
                op.old = value;
                tried
            }
            (Verdict::Put { expiry_ms, attributes }, found) => {
                let token = self.core.client.next_token().await?;
                let about = (expiry_ms, attributes);
                if let Some(staged) = change.staged() {
                    staged.check_owner(&self.core.abandoned)?;
                    let header = Header::of_new(key.len(), staged.value_bytes(), false, about, token);
                    let large = Some(staged.body(&self.core.shared.hasher, key));
                    let extents = Listing(Some(staged.extents()));
                    let new = New { header, large, extents, key, value: &[], hash };
                    return self.try_put(op, new, found, false).await;
                }
                let value = change.value();
                let header = Header::of_new(key.len(), value.len(), change.is_blind(), about, token);
                self.try_put(op, New { header, large: None, extents: Listing(None), key, value, hash }, found, false)
                    .await
            }
        }
    }

    /// Writes a new record and publishes it, in the found object's slot or in a free one.
    /// `same_body`: only the header changes. A new value that is in extents already comes with
    /// them.
    async fn try_put(
        &self,
        op: &mut Operation,
        mut new: New<'_>,
        mut found: Option<Found>,
        same_body: bool,
    ) -> Result<Try, CacheError> {
        let core = &self.core;
        // Before anything is taken: if a process with copies cannot be reached, nothing has
        // changed.
        if let Some(found) = &mut found {
            let Some(closed) = copies::closed(core, found.slot, found.word).await? else { return Ok(Try::Anew) };
            found.word = closed;
        }
        if found.is_none() {
            core.check_present(new.hash.bucket)?;
        }
        let chunk_bytes = core.client.pool.layout.chunk_bytes;
        // A repairer finds out from the record alone which tag its block had.
        new.header.tagged = true;
        new.header.large = core.is_large(&new.header);
        let class =
            core.class_for(&new.header).ok_or(CacheError::Damaged { what: "a record larger than its limit" })?;
        let is_staged = new.extents.0.is_some();
        let fresh_chunks = match new.header.large && !same_body && !is_staged {
            true => {
                let (bodies, lists) = crate::extent::chunks_needed(new.header.body_bytes(), chunk_bytes);
                bodies + lists
            }
            false => 0,
        };
        if !core.draw(op, class, fresh_chunks) {
            return Ok(Try::Short(class, fresh_chunks));
        }
        if found.is_none() && !op.has_reserved() && core.client.pool.settings.objects_max > 0 {
            return Ok(Try::Unreserved);
        }
        if found.is_none() && core.is_crowded(op, new.hash) {
            return Ok(Try::Crowded(new.hash.bucket));
        }
        let Some(held) = op.notes.block.take() else { return Ok(Try::Short(class, fresh_chunks)) };
        let Some(tag) = core.tag_for(held).await? else { return Ok(Try::Anew) };
        let token = new.header.token;
        let mut written = None;
        let mut new = New { ..new };
        match &found {
            _ if is_staged || !new.header.large => {}
            Some(found) if same_body => new.large = found.large.as_ref().map(|large| Box::new(large.body)),
            _ => {
                let open = op.notes.chunks.split_off(op.notes.chunks.len() - fresh_chunks);
                let (extents, body) = core.write_extents(op, open, new.hash.bucket, (new.key, new.value)).await?;
                (new.large, new.extents) = (Some(Box::new(body)), Listing(Some(written.insert(extents))));
            }
        }
        let published = match found {
            Some(found) => self.try_replace(op, &new, found, held, tag, same_body).await?,
            None => self.try_insert(op, &new, held, tag).await?,
        };
        let core = &self.core;
        if published {
            core.published(held).await?;
            if let Some(extents) = new.extents.0 {
                core.bind_extents(extents.extents());
            }
            core.stats.puts.add(1);
            return Ok(Try::Done(Some(token)));
        }
        core.keep(held, tag);
        new.extents.end();
        if let Some(extents) = written {
            core.extent_io().free(extents).await?;
        }
        if core.is_open(Hole::LostUpdate) {
            return Ok(Try::Done(Some(token)));
        }
        Ok(Try::Anew)
    }

    async fn try_replace(
        &self,
        op: &mut Operation,
        new: &New<'_>,
        found: Found,
        held: Held,
        tag: u16,
        same_body: bool,
    ) -> Result<bool, CacheError> {
        let core = &self.core;
        let word = core.encode_new(op, new, &found.beside.extension, held, tag);
        let slot = core.shared.layout.slot(found.slot);
        let Some((at, record)) = core.outgoing_record(op, held.block) else { return Ok(false) };
        let mut batch = Batch::new();
        core.publish_won(&mut batch, held, at).await?;
        let written = core.write_before(&mut batch, at, record, slot).await?;
        let Some(taking) = core.begin_taking(&mut batch, found.slot, found.word).await? else {
            // The batch already has verbs for the new block, so it is posted.
            core.client.endpoint.post(&mut batch).await?;
            op.outgoing = written.take(&mut batch);
            return Ok(false);
        };
        let swap = batch.compare_and_swap(slot, found.word.0, word.0);
        new.extents.begin();
        let posted = core.post_taking(&mut batch, taking).await;
        new.extents.note_posted(&posted);
        posted?;
        op.outgoing = written.take(&mut batch);
        let Some(old) = core.end_taking(taking, batch.swapped(swap)) else {
            let now = Slot(batch.word(swap));
            let by = now.may_be(new.hash.fingerprint).then_some((found.slot, now));
            op.overtaken = Some(Overtaken { token: found.header.token, by });
            return Ok(false);
        };
        core.stock.borrow_mut().put(old);
        if let Some(large) = found.large.as_ref().filter(|_| !same_body) {
            core.extent_io().free_extents(&large.extents).await?;
        }
        core.publish_expiry(found.slot, new, found.header.expiry_ms);
        self.overwritten(new.hash, &found, word, new.header.record_bytes()).await?;
        Ok(true)
    }

    /// Ends a change that a blind change overtook: it took place just before the blind change.
    async fn done_before(&self, hash: KeyHash, found: &Found) -> Result<Try, CacheError> {
        self.overwritten(hash, found, found.word, found.header.record_bytes()).await?;
        self.core.stats.puts.add(1);
        Ok(Try::Done(Some(self.core.client.next_token().await?)))
    }

    /// Notes that a record of so many bytes overwrote the found object. `word` is the slot's word
    /// now.
    async fn overwritten(&self, hash: KeyHash, found: &Found, word: Slot, bytes: u64) -> Result<(), CacheError> {
        let accessed = Accessed {
            slot: found.slot,
            word,
            hash,
            bytes,
            extension: &found.beside.extension,
            information: found.beside.information(),
        };
        self.replacement.accessed(&self.core, accessed).await
    }

    /// Inserts the record. Returns whether it is published, as the only one of its key.
    async fn try_insert(&self, op: &mut Operation, new: &New<'_>, held: Held, tag: u16) -> Result<bool, CacheError> {
        let Some(inserted) = self.core.insert(op, new, held, tag).await? else { return Ok(false) };
        if !inserted.published {
            return Ok(false);
        }
        self.core.client.count_objects(1).await?;
        self.core.limit.note_inserted(op);
        let accessed = Accessed {
            slot: inserted.slot,
            word: inserted.word,
            hash: new.hash,
            bytes: new.header.record_bytes(),
            extension: &[],
            information: None,
        };
        let (before, counter, expiry_ms) = (inserted.before, inserted.counter, new.header.expiry_ms);
        let inserted = Inserted { object: accessed, before, counter, expiry_ms };
        self.replacement.inserted(&self.core, inserted).await?;
        Ok(true)
    }
}
