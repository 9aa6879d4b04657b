//! One thread's client of a pool: the operations of a cache, each of which ends when its method
//! returns.
//!
//! Over shared memory no operation waits. Over a network the thread waits. The promises:
//!
//! - Lookups and changes of one key are linearizable; a miss counts as an eviction.
//! - After a miss no older value of that key comes back.
//! - A set does not fail while any object can be evicted.

use crate::fabric::{AddressedFabric, EndpointOf, PoolFabric, ServedFabric};
use crate::{OpenError, Pool};
use atoll_cache::{
    Beginning, CacheError, Chosen, Engine, ExpireCondition, ExpireOutcome, Expiry, Meta, Near, Number, Removal,
    Removals, SetOptions, SetOutcome, Stats, Value,
};
use atoll_fabric::{Endpoint, block_on_with};

/// The cache under the server, whichever engine its pool has, with methods that are futures.
pub type Operations<F = AddressedFabric> = atoll_cache::Cache<Near<Chosen<EndpointOf<F>>>>;

/// A client of a pool, for one thread at a time: the fastest access to the pool. Dropping it frees
/// its place (see [`Client::leave`]). [`Cache`](crate::Cache) is for many threads.
pub struct Client<F: PoolFabric = AddressedFabric> {
    client: Operations<F>,
    /// The value of the last hit; its memory is reused.
    value: Value,
    /// Dropped after the client. The last handle closes the pool, after all clients have left.
    _pool: Pool<F>,
}

/// Waits until a pending operation may make progress.
#[cold]
fn wait<E: Endpoint>(client: &atoll_cache::Cache<Near<Chosen<E>>>) {
    client.engine().client().endpoint.wait();
}

impl<F: PoolFabric> Client<F> {
    pub(crate) fn new(client: Operations<F>, pool: Pool<F>) -> Self {
        Self { client, value: Value::new(), _pool: pool }
    }

    /// The operations below, whose methods are futures. A named pool outlives a reboot of its host
    /// only if the caller keeps a [`Pool`] until the client is dropped.
    pub fn into_operations(self) -> Operations<F> {
        self.client
    }

    /// The same for a caller that drops futures before they end: see [`ServedFabric`].
    pub fn into_served(self) -> atoll_cache::Cache<F::Served>
    where
        F: ServedFabric,
    {
        atoll_cache::Cache::new(F::served(self.client.into_engine()))
    }

    /// Makes sure that this process takes part in the coherence of near caches.
    pub(crate) fn follow(self) -> Result<(), OpenError> {
        let followed = block_on_with(|| wait(&self.client), self.client.engine().follow());
        // What matters is whether it could follow.
        let _ = self.leave();
        Ok(followed?)
    }

    /// Releases what this client holds and its place, also where the fabric waits. Where memory is
    /// near, dropping the client does the same. Elsewhere the place of a dropped client is free
    /// only after another client has found that it is dead.
    pub fn leave(self) -> Result<(), CacheError> {
        block_on_with(|| wait(&self.client), self.client.engine().close())
    }

    /// The value of `key`; `None` if it is absent. The bytes are this client's own copy, valid
    /// until its next operation.
    #[inline]
    pub fn get(&mut self, key: &[u8]) -> Result<Option<&[u8]>, CacheError> {
        let hit = block_on_with(|| wait(&self.client), self.client.get(key, &mut self.value))?;
        Ok(hit.then(|| self.value.bytes()))
    }

    /// As [`Client::get`], into a buffer of the caller.
    #[inline]
    pub fn get_into(&mut self, key: &[u8], value: &mut Value) -> Result<bool, CacheError> {
        block_on_with(|| wait(&self.client), self.client.get(key, value))
    }

    /// Looks `key` up and copies its value to the start of `into`: see
    /// [`Cache::get_to_slice`](crate::Cache::get_to_slice).
    pub fn get_to_slice(&mut self, key: &[u8], into: &mut [u8]) -> Result<Option<Meta>, CacheError> {
        block_on_with(|| wait(&self.client), self.client.get_to_slice(key, into))
    }

    /// Looks many keys up at once, which is faster than one by one. It calls `found(i, value)` for
    /// every `keys[i]`, in order.
    pub fn get_many(&mut self, keys: &[&[u8]], mut found: impl FnMut(usize, Option<&[u8]>)) -> Result<(), CacheError> {
        self.get_each(keys, |index, value| found(index, value.map(Value::bytes)))
    }

    /// As [`Client::get_many`], with what is known of each value besides its bytes.
    pub fn get_each(&mut self, keys: &[&[u8]], mut found: impl FnMut(usize, Option<&Value>)) -> Result<(), CacheError> {
        block_on_with(|| wait(&self.client), self.client.get_many(keys, |index, value| found(index, value.as_deref())))
    }

    /// The metadata of `key`'s object.
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

    /// As [`Client::set_with`], and returns the previous value.
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

