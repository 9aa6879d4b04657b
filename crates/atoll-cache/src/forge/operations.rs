//! The operations of the engine: the steps before and after each one's own. An operation's own
//! steps have a module of their own.

use super::Forge;
use super::addresses::Known;
use super::operation::Operation;
use super::technique::Technique;
use crate::at_once;
use crate::extent::{free_unlisted, has_unlisted};
use crate::index::copies::{self, Sharing};
use crate::index::{Index, SlotWord, walk};
use crate::near::{Copied, Copies};
use crate::record::Header;
use crate::{
    Accesses, Attributes, CacheError, Change, Engine, Flushed, Lookup, Meta, Reading, Removals, Staged, Stats, Value,
    value,
};
use atoll_fabric::{Endpoint, VerbError};
use atoll_pool::{Client, registry};
use std::ops::Range;

impl<E: Endpoint, T: Technique<E>> Copied for Forge<E, T> {
    type Endpoint = E;

    fn pool_client(&self) -> &Client<E> {
        &self.client
    }

    fn hash(&self, key: &[u8]) -> u64 {
        self.shared.hasher.hash(key)
    }

    fn stripe(&self, hash: u64) -> u64 {
        copies::stripe_of_hash(self, hash)
    }

    async fn permit(&self, key: &[u8]) -> Result<Option<Meta>, CacheError> {
        let begun_ns = self.client.endpoint.now_ns();
        let op = &mut *self.operations.take(&self.client);
        self.begin(op).await?;
        let Some(meta) = self.present(op, key).await? else { return Ok(None) };
        let is_timely = || !self.is_outdated(begun_ns);
        let Some((slot, word)) = op.found.take().filter(|_| is_timely()) else { return Ok(None) };
        let is_permitted = copies::permit(self, slot, word).await?;
        Ok((is_permitted && is_timely()).then_some(meta))
    }

    async fn get_permitting(
        &self,
        key: &[u8],
        into: &mut Value,
        bytes_max: usize,
    ) -> Result<(Lookup, bool), CacheError> {
        let begun_ns = self.client.endpoint.now_ns();
        let op = &mut *self.operations.take(&self.client);
        self.client.begin(&mut op.entry).await?;
        let lookup = self.lookup(op, key, into, true).await?;
        let Some((slot, word)) = op.found.take().filter(|_| lookup == Lookup::Hit) else { return Ok((lookup, false)) };
        let is_permitted = at_once::permit(self, (slot, word), into, bytes_max, begun_ns).await?;
        if is_permitted && let Some(known) = self.remembered(self.key_hash(key), key) {
            self.learn(key, Known { word: word.shared_as(Sharing::Copied), ..known }, begun_ns);
        }
        Ok((lookup, is_permitted))
    }

    async fn get_many_permitting<F>(
        &self,
        keys: &[&[u8]],
        bytes_max: usize,
        copies: Copies<'_>,
        found: F,
    ) -> Result<(), CacheError>
    where
        F: FnMut(usize, Lookup, &mut Value, bool),
    {
        let op = &mut *self.operations.take(&self.client);
        self.client.begin(&mut op.entry).await?;
        at_once::look_up_many(self, op, keys, bytes_max, copies, found).await
    }
}

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// Ends an operation that writes: closes groups that are full, and frees what this client does
    /// not need.
    pub(super) async fn end<V>(
        &self,
        op: &mut Operation,
        outcome: Result<V, CacheError>,
        wants_next: bool,
    ) -> Result<V, CacheError> {
        let mut outcome = self.judged(outcome).await;
        match &outcome {
            Err(CacheError::Verb(error)) => self.client.note_failure(error),
            // Another operation may have found meanwhile that this client is fenced.
            Ok(_) if self.client.is_lost() => outcome = Err(VerbError::Fenced.into()),
            _ => {}
        }
        op.old.shrink_beyond(1 << 20);
        op.outgoing.shrink_beyond(1 << 20);
        if self.close_full_groups() && !self.client.is_lost() && !self.is_attended.get() {
            let queued = Box::pin(self.queue_settled_groups()).await;
            self.judged(queued).await?;
        }
        if wants_next && !self.client.is_lost() {
            let obtained = Box::pin(self.obtain_next()).await;
            self.judged(obtained).await?;
        }
        // This client frees the chunks that it does not need now, so that every client can allocate
        // them.
        let kept = self.stock.kept();
        if self.stock.chunks.len() > kept {
            Box::pin(self.free_stock_beyond(kept)).await?;
        }
        if self.stock.has_waiting() {
            Box::pin(self.recheck_waiting(false)).await?;
        }
        if has_unlisted(self) && !self.client.is_lost() {
            Box::pin(free_unlisted(self)).await?;
        }
        outcome
    }

    /// Appends to a staged value. Its chunks are drawn as those of any large object.
    async fn append(&self, op: &mut Operation, staged: &mut Staged, bytes: &[u8]) -> Result<(), CacheError> {
        staged.check_owner(&self.abandoned)?;
        let wanted = staged.chunks_wanted(bytes.len(), &self.client.pool.layout);
        while !self.draw_stock(op, wanted) {
            self.restock(op, wanted).await?;
        }
        let open = op.notes.chunks.split_off(op.notes.chunks.len() - wanted);
        self.extent_io().append(staged, open, bytes).await
    }
}

