//! A cache that all threads of a process share.
//!
//! | module | concept |
//! |---|---|
//! | `clients` | the few clients of the pool that threads share, one at a time each |
//! | [`builder`] | how a cache is made |
//! | `listener` | calls a program's listener with the objects that its cache has removed |
//! | [`load`] | one loader for each key, however many threads miss it |
//! | [`keys`] | all keys, one after the other |
//! | [`typed`] | keys and values of a program's own types |
//! | [`future`](mod@future) | the same operations as futures |
//!
//! An operation of a [`Cache`] takes a lock, which the bare [`Client`](crate::Client) does not
//! have. The lock is free most of the time. A thread of the cache tends the pool every tenth of a
//! second, so an idle program need not do anything. The thread ends with the last clone. A process
//! that forks must open the pool anew in the child: see [`Cache::is_inherited`].

pub mod builder;
mod clients;
pub mod future;
pub mod keys;
mod listener;
pub mod load;
pub mod typed;

pub use builder::{BuildError, Builder};
pub use keys::Keys;
pub use load::{Lease, LoadError};
pub use typed::{Codec, TypedCache, TypedError};

use crate::fabric::{AddressedFabric, PoolFabric};
use crate::{OpenError, Pool};
use atoll_cache::{
    Beginning, CacheError, Condition, ExpireCondition, ExpireOutcome, Expiry, Meta, Number, SetOptions, SetOutcome,
    Stats, Value,
};
use clients::{Clients, Turns};
use load::Loads;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Why an operation of a [`Cache`] failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operation itself failed.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// No client was available: the last one was shut out, and another one could not join.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The value is no decimal number, so nothing can be added to it. It is unchanged.
    #[error("the value is no decimal number: an increment would lose it")]
    NotANumber,
    /// The sum exceeds 64 bits. The value is unchanged.
    #[error("the sum is beyond 64 bits")]
    Overflow,
}

/// When an object expires if the caller gives no time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// Never: they stay until they are evicted.
    #[default]
    Unlimited,
    /// This long after the object was set.
    Live(Duration),
    /// This long after the object was last set or found.
    Idle(Duration),
}

/// The part of an idle time after which a lookup renews it, so that lookups of a popular key seldom
/// write.
const RENEWED_AFTER: u32 = 8;

/// A cache that all threads of a process share. Cheap to clone.
///
/// ```
/// use atoll::{Cache, Pool, PoolOptions};
/// use std::time::Duration;
///
/// let pool = Pool::anonymous(&PoolOptions::default().capacity_bytes(16 << 20))?;
/// let cache = Cache::builder().time_to_live(Duration::from_secs(60)).build(&pool)?;
/// std::thread::scope(|scope| {
///     for _ in 0..8 {
///         // One of the threads loads the value, and all get it.
///         scope.spawn(|| cache.get_with(b"user 7", || b"alice".to_vec()).unwrap());
///     }
/// });
/// assert_eq!(cache.get(b"user 7")?.as_deref(), Some(&b"alice"[..]));
/// assert_eq!(cache.statistics().loads, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Cache<F: PoolFabric = AddressedFabric>(Arc<Shared<F>>);

struct Shared<F: PoolFabric> {
    clients: Arc<Clients<F>>,
    /// Of the thread that tends the pool. Dropped after the clients.
    turns: Option<Turns>,
    lifetime: Lifetime,
    /// Whether a lookup has a second step: a renewal, or a call of the listener.
    attends_hits: bool,
    loads: Loads,
    loaded: AtomicU64,
    load_failures: AtomicU64,
}

impl<F: PoolFabric> Drop for Shared<F> {
    fn drop(&mut self) {
        // A fork does not have the thread, whose turn would never end.
        if self.clients.is_inherited() {
            std::mem::forget(self.turns.take());
        }
    }
}

impl<F: PoolFabric> Clone for Cache<F> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// A reference to a cache that keeps neither its clients nor its thread. A listener holds its cache
/// by one.
pub struct WeakCache<F: PoolFabric = AddressedFabric>(Weak<Shared<F>>);

impl<F: PoolFabric> Clone for WeakCache<F> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<F: PoolFabric> WeakCache<F> {
    /// The cache, if a clone of it is left.
    pub fn upgrade(&self) -> Option<Cache<F>> {
        self.0.upgrade().map(Cache)
    }
}

/// What the clones of a cache have counted together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// What the clients have counted of the pool: hits, misses, and evictions that they made.
    pub pool: Stats,
    /// Values that loaders made.
    pub loads: u64,
    /// Loads that failed, and values that could not be stored.
    pub load_failures: u64,
    /// Bytes in use by the pool's objects and metadata.
    pub weight_bytes: u64,
}

impl Cache {
    /// Begins to build a cache.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl<F: PoolFabric> Cache<F> {
    fn with<T>(
        &self,
        operation: impl FnMut(&mut crate::Client<F>) -> Result<T, CacheError>,
        is_harmless: bool,
    ) -> Result<T, Error> {
        self.0.clients.with(operation, is_harmless)
    }

