//! One thread's client of a pool: the operations of a cache, each of which ends when its method
//! returns.
//!
//! Over shared memory there is nothing to wait for. Over a network the thread waits. Promises, as
//! the design has them: lookups and changes of one key are linearizable, where a miss is an
//! eviction; after a miss no older value of that key comes back; a set does not fail while
//! something can be evicted.

use crate::Pool;
use crate::fabric::{AddressedFabric, EndpointOf, PoolFabric, ServedFabric};
use atoll_cache::{
    CacheError, Chosen, Engine, ExpireCondition, ExpireOutcome, Expiry, Meta, Number, Removal, Removals, SetOptions,
    SetOutcome, Stats, Value,
};
use atoll_fabric::{Endpoint, block_on_with};

/// The cache under the server, whichever engine its pool has, with methods that are futures.
pub type Operations<F = AddressedFabric> = atoll_cache::Cache<Chosen<EndpointOf<F>>>;

/// A client of a pool: the quickest way to it, for one thread at a time. Dropping it gives its
/// place back (see [`Client::leave`]). [`Cache`](crate::Cache) is for many threads.
pub struct Client<F: PoolFabric = AddressedFabric> {
    client: Operations<F>,
    /// The value of the last hit, whose memory is used again.
    value: Value,
    /// Dropped after the client: the last handle closes the pool, when all clients have left.
    _pool: Pool<F>,
}

/// Waits until an operation that is pending may get further.
#[cold]
fn wait<E: Endpoint>(client: &atoll_cache::Cache<Chosen<E>>) {
    client.engine().client().endpoint.wait();
}

impl<F: PoolFabric> Client<F> {
    pub(crate) fn new(client: Operations<F>, pool: Pool<F>) -> Self {
        Self { client, value: Value::new(), _pool: pool }
    }

    /// The operations underneath, whose methods are futures. A named pool outlives a reboot of its
    /// host only if a [`Pool`] is kept until the client is dropped.
    pub fn into_operations(self) -> Operations<F> {
        self.client
    }

    /// The same for a caller that drops futures before their end: see [`ServedFabric`].
    pub fn into_served(self) -> atoll_cache::Cache<F::Served>
    where
        F: ServedFabric,
    {
        atoll_cache::Cache::new(F::served(self.client.into_engine()))
    }

    /// Puts back what this client holds and gives up its place, also where the fabric waits. To
    /// drop the client does the same where memory is near; elsewhere a dropped client's place is
    /// free only once another client has found that it is dead.
    pub fn leave(self) -> Result<(), CacheError> {
        block_on_with(|| wait(&self.client), self.client.engine().close())
    }

    /// The value of `key`; `None` if it is not there. The bytes are this client's own copy, until
    /// its next operation.
    #[inline]
    pub fn get(&mut self, key: &[u8]) -> Result<Option<&[u8]>, CacheError> {
        let hit = block_on_with(|| wait(&self.client), self.client.get(key, &mut self.value))?;
        Ok(hit.then(|| self.value.bytes()))
    }

    /// As [`Client::get`], into a place of the caller's.
    #[inline]
    pub fn get_into(&mut self, key: &[u8], value: &mut Value) -> Result<bool, CacheError> {
        block_on_with(|| wait(&self.client), self.client.get(key, value))
    }

    /// Looks many keys up at once, which is faster than one by one; `found(i, value)` is called for
    /// every `keys[i]` in order.
    pub fn get_many(&mut self, keys: &[&[u8]], mut found: impl FnMut(usize, Option<&[u8]>)) -> Result<(), CacheError> {
        block_on_with(
            || wait(&self.client),
            self.client.get_many(keys, |index, value| found(index, value.map(Value::bytes))),
        )
    }

    /// What is known of `key`'s object besides its value.
    pub fn peek(&mut self, key: &[u8]) -> Result<Option<Meta>, CacheError> {
        block_on_with(|| wait(&self.client), self.client.peek(key))
    }

    /// Whether `key` is there.
    pub fn exists(&mut self, key: &[u8]) -> Result<bool, CacheError> {
        Ok(self.peek(key)?.is_some())
    }

