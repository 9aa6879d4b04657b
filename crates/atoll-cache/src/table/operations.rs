//! The operations of a client: the first steps and the last steps of each.
//!
//! | step | why |
//! |---|---|
//! | at intervals, make a round: flush accesses, renew the lease, repair after other clients | see `repair` |
//! | where there are extensions and WRITEs are cheap: publish that an operation is under way | a drainer waits for WRITEs of extensions (see `drain`) |
//! | the operation's own steps | |
//! | in the same case: publish that no operation is under way | no drainer waits for an idle client |
//! | after a failure of the fabric: send nothing any more | |
//!
//! Over a network, the two WRITEs and the wait for them cost more than they save. There an idle
//! client makes rounds ([`Engine::tend`]). If it makes none, drainers empty chunks only when it
//! comes back.

use super::operation::Operation;
use super::replacement::Replacement;
use super::{Core, Hole, Objects, STOCK_KEPT};
use crate::at_once;
use crate::extent::{free_unlisted, has_unlisted};
use crate::index::{Index, copies, walk};
use crate::near::{Copied, Copies};
use crate::record::Header;
use crate::{
    Accesses, Attributes, CacheError, Change, Engine, Flushed, Lookup, Meta, Reading, Removals, Staged, Stats, Value,
    value,
};
use atoll_fabric::Endpoint;
use atoll_pool::{Client, registry};
use std::ops::Range;

impl<E: Endpoint> Core<E> {
    /// Whether this client publishes when it is at rest.
    #[inline]
    pub(super) fn tells_rest(&self) -> bool {
        self.extension_bytes() > 0 && self.client.endpoint.is_near()
    }
}

impl<E: Endpoint, R: Replacement<E>> Objects<E, R> {
    #[inline]
    pub(super) async fn begin(&self, op: &mut Operation) -> Result<(), CacheError> {
        let begun = self.enter(op).await;
        self.noted(begun)?;
        if self.core.client.count_operation() {
            Box::pin(self.make_round(op)).await?;
        }
        Ok(())
    }

    /// Begins an operation that makes no round.
    #[inline]
    pub(super) async fn enter(&self, op: &mut Operation) -> Result<(), CacheError> {
        match self.core.is_open(Hole::UntoldOperation) {
            true => self.core.client.in_flight().enter(&mut op.entry).await,
            false => self.core.client.begin(&mut op.entry).await?,
        }
        Ok(())
    }

    #[cold]
    async fn make_round(&self, op: &mut Operation) -> Result<(), CacheError> {
        // `begin_round` comes first, so that only one operation waits until it may make the round.
        self.core.client.begin_round()?;
        let _turn = self.turn_to_make_room(op).await?;
        let told = self.replacement.round(&self.core).await;
        self.noted(told)?;
        let tended = self.tend_and_hold_limit().await;
        self.noted(tended)
    }

    #[inline]
    pub(super) async fn end<T>(&self, op: &mut Operation, mut outcome: Result<T, CacheError>) -> Result<T, CacheError> {
        if matches!(outcome, Err(CacheError::Damaged { .. } | CacheError::OutOfMemory)) {
            // The client may have met an unexpected word because it was fenced.
            Box::pin(self.core.client.check_membership()).await?;
        }
        self.core.client.in_flight().leave(&mut op.entry);
        if self.core.tells_rest()
            && !self.core.client.is_lost()
            && !matches!(outcome, Err(CacheError::Verb(_)))
            && let Err(error) = self.core.client.rest().await
        {
            outcome = Err(error.into());
        }
        self.noted(outcome)
    }

    /// Frees the blocks and chunks that this client does not need between operations.
    async fn release_surplus(&self) -> Result<(), CacheError> {
        let are_chunks_surplus = !self.core.fresh.chunks.is_empty() && self.core.slabs_max() == 0;
        if !are_chunks_surplus && !self.core.has_surplus(STOCK_KEPT) {
            return Ok(());
        }
        // If another operation is making room, that operation knows better which blocks this client
        // needs.
        let Some(_turn) = self.making_room.lend() else { return Ok(()) };
        Box::pin(self.core.release_beyond(STOCK_KEPT)).await?;
        if are_chunks_surplus {
            Box::pin(self.core.free_fresh_chunks()).await?;
        }
        Ok(())
    }
}

impl<E: Endpoint, R: Replacement<E>> Copied for Objects<E, R> {
    type Endpoint = E;

    fn pool_client(&self) -> &Client<E> {
        &self.core.client
    }

    fn hash(&self, key: &[u8]) -> u64 {
        self.core.shared.hasher.hash(key)
    }

    fn stripe(&self, hash: u64) -> u64 {
        copies::stripe_of_hash(&self.core, hash)
    }

    async fn permit(&self, key: &[u8]) -> Result<Option<Meta>, CacheError> {
        let op = &mut *self.core.operations.take(&self.core.client);
        self.begin(op).await?;
        let found = self.present_permitting(op, key).await;
        self.end(op, found).await
    }