    /// A reference to the same cache that does not keep it.
    pub fn downgrade(&self) -> WeakCache<F> {
        WeakCache(Arc::downgrade(&self.0))
    }

    /// Whether this process is a fork of the one that made the cache. Its operations fail then, or
    /// wait for threads that a fork does not have. A fork must forget the cache without dropping
    /// it, and open the pool anew.
    #[inline]
    pub fn is_inherited(&self) -> bool {
        self.0.clients.is_inherited()
    }

    /// The pool.
    pub fn pool(&self) -> &Pool<F> {
        self.0.clients.pool()
    }

    /// The value of `key`, if it is there.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let mut value = Value::new();
        Ok(self.get_into(key, &mut value)?.then(|| value.bytes().to_vec()))
    }

    /// Looks `key` up. On a hit it returns `true` and `value` has the value; its memory is reused.
    #[inline]
    pub fn get_into(&self, key: &[u8], value: &mut Value) -> Result<bool, Error> {
        if self.0.attends_hits {
            return self.get_attended(key, value);
        }
        self.0.clients.with_quiet(|client| client.get_into(key, value), true)
    }

    /// Looks `key` up and copies its value to the start of `into`; returns its metadata, or `None`
    /// if the key is absent. The value of a large object is copied once, straight from the pool,
    /// where the pool's memory is near.
    ///
    /// A value that is longer than `into` is not copied: [`Meta::value_bytes`] says how long it is.
    /// After a miss any bytes may be in `into`.
    pub fn get_to_slice(&self, key: &[u8], into: &mut [u8]) -> Result<Option<Meta>, Error> {
        let found = self.with(|client| client.get_to_slice(key, into), true)?;
        if let (Some(meta), Lifetime::Idle(idle)) = (found, self.0.lifetime) {
            self.renew(key, meta, idle)?;
        }
        Ok(found)
    }

    #[cold]
    fn get_attended(&self, key: &[u8], value: &mut Value) -> Result<bool, Error> {
        let hit = self.with(|client| client.get_into(key, value), true)?;
        if let (true, Lifetime::Idle(idle)) = (hit, self.0.lifetime) {
            self.renew(key, value.meta(), idle)?;
        }
        Ok(hit)
    }

    /// Renews the expiry of an object that was found, once a part of its idle time has passed.
    fn renew(&self, key: &[u8], found: Meta, idle: Duration) -> Result<(), Error> {
        let idle_ms = milliseconds(idle);
        let Some(at_ms) = found.expiry_ms else { return Ok(()) };
        let renew = |client: &mut crate::Client<F>| {
            let left_ms = at_ms.saturating_sub(client.now_ms()?);
            match left_ms <= idle_ms - idle_ms / u64::from(RENEWED_AFTER) {
                true => client.expire(key, Expiry::InMs(idle_ms), ExpireCondition::default()).map(drop),
                false => Ok(()),
            }
        };
        self.with(renew, true)
    }

    /// The metadata of `key`: its expiry, its length, its token.
    pub fn peek(&self, key: &[u8]) -> Result<Option<Meta>, Error> {
        self.with(|client| client.peek(key), true)
    }

    /// The bytes from `start` to `end`, both inclusive. A negative index counts from the end. Empty
    /// if `key` is absent.
    pub fn get_range(&self, key: &[u8], start: i64, end: i64) -> Result<Vec<u8>, Error> {
        self.with(|client| client.get_range(key, start, end).map(<[u8]>::to_vec), true)
    }

    /// The values of many keys, which are looked up together.
    pub fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let look = |client: &mut crate::Client<F>| {
            let mut values = Vec::with_capacity(keys.len());
            client.get_many(keys, |_, value| values.push(value.map(<[u8]>::to_vec)))?;
            Ok(values)
        };
        self.with(look, true)
    }

    /// Looks many keys up together. It calls `found(i, value)` for every `keys[i]`, and again from
    /// the first if a client was shut out meanwhile.
    pub fn get_each(&self, keys: &[&[u8]], mut found: impl FnMut(usize, Option<&Value>)) -> Result<(), Error> {
        self.with(|client| client.get_each(keys, &mut found), true)
    }

    /// Whether `key` is there.
    pub fn contains(&self, key: &[u8]) -> Result<bool, Error> {
        self.with(|client| client.exists(key), true)
    }

    fn options(&self) -> SetOptions {
        let expiry = match self.0.lifetime {
            Lifetime::Unlimited => Expiry::Never,
            Lifetime::Live(time) | Lifetime::Idle(time) => Expiry::InMs(milliseconds(time)),
        };
        SetOptions { expiry, ..SetOptions::default() }
    }

    /// Sets `key` to `value`, for the cache's time to live or to idle, if it has one.
    pub fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.set_with(key, value, &self.options()).map(drop)
    }

    /// Sets `key` to `value` for this long, at least a millisecond.
    pub fn set_for(&self, key: &[u8], value: &[u8], time: Duration) -> Result<(), Error> {
        let options = SetOptions { expiry: Expiry::InMs(milliseconds(time)), ..SetOptions::default() };
        self.set_with(key, value, &options).map(drop)
    }

    /// Sets `key` to `value` if it is absent; returns whether it was set.
    pub fn set_if_absent(&self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        let options = SetOptions { condition: Condition::IfAbsent, ..self.options() };
        Ok(self.set_with(key, value, &options)?.stored)
    }

    /// Sets `key` to `value` under conditions or for a time; the cache's own times do not apply.
    pub fn set_with(&self, key: &[u8], value: &[u8], options: &SetOptions) -> Result<SetOutcome, Error> {
        self.with(|client| client.set_with(key, value, options), false)
    }

    /// Sets `key` to `value`, as [`Cache::set`], and returns the previous value.
    pub fn replace(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let options = self.options();
        self.with(|client| Ok(client.replace(key, value, &options)?.1.map(<[u8]>::to_vec)), false)
    }

    /// Removes `key`; returns whether it was present.
    pub fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        self.with(|client| client.delete(key), false)
    }

    /// Removes `key` and returns its value.
    pub fn take(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.with(|client| Ok(client.take(key)?.map(<[u8]>::to_vec)), false)
    }

    /// Adds `by` to the decimal integer at `key`, and returns the sum. An absent key counts as 0.
    /// The expiry is unchanged.
    ///
    /// # Errors
    /// [`Error::NotANumber`] if the value is no number; it is unchanged then.
    pub fn increment(&self, key: &[u8], by: i64) -> Result<i64, Error> {
        sum(self.with(|client| client.increment(key, by), false)?)
    }

    /// As [`Cache::increment`], and says what the object is like that it creates if the key is
    /// absent. Without a beginning an absent key stays absent, and the result is `None`.
    ///
    /// # Errors
    /// As [`Cache::increment`].
    pub fn increment_from(&self, key: &[u8], by: i64, beginning: Option<Beginning>) -> Result<Option<i64>, Error> {
        self.with(|client| client.increment_from(key, by, beginning), false)?.map(sum).transpose()
    }

    /// Adds `by` to the decimal number at `key`, and returns the sum. An absent key counts as 0.
    /// The expiry is unchanged.
    ///
    /// # Errors
    /// As [`Cache::increment`].
    pub fn increment_float(&self, key: &[u8], by: f64) -> Result<f64, Error> {
        sum(self.with(|client| client.increment_float(key, by), false)?)
    }

    /// Appends to the value of `key` and returns the new length. An absent key counts as empty.
    pub fn append(&self, key: &[u8], suffix: &[u8]) -> Result<usize, Error> {
        self.with(|client| client.append(key, suffix), false)
    }

    /// Puts `prefix` before the value of `key` and returns the new length. An absent key counts as
    /// empty.
    pub fn prepend(&self, key: &[u8], prefix: &[u8]) -> Result<usize, Error> {
        self.with(|client| client.prepend(key, prefix), false)
    }

    /// Overwrites the value from `offset` on and returns the new length. A shorter value is padded
    /// with zero bytes first.
    pub fn set_range(&self, key: &[u8], offset: usize, bytes: &[u8]) -> Result<usize, Error> {
        self.with(|client| client.set_range(key, offset, bytes), false)
    }

    /// Sets the expiry of `key` to this long from now; returns whether the key is present.
    pub fn expire(&self, key: &[u8], time: Duration) -> Result<bool, Error> {
        self.set_expiry(key, Expiry::InMs(milliseconds(time)))
    }

    /// Removes the expiry of `key`; returns whether the key is present.
    pub fn persist(&self, key: &[u8]) -> Result<bool, Error> {
        self.set_expiry(key, Expiry::Never)
    }

    /// Sets or removes the expiry of `key`; returns whether the key is present.
    pub fn set_expiry(&self, key: &[u8], expiry: Expiry) -> Result<bool, Error> {
        let outcome = self.with(|client| client.expire(key, expiry, ExpireCondition::default()), false)?;
        Ok(outcome != ExpireOutcome::Absent)
    }

    /// Objects in the pool, including expired ones that no client has removed yet.
    pub fn objects(&self) -> Result<u64, Error> {
        self.with(|client| client.objects(), true)
    }

    /// Removes every key that was present when the call began; returns how many.
    pub fn flush(&self) -> Result<u64, Error> {
        self.with(|client| client.flush(), false)
    }

    /// All keys: see [`Keys`].
    pub fn keys(&self) -> Keys<F> {
        Keys::new(self.clone())
    }

    /// What was counted so far by this cache and its clones.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            pool: self.0.clients.stats(),
            loads: self.0.loaded.load(Relaxed),
            load_failures: self.0.load_failures.load(Relaxed),
            weight_bytes: self.pool().used_bytes(),
        }
    }
}

/// The sum that an increment returns.
fn sum<T>(number: Number<T>) -> Result<T, Error> {
    match number {
        Number::Value(sum) => Ok(sum),
        Number::NotANumber => Err(Error::NotANumber),
        Number::Overflow => Err(Error::Overflow),
    }
}

/// A time on the pool's clock, which counts in milliseconds; at least one.
fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX).max(1)
}