    /// Sets `key` to `value`, until it is evicted.
    #[inline]
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), CacheError> {
        self.set_with(key, value, &SetOptions::default()).map(drop)
    }

    /// Sets `key` to `value` under conditions or for a time.
    pub fn set_with(&mut self, key: &[u8], value: &[u8], options: &SetOptions) -> Result<SetOutcome, CacheError> {
        block_on_with(|| wait(&self.client), self.client.set(key, value, options))
    }

    /// As [`Client::set_with`], and gives the value that was there.
    pub fn replace(
        &mut self,
        key: &[u8],
        value: &[u8],
        options: &SetOptions,
    ) -> Result<(SetOutcome, Option<&[u8]>), CacheError> {
        let outcome = block_on_with(
            || wait(&self.client),
            self.client.set_returning(key, value, options, Some(&mut self.value)),
        )?;
        Ok((outcome, outcome.old.is_some().then(|| self.value.bytes())))
    }

    /// Removes `key`; says whether it was there.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, CacheError> {
        block_on_with(|| wait(&self.client), self.client.delete(key))
    }

    /// Removes `key` and gives the value that was there.
    pub fn take(&mut self, key: &[u8]) -> Result<Option<&[u8]>, CacheError> {
        let found = block_on_with(|| wait(&self.client), self.client.take(key, Some(&mut self.value)))?;
        Ok(found.then(|| self.value.bytes()))
    }

    /// Sets when `key` expires; times are milliseconds on the pool's clock.
    pub fn expire(
        &mut self,
        key: &[u8],
        expiry: Expiry,
        condition: ExpireCondition,
    ) -> Result<ExpireOutcome, CacheError> {
        block_on_with(|| wait(&self.client), self.client.expire(key, expiry, condition))
    }

    /// Adds `by` to the decimal integer at `key`, an absent one being 0.
    pub fn increment(&mut self, key: &[u8], by: i64) -> Result<Number<i64>, CacheError> {
        block_on_with(|| wait(&self.client), self.client.increment(key, by))
    }

    /// Adds `by` to the decimal number at `key`, an absent one being 0.
    pub fn increment_float(&mut self, key: &[u8], by: f64) -> Result<Number<f64>, CacheError> {
        block_on_with(|| wait(&self.client), self.client.increment_float(key, by))
    }

    /// Appends to the value of `key`, an absent one being empty; gives the new length.
    pub fn append(&mut self, key: &[u8], suffix: &[u8]) -> Result<usize, CacheError> {
        block_on_with(|| wait(&self.client), self.client.append(key, suffix))
    }

    /// Puts `prefix` before the value of `key`, an absent one being empty; gives the new length.
    pub fn prepend(&mut self, key: &[u8], prefix: &[u8]) -> Result<usize, CacheError> {
        block_on_with(|| wait(&self.client), self.client.prepend(key, prefix))
    }

    /// The bytes from `start` to `end`, both inclusive and, if negative, counted from the end.
    pub fn get_range(&mut self, key: &[u8], start: i64, end: i64) -> Result<&[u8], CacheError> {
        block_on_with(|| wait(&self.client), self.client.get_range(key, start, end, &mut self.value))
    }

    /// Overwrites the value from `offset` on, padding with zero bytes; gives the new length.
    pub fn set_range(&mut self, key: &[u8], offset: usize, bytes: &[u8]) -> Result<usize, CacheError> {
        block_on_with(|| wait(&self.client), self.client.set_range(key, offset, bytes))
    }

    /// Shows at least `count` keys from `cursor` on, if there are as many, and gives the cursor to
    /// go on from; 0 begins and ends.
    pub fn scan(&mut self, cursor: u64, count: usize, each: impl FnMut(&[u8])) -> Result<u64, CacheError> {
        block_on_with(|| wait(&self.client), self.client.scan(cursor, count, each))
    }

    /// Removes every key that was present when it began; gives how many it removed.
    pub fn flush(&mut self) -> Result<u64, CacheError> {
        block_on_with(|| wait(&self.client), self.client.flush())
    }

    /// Objects in the pool.
    pub fn objects(&mut self) -> Result<u64, CacheError> {
        block_on_with(|| wait(&self.client), self.client.objects())
    }

    /// Looks after the other clients, if this one has not within the last tenth of a second. What a
    /// dead client held is reclaimed.
    ///
    /// Operations do this by themselves, at most every 256 of them. An idle thread should call it
    /// every tenth of a second: a bare client has no thread of its own, and while all clients are
    /// idle none repairs. Until then nothing wrong is served; what the dead client held is not used.
    pub fn tend(&mut self) -> Result<(), CacheError> {
        block_on_with(|| wait(&self.client), self.client.tend())
    }

    /// The pool's clock, which times are told by: milliseconds since the Unix epoch, never going
    /// back.
    pub fn now_ms(&mut self) -> Result<u64, CacheError> {
        block_on_with(|| wait(&self.client), self.client.now_ms())
    }

    /// The longest value that this pool takes.
    pub fn value_bytes_max(&self) -> usize {
        self.client.value_bytes_max()
    }

    /// Notes from now on which objects this client removes, for [`Client::take_removals`].
    pub fn note_removals(&self) {
        if let Some(removals) = self.client.engine().removals() {
            removals.begin();
        }
    }

    /// The objects that this client has removed since the last call, in order. A client that notes
    /// them is to be asked after each operation, or the notes need more and more memory.
    pub fn take_removals(&self) -> Vec<Removal> {
        self.client.engine().removals().map(Removals::take).unwrap_or_default()
    }

    /// What this client has counted.
    pub fn stats(&self) -> Stats {
        self.client.stats()
    }
}