    /// Removes `key`; returns whether it was present.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, CacheError> {
        block_on_with(|| wait(&self.client), self.client.delete(key))
    }

    /// Removes `key` and returns its value.
    pub fn take(&mut self, key: &[u8]) -> Result<Option<&[u8]>, CacheError> {
        let found = block_on_with(|| wait(&self.client), self.client.take(key, Some(&mut self.value)))?;
        Ok(found.then(|| self.value.bytes()))
    }

    /// Sets the expiry of `key`, in milliseconds on the pool's clock.
    pub fn expire(
        &mut self,
        key: &[u8],
        expiry: Expiry,
        condition: ExpireCondition,
    ) -> Result<ExpireOutcome, CacheError> {
        block_on_with(|| wait(&self.client), self.client.expire(key, expiry, condition))
    }

    /// Adds `by` to the decimal integer at `key`. An absent key counts as 0.
    pub fn increment(&mut self, key: &[u8], by: i64) -> Result<Number<i64>, CacheError> {
        block_on_with(|| wait(&self.client), self.client.increment(key, by))
    }

    /// As [`Client::increment`], and says what the object is like that it creates if the key is
    /// absent. Without a beginning an absent key stays absent, and the result is `None`.
    pub fn increment_from(
        &mut self,
        key: &[u8],
        by: i64,
        beginning: Option<Beginning>,
    ) -> Result<Option<Number<i64>>, CacheError> {
        block_on_with(|| wait(&self.client), self.client.increment_from(key, by, beginning))
    }

    /// Adds `by` to the decimal number at `key`. An absent key counts as 0.
    pub fn increment_float(&mut self, key: &[u8], by: f64) -> Result<Number<f64>, CacheError> {
        block_on_with(|| wait(&self.client), self.client.increment_float(key, by))
    }

    /// Appends to the value of `key` and returns the new length. An absent key counts as empty.
    pub fn append(&mut self, key: &[u8], suffix: &[u8]) -> Result<usize, CacheError> {
        block_on_with(|| wait(&self.client), self.client.append(key, suffix))
    }

    /// Puts `prefix` before the value of `key` and returns the new length. An absent key counts as
    /// empty.
    pub fn prepend(&mut self, key: &[u8], prefix: &[u8]) -> Result<usize, CacheError> {
        block_on_with(|| wait(&self.client), self.client.prepend(key, prefix))
    }

    /// The bytes from `start` to `end`, both inclusive. A negative index counts from the end.
    pub fn get_range(&mut self, key: &[u8], start: i64, end: i64) -> Result<&[u8], CacheError> {
        block_on_with(|| wait(&self.client), self.client.get_range(key, start, end, &mut self.value))
    }

    /// Overwrites the value from `offset` on, padded with zero bytes; returns the new length.
    pub fn set_range(&mut self, key: &[u8], offset: usize, bytes: &[u8]) -> Result<usize, CacheError> {
        block_on_with(|| wait(&self.client), self.client.set_range(key, offset, bytes))
    }

    /// Shows at least `count` keys from `cursor` on, if there are as many. Returns the cursor of
    /// the next call. A scan begins with 0 and has ended when 0 is returned.
    pub fn scan(&mut self, cursor: u64, count: usize, each: impl FnMut(&[u8])) -> Result<u64, CacheError> {
        block_on_with(|| wait(&self.client), self.client.scan(cursor, count, each))
    }

    /// Removes every key that was present when the call began; returns how many.
    pub fn flush(&mut self) -> Result<u64, CacheError> {
        block_on_with(|| wait(&self.client), self.client.flush())
    }

    /// Objects in the pool.
    pub fn objects(&mut self) -> Result<u64, CacheError> {
        block_on_with(|| wait(&self.client), self.client.objects())
    }

    /// Checks on the other clients, unless this client has done so within the last tenth of a
    /// second. It reclaims what dead clients held.
    ///
    /// Every operation may do this, at most once in 256 operations. An idle thread should call it
    /// every tenth of a second, because a bare client has no thread of its own. While all clients
    /// are idle, none repairs the pool. Lookups stay correct until then; memory that dead clients
    /// held stays unused.
    pub fn tend(&mut self) -> Result<(), CacheError> {
        block_on_with(|| wait(&self.client), self.client.tend())
    }

    /// The pool's clock, by which objects expire: milliseconds since the Unix epoch. It never runs
    /// backwards.
    pub fn now_ms(&mut self) -> Result<u64, CacheError> {
        block_on_with(|| wait(&self.client), self.client.now_ms())
    }

    /// The longest value that this pool stores.
    pub fn value_bytes_max(&self) -> usize {
        self.client.value_bytes_max()
    }

    /// Records from now on which objects this client removes, for [`Client::take_removals`].
    pub fn note_removals(&self) {
        if let Some(removals) = self.client.engine().removals() {
            removals.begin();
        }
    }

    /// The objects that this client has removed since the last call, in order. A caller that lets
    /// the client record them must call this after each operation: the records grow otherwise.
    pub fn take_removals(&self) -> Vec<Removal> {
        self.client.engine().removals().map(Removals::take).unwrap_or_default()
    }

    /// What this client has counted.
    pub fn stats(&self) -> Stats {
        self.client.stats()
    }
}