    async fn get_permitting(
        &self,
        key: &[u8],
        into: &mut Value,
        bytes_max: usize,
    ) -> Result<(Lookup, bool), CacheError> {
        let op = &mut *self.core.operations.take(&self.core.client);
        self.begin(op).await?;
        let found = self.look_up_permitting(op, key, into, bytes_max).await;
        self.end(op, found).await
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
        let op = &mut *self.core.operations.take(&self.core.client);
        self.begin(op).await?;
        let looked = at_once::look_up_many(self, op, keys, bytes_max, copies, found).await;
        self.end(op, looked).await
    }
}

impl<E: Endpoint, R: Replacement<E>> Objects<E, R> {
    async fn present_permitting(&self, op: &mut Operation, key: &[u8]) -> Result<Option<Meta>, CacheError> {
        let Some(meta) = self.present(op, key).await? else { return Ok(None) };
        match op.found.take() {
            Some((slot, word)) => Ok(copies::permit(&self.core, slot, word).await?.then_some(meta)),
            None => Ok(None),
        }
    }

    async fn look_up_permitting(
        &self,
        op: &mut Operation,
        key: &[u8],
        into: &mut Value,
        bytes_max: usize,
    ) -> Result<(Lookup, bool), CacheError> {
        let lookup = self.lookup(op, key, into).await?;
        let begun_ns = self.core.client.endpoint.now_ns();
        match op.found.take().filter(|_| lookup == Lookup::Hit) {
            Some(found) => Ok((lookup, at_once::permit(self, found, into, bytes_max, begun_ns).await?)),
            None => Ok((lookup, false)),
        }
    }
}

impl<E: Endpoint, R: Replacement<E>> Objects<E, R> {
    /// Ends an operation that writes: frees what this client does not need.
    async fn end_write<V>(&self, op: &mut Operation, mut outcome: Result<V, CacheError>) -> Result<V, CacheError> {
        if outcome.is_ok() {
            let freed = async {
                self.release_surplus().await?;
                if has_unlisted(&self.core) { Box::pin(free_unlisted(&self.core)).await } else { Ok(()) }
            };
            if let Err(error) = freed.await {
                outcome = Err(error);
            }
        }
        self.end(op, outcome).await
    }

    /// Appends to a staged value. Its chunks are drawn as those of any large object.
    async fn append(&self, op: &mut Operation, staged: &mut Staged, bytes: &[u8]) -> Result<(), CacheError> {
        staged.check_owner(&self.core.abandoned)?;
        let wanted = staged.chunks_wanted(bytes.len(), &self.core.client.pool.layout);
        if wanted > 0 {
            // The chunks come as for an object: with the block of a record, which is put back.
            let class = self.core.shared.settings.large_class;
            while !self.core.draw(op, class, wanted) {
                self.restock(op, class, wanted).await?;
            }
        }
        let open = op.notes.chunks.split_off(op.notes.chunks.len() - wanted);
        self.core.extent_io().append(staged, open, bytes).await
    }
}

impl<E: Endpoint, R: Replacement<E>> Engine for Objects<E, R> {
    async fn get(&self, key: &[u8], into: &mut Value) -> Result<Lookup, CacheError> {
        let op = &mut *self.core.operations.take(&self.core.client);
        self.begin(op).await?;
        let found = self.lookup(op, key, into).await;
        self.end(op, found).await
    }

    async fn get_to(&self, key: &[u8], into: &mut [u8]) -> Result<(Lookup, Meta), CacheError> {
        let op = &mut *self.core.operations.take(&self.core.client);
        self.begin(op).await?;
        let look = async |value: &mut Value| self.lookup(op, key, value).await;
        let found = value::look_up_to(self.core.extent_io(), key, into, look).await;
        self.end(op, found).await
    }

    async fn get_part<P>(&self, key: &[u8], part: P, into: &mut Value) -> Result<(Lookup, Meta), CacheError>
    where
        P: Fn(Meta) -> Range<usize> + 'static,
    {
        let op = &mut *self.core.operations.take(&self.core.client);
        self.begin(op).await?;
        let look = async |place: Option<&mut Value>| match place {
            Some(value) => Ok(Some((self.lookup(op, key, value).await?, value.meta()))),
            None => Ok(self.present(op, key).await?.map(|meta| (Lookup::Hit, meta))),
        };
        let found = value::look_up_part(self.core.extent_io(), key, part, into, look).await;
        self.end(op, found).await
    }

    fn opens_values(&self) -> bool {
        self.core.client.endpoint.is_near()
    }

    async fn open_value(&self, key: &[u8], value: &mut Value) -> Result<Option<Reading>, CacheError> {
        let op = &mut *self.core.operations.take(&self.core.client);
        self.begin(op).await?;
        let look = async || self.present(op, key).await;
        let bytes_max = self.core.shared.value_bytes_max();
        let opened = value::open(self.core.extent_io(), key, value, bytes_max, look).await;
        self.end(op, opened).await
    }