impl<E: Endpoint, T: Technique<E>> Engine for Forge<E, T> {
    #[inline]
    async fn get(&self, key: &[u8], into: &mut Value) -> Result<Lookup, CacheError> {
        let op = &mut *self.operations.take(&self.client);
        if !self.client.try_begin(&mut op.entry) {
            Box::pin(self.client.begin(&mut op.entry)).await?;
        }
        self.lookup(op, key, into, true).await
    }

    async fn get_to(&self, key: &[u8], into: &mut [u8]) -> Result<(Lookup, Meta), CacheError> {
        let op = &mut *self.operations.take(&self.client);
        self.client.begin(&mut op.entry).await?;
        value::look_up_to(self.extent_io(), key, into, async |value| self.lookup(op, key, value, true).await).await
    }

    async fn get_part<P>(&self, key: &[u8], part: P, into: &mut Value) -> Result<(Lookup, Meta), CacheError>
    where
        P: Fn(Meta) -> Range<usize> + 'static,
    {
        let op = &mut *self.operations.take(&self.client);
        self.client.begin(&mut op.entry).await?;
        let look = async |place: Option<&mut Value>| match place {
            Some(value) => Ok(Some((self.lookup(op, key, value, true).await?, value.meta()))),
            None => Ok(self.present(op, key).await?.map(|meta| (Lookup::Hit, meta))),
        };
        value::look_up_part(self.extent_io(), key, part, into, look).await
    }

    fn opens_values(&self) -> bool {
        self.client.endpoint.is_near()
    }

    async fn open_value(&self, key: &[u8], value: &mut Value) -> Result<Option<Reading>, CacheError> {
        let op = &mut *self.operations.take(&self.client);
        self.client.begin(&mut op.entry).await?;
        let look = async || self.present(op, key).await;
        value::open(self.extent_io(), key, value, self.shared.value_bytes_max(), look).await
    }

    async fn read_on(&self, reading: &mut Reading, into: &mut [u8]) -> Result<bool, CacheError> {
        let op = &mut *self.operations.take(&self.client);
        self.client.begin(&mut op.entry).await?;
        self.extent_io().read_on(reading, into).await
    }

    async fn get_many<F>(&self, keys: &[&[u8]], bytes_max: usize, mut found: F) -> Result<(), CacheError>
    where
        F: FnMut(usize, Lookup, &mut Value),
    {
        let found = |index, lookup, value: &mut Value, _| found(index, lookup, value);
        self.get_many_permitting(keys, bytes_max, Copies::NONE, found).await
    }

    async fn expect(&self, keys: &[&[u8]]) {
        let op = &mut *self.operations.take(&self.client);
        if self.client.begin(&mut op.entry).await.is_ok() {
            at_once::expect(self, op, keys).await;
        }
    }

    fn is_worth_expecting(&self, keys: &[&[u8]]) -> bool {
        at_once::is_worth_expecting(self, keys)
    }

    async fn peek(&self, key: &[u8]) -> Result<Option<Meta>, CacheError> {
        let op = &mut *self.operations.take(&self.client);
        self.begin(op).await?;
        self.present(op, key).await
    }