    async fn read_on(&self, reading: &mut Reading, into: &mut [u8]) -> Result<bool, CacheError> {
        let op = &mut *self.core.operations.take(&self.core.client);
        self.begin(op).await?;
        let read = self.core.extent_io().read_on(reading, into).await;
        self.end(op, read).await
    }

    async fn get_many<F>(&self, keys: &[&[u8]], bytes_max: usize, mut found: F) -> Result<(), CacheError>
    where
        F: FnMut(usize, Lookup, &mut Value),
    {
        let found = |index, lookup, value: &mut Value, _| found(index, lookup, value);
        self.get_many_permitting(keys, bytes_max, Copies::NONE, found).await
    }

    async fn expect(&self, keys: &[&[u8]]) {
        let op = &mut *self.core.operations.take(&self.core.client);
        // A client that tells when it is at rest would have to tell it after the hint too.
        if !self.core.tells_rest() && self.enter(op).await.is_ok() {
            at_once::expect(self, op, keys).await;
        }
    }

    fn is_worth_expecting(&self, keys: &[&[u8]]) -> bool {
        at_once::is_worth_expecting(self, keys)
    }

    async fn peek(&self, key: &[u8]) -> Result<Option<Meta>, CacheError> {
        let op = &mut *self.core.operations.take(&self.core.client);
        self.begin(op).await?;
        let found = self.present(op, key).await;
        self.end(op, found).await
    }

    async fn accesses(&self, key: &[u8]) -> Result<Option<Accesses>, CacheError> {
        let op = &mut *self.core.operations.take(&self.core.client);
        self.begin(op).await?;
        let known = self.known_accesses(op, key).await;
        self.end(op, known).await
    }

    async fn update<C: Change>(&self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError> {
        let op = &mut *self.core.operations.take(&self.core.client);
        self.begin(op).await?;
        let unfinished = self.core.client.cut_off().begin();
        let changed = self.apply(op, key, change).await;
        op.old.shrink_beyond(1 << 20);
        op.outgoing.shrink_beyond(1 << 20);
        let changed = self.end_write(op, changed).await;
        unfinished.end();
        changed
    }

    fn stage(&self, key: &[u8], value_bytes: usize) -> Option<Staged> {
        let core = &self.core;
        let header = Header::of_new(key.len(), value_bytes, false, (None, Attributes::NONE), 0);
        let home = core.key_hash(key).bucket;
        if !core.is_large(&header) {
            return None;
        }
        let share = core.shared.pins.share(value_bytes, core.shared.value_bytes_max())?;
        Some(Staged::new(&core.shared.hasher, key, share, home, &core.abandoned))
    }

    async fn append_staged(&self, staged: &mut Staged, bytes: &[u8]) -> Result<(), CacheError> {
        let op = &mut *self.core.operations.take(&self.core.client);
        self.begin(op).await?;
        let unfinished = self.core.client.cut_off().begin();
        let appended = self.append(op, staged, bytes).await;
        self.core.put_back_drawn(op);
        let appended = self.end_write(op, appended).await;
        unfinished.end();
        appended
    }

    async fn scan<F: FnMut(&[u8])>(&self, cursor: u64, count: usize, each: F) -> Result<u64, CacheError> {
        let op = &mut *self.core.operations.take(&self.core.client);
        self.begin(op).await?;
        let walked = walk::keys(&self.core, op, cursor, count, each).await;
        self.end(op, walked).await
    }

    async fn random_key(&self) -> Result<Option<Vec<u8>>, CacheError> {
        let op = &mut *self.core.operations.take(&self.core.client);
        self.begin(op).await?;
        let found = walk::some_key(&self.core, op).await;
        self.end(op, found).await
    }

    async fn flush(&self, cursor: u64) -> Result<Flushed, CacheError> {
        let op = &mut *self.core.operations.take(&self.core.client);
        self.begin(op).await?;
        let removed = walk::remove_some(self, op, cursor).await;
        self.end(op, removed).await
    }

    async fn objects(&self) -> Result<u64, CacheError> {
        Ok(registry::objects(&self.core.client.endpoint, &self.core.client.pool).await?)
    }

    async fn now_ms(&self) -> Result<u64, CacheError> {
        let now_ns = self.core.client.endpoint.now_ns();
        Ok(self.core.client.pool_ms(now_ns).await?)
    }

    async fn close(&self) -> Result<(), CacheError> {
        self.leave().await
    }

    async fn tend(&self) -> Result<(), CacheError> {
        Objects::tend(self).await
    }

    fn value_bytes_max(&self) -> usize {
        self.core.shared.value_bytes_max()
    }

    fn stats(&self) -> Stats {
        self.core.stats.stats(self.core.client.upkeep(), self.core.client.endpoint.traffic())
    }

    #[inline]
    fn removals(&self) -> Option<&Removals> {
        Some(&self.core.removals)
    }
}