    async fn accesses(&self, key: &[u8]) -> Result<Option<Accesses>, CacheError> {
        let op = &mut *self.operations.take(&self.client);
        self.begin(op).await?;
        // Without an object it is that of another operation.
        let found = self.present(op, key).await?.and(op.found.take());
        let hits = found.and_then(|(_, word)| {
            let (header, (.., chunk)) = (self.judge(word, &op.record)?.header, self.record_span(word)?);
            Some(self.shared.hotness.count(chunk, header.number, header.generation))
        });
        Ok(Some(Accesses { hits: hits.unwrap_or(0).into(), idle_ms: None }))
    }

    async fn update<C: Change>(&self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError> {
        let op = &mut *self.operations.take(&self.client);
        self.begin(op).await?;
        let unfinished = self.client.cut_off().begin();
        let wants_next = self.stock.wants_next.get();
        let outcome = self.apply(op, key, change).await;
        let outcome = self.end(op, outcome, wants_next).await;
        unfinished.end();
        outcome
    }

    fn stage(&self, key: &[u8], value_bytes: usize) -> Option<Staged> {
        let header = Header::of_new(key.len(), value_bytes, false, (None, Attributes::NONE), 0);
        let home = self.home(self.key_hash(key));
        if !self.is_large(&header) {
            return None;
        }
        let share = self.shared.pins.share(value_bytes, self.shared.value_bytes_max())?;
        Some(Staged::new(&self.shared.hasher, key, share, home, &self.abandoned))
    }

    async fn append_staged(&self, staged: &mut Staged, bytes: &[u8]) -> Result<(), CacheError> {
        let op = &mut *self.operations.take(&self.client);
        self.begin(op).await?;
        let unfinished = self.client.cut_off().begin();
        let wants_next = self.stock.wants_next.get();
        let outcome = self.append(op, staged, bytes).await;
        self.stock.chunks.put_back(&mut op.notes.chunks);
        let outcome = self.end(op, outcome, wants_next).await;
        unfinished.end();
        outcome
    }

    async fn scan<F: FnMut(&[u8])>(&self, cursor: u64, count: usize, each: F) -> Result<u64, CacheError> {
        let op = &mut *self.operations.take(&self.client);
        self.client.begin(&mut op.entry).await?;
        walk::keys(self, op, cursor, count, each).await
    }

    async fn random_key(&self) -> Result<Option<Vec<u8>>, CacheError> {
        let op = &mut *self.operations.take(&self.client);
        self.client.begin(&mut op.entry).await?;
        walk::some_key(self, op).await
    }

    async fn flush(&self, cursor: u64) -> Result<Flushed, CacheError> {
        let op = &mut *self.operations.take(&self.client);
        self.client.begin(&mut op.entry).await?;
        walk::remove_some(self, op, cursor).await
    }

    async fn objects(&self) -> Result<u64, CacheError> {
        Ok(registry::objects(&self.client.endpoint, &self.client.pool).await?)
    }

    async fn now_ms(&self) -> Result<u64, CacheError> {
        let now_ns = self.client.endpoint.now_ns();
        Ok(self.client.pool_ms(now_ns).await?)
    }

    async fn close(&self) -> Result<(), CacheError> {
        self.leave().await
    }

    fn attend(&self) {
        self.is_attended.set(!self.client.endpoint.is_near());
    }

    #[inline]
    fn has_work(&self) -> bool {
        self.is_attended.get() && self.has_work_beside()
    }

    async fn work(&self) -> Result<(), CacheError> {
        self.work_beside().await
    }

    async fn tend(&self) -> Result<(), CacheError> {
        let op = &mut *self.operations.take(&self.client);
        self.client.begin(&mut op.entry).await?;
        self.close_expired_groups().await?;
        Forge::tend(self).await
    }

    fn value_bytes_max(&self) -> usize {
        self.shared.value_bytes_max()
    }

    fn stats(&self) -> Stats {
        self.take_counted();
        self.stats.stats(self.client.upkeep(), self.client.endpoint.traffic())
    }

    #[inline]
    fn removals(&self) -> Option<&Removals> {
        Some(&self.removals)
    }
}
