//! Engines that are compiled in this library, once for all test programs.
//!
//! The compiler compiles the body of an async function again in every crate that awaits it, with
//! all that the body awaits. It does not compile a function again that this library has used with
//! the same types. So a test program compiles no engine whose operations it awaits in boxes of this
//! library: those of [`Lasting`](atoll_cache::Lasting), of [`Compiled`], and of
//! [`Case`](crate::Case). `instances` uses what several programs use.

use atoll_cache::audit::Audit;
use atoll_cache::{
    Ahead, CacheError, Change, Copied, Copies, Engine, Flushed, Lookup, Mark, Meta, Pooled, Reading, Removals, Staged,
    Stats, Value,
};
use atoll_fabric::{Arrivals, Endpoint};
use atoll_pool::{Client, PoolError, PoolSettings, Repaired};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

/// A future whose body is compiled where it was boxed.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Boxes a future.
pub(crate) fn boxed<'a, T>(future: impl Future<Output = T> + 'a) -> Boxed<'a, T> {
    Box::pin(future)
}

/// The engines over shared memory.
pub mod shm {
    use super::Compiled;
    use atoll_fabric::shm::ShmEndpoint;

    /// `forge`.
    pub type Forge = Compiled<atoll_cache::forge::Forge<ShmEndpoint>>;
    /// `ditto`.
    pub type Ditto = Compiled<atoll_cache::ditto::Ditto<ShmEndpoint>>;
    /// `kvs`.
    pub type Kvs = Compiled<atoll_baselines::kvs::Kvs<ShmEndpoint>>;
    /// The queues.
    pub type Queued = Compiled<atoll_baselines::queues::Queued<ShmEndpoint>>;
}

/// The engines over the simulated fabric.
pub mod sim {
    use super::Compiled;
    use crate::endpoint::CaseEndpoint;

    /// `forge`.
    pub type Forge = Compiled<atoll_cache::forge::Forge<CaseEndpoint>>;
    /// `ditto`.
    pub type Ditto = Compiled<atoll_cache::ditto::Ditto<CaseEndpoint>>;
    /// `kvs`.
    pub type Kvs = Compiled<atoll_baselines::kvs::Kvs<CaseEndpoint>>;
    /// The queues.
    pub type Queued = Compiled<atoll_baselines::queues::Queued<CaseEndpoint>>;
}

/// An engine whose operations are boxed.
pub struct Compiled<G>(G);

/// Methods that only this engine has. Without [`Pooled`] in scope, a call of one of its methods
/// finds the engine's own, which is compiled again.
impl<G> std::ops::Deref for Compiled<G> {
    type Target = G;

    fn deref(&self) -> &G {
        &self.0
    }
}

impl<G> std::ops::DerefMut for Compiled<G> {
    fn deref_mut(&mut self) -> &mut G {
        &mut self.0
    }
}

/// Writes operations without a callback.
macro_rules! box_operations {
    ($($name:ident($($by:ident: $type:ty),*) $(-> $output:ty)?,)*) => {$(
        async fn $name(&self $(, $by: $type)*) $(-> $output)? {
            boxed(self.0.$name($($by),*)).await
        }
    )*};
}

impl<G: Engine> Engine for Compiled<G> {
    box_operations! {
        get(key: &[u8], into: &mut Value) -> Result<Lookup, CacheError>,
        get_to(key: &[u8], into: &mut [u8]) -> Result<(Lookup, Meta), CacheError>,
        expect(keys: &[&[u8]]),
        peek(key: &[u8]) -> Result<Option<Meta>, CacheError>,
        random_key() -> Result<Option<Vec<u8>>, CacheError>,
        flush(cursor: u64) -> Result<Flushed, CacheError>,
        objects() -> Result<u64, CacheError>,
        now_ms() -> Result<u64, CacheError>,
        follow_changes() -> Result<bool, CacheError>,
        tell_changes(key: &[u8]) -> Result<Option<Meta>, CacheError>,
        open_value(key: &[u8], value: &mut Value) -> Result<Option<Reading>, CacheError>,
        read_on(reading: &mut Reading, into: &mut [u8]) -> Result<bool, CacheError>,
        append_staged(staged: &mut Staged, bytes: &[u8]) -> Result<(), CacheError>,
        work() -> Result<(), CacheError>,
        tend() -> Result<(), CacheError>,
        close() -> Result<(), CacheError>,
    }

    async fn get_many<F>(&self, keys: &[&[u8]], bytes_max: usize, mut found: F) -> Result<(), CacheError>
    where
        F: FnMut(usize, Lookup, &mut Value),
    {
        let found: &mut dyn FnMut(usize, Lookup, &mut Value) = &mut found;
        boxed(self.0.get_many(keys, bytes_max, found)).await
    }

    async fn get_part<P>(&self, key: &[u8], part: P, into: &mut Value) -> Result<(Lookup, Meta), CacheError>
    where
        P: Fn(Meta) -> Range<usize> + 'static,
    {
        boxed(self.0.get_part(key, part, into)).await
    }

    async fn update<C: Change>(&self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError> {
        boxed(self.0.update(key, change)).await
    }

    async fn scan<F: FnMut(&[u8])>(&self, cursor: u64, count: usize, mut each: F) -> Result<u64, CacheError> {
        let each: &mut dyn FnMut(&[u8]) = &mut each;
        boxed(self.0.scan(cursor, count, each)).await
    }

    fn opens_values(&self) -> bool {
        self.0.opens_values()
    }

    fn attend(&self) {
        self.0.attend();
    }

    fn has_work(&self) -> bool {
        self.0.has_work()
    }

    fn stage(&self, key: &[u8], value_bytes: usize) -> Option<Staged> {
        self.0.stage(key, value_bytes)
    }

    fn word_number(&self, key: &[u8]) -> u32 {
        self.0.word_number(key)
    }

    fn mark(&self, word_number: u32) -> Option<Mark> {
        self.0.mark(word_number)
    }

    fn value_bytes_max(&self) -> usize {
        self.0.value_bytes_max()
    }

    fn stats(&self) -> Stats {
        self.0.stats()
    }

    fn arrivals(&self) -> Option<&dyn Arrivals> {
        self.0.arrivals()
    }

    fn removals(&self) -> Option<&Removals> {
        self.0.removals()
    }
}

impl<E: Endpoint, G: Pooled<E>> Pooled<E> for Compiled<G> {
    type Shared = G::Shared;

    async fn format(endpoint: &E, settings: PoolSettings) -> Result<Arc<G::Shared>, PoolError> {
        boxed(G::format(endpoint, settings)).await
    }

    async fn open(endpoint: &E, home_bytes: u64) -> Result<Arc<G::Shared>, PoolError> {
        boxed(G::open(endpoint, home_bytes)).await
    }

    async fn join(shared: &Arc<G::Shared>, endpoint: E) -> Result<Self, PoolError> {
        boxed(G::join(shared, endpoint)).await.map(Self)
    }

    fn auditor(shared: &Arc<G::Shared>, endpoint: E) -> Result<Self, PoolError> {
        G::auditor(shared, endpoint).map(Self)
    }

    fn shared(&self) -> &Arc<G::Shared> {
        self.0.shared()
    }

    fn client(&self) -> &Client<E> {
        self.0.client()
    }

    box_operations! {
        leave() -> Result<(), CacheError>,
        repair() -> Result<Repaired, CacheError>,
        verify() -> Result<Audit, CacheError>,
        retire_chunks(most: u64) -> Result<u64, CacheError>,
        evict_ahead() -> Result<Ahead, CacheError>,
        discard_retired() -> Result<u64, CacheError>,
        restore_chunk() -> Result<bool, CacheError>,
        grow(bytes: u64) -> Result<u8, PoolError>,
    }
}

impl<G: Copied> Copied for Compiled<G> {
    type Endpoint = G::Endpoint;

    fn pool_client(&self) -> &Client<G::Endpoint> {
        self.0.pool_client()
    }

    fn hash(&self, key: &[u8]) -> u64 {
        self.0.hash(key)
    }

    fn stripe(&self, hash: u64) -> u64 {
        self.0.stripe(hash)
    }

    box_operations! {
        permit(key: &[u8]) -> Result<Option<Meta>, CacheError>,
        get_permitting(key: &[u8], into: &mut Value, bytes_max: usize) -> Result<(Lookup, bool), CacheError>,
    }

    async fn get_many_permitting<F>(
        &self,
        keys: &[&[u8]],
        bytes_max: usize,
        copies: Copies<'_>,
        mut found: F,
    ) -> Result<(), CacheError>
    where
        F: FnMut(usize, Lookup, &mut Value, bool),
    {
        let found: &mut dyn FnMut(usize, Lookup, &mut Value, bool) = &mut found;
        boxed(self.0.get_many_permitting(keys, bytes_max, copies, found)).await
    }
}

/// What the test programs use. With the feature of tests alone: nothing else uses all of it.
#[cfg(feature = "holes")]
pub mod instances {
    use super::*;
    use crate::case::Case;
    use crate::endpoint::CaseEndpoint;
    use crate::faulty::FaultyCase;
    use crate::subject::Subject;
    use crate::subjects::{CliqueMapSubject, DittoSubject, ForgeSubject, GlCacheSubject, KvsSubject, QueuesSubject};
    use atoll_cache::{Cache, Expiry, Lasting, SetOptions};
    use atoll_fabric::shm::ShmEndpoint;
    use std::error::Error;

    type Outcome = Result<(), Box<dyn Error>>;
    /// Cases of each engine, without faults and with them.
    pub static CASES: [fn(u64) -> Result<(), String>; 6] = [
        run::<ForgeSubject>,
        run::<GlCacheSubject>,
        run::<DittoSubject>,
        run::<KvsSubject>,
        run::<QueuesSubject>,
        run::<CliqueMapSubject>,
    ];

    /// Clients over shared memory.
    pub static SHM: [fn(ShmEndpoint, ShmEndpoint) -> Boxed<'static, Outcome>; 4] =
        [used::<_, shm::Forge>, used::<_, shm::Ditto>, used::<_, shm::Kvs>, used::<_, shm::Queued>];

    /// Clients over the simulated fabric.
    pub static SIM: [fn(CaseEndpoint, CaseEndpoint) -> Boxed<'static, Outcome>; 10] = [
        used::<_, sim::Forge>,
        used::<_, sim::Ditto>,
        used::<_, sim::Kvs>,
        used::<_, sim::Queued>,
        used::<_, InCase<ForgeSubject>>,
        used::<_, InCase<GlCacheSubject>>,
        used::<_, InCase<DittoSubject>>,
        used::<_, InCase<KvsSubject>>,
        used::<_, InCase<QueuesSubject>>,
        used::<_, InCase<CliqueMapSubject>>,
    ];

    /// A client's engine in a case.
    type InCase<S> = Lasting<<S as Subject>::Engine>;

    fn run<S: Subject>(seed: u64) -> Result<(), String> {
        Case::<S>::drawn(seed).run(seed)?;
        FaultyCase::<S>::crowded(seed).run(seed).map(drop)
    }

    fn used<E: Endpoint + 'static, G: Pooled<E> + 'static>(maker: E, member: E) -> Boxed<'static, Outcome> {
        boxed(use_all::<E, G>(maker, member))
    }

    /// Uses every operation, as tests do.
    async fn use_all<E: Endpoint, G: Pooled<E>>(maker: E, member: E) -> Outcome {
        let pool = G::format(&maker, PoolSettings::for_capacity(1 << 20)).await?;
        G::open(&maker, 1 << 20).await?;
        let cache = Cache::new(G::join(&pool, member).await?);
        let (key, mut value) = (b"key", Value::new());
        cache.set(key, key, &SetOptions::default()).await?;
        cache.set_returning(key, key, &SetOptions::default(), Some(&mut value)).await?;
        cache.get(key, &mut value).await?;
        cache.get_to_slice(key, &mut []).await?;
        cache.get_many(&[key], |_, _| ()).await?;
        cache.expect(&[key]).await;
        cache.peek(key).await?;
        cache.expire(key, Expiry::Never, Default::default()).await?;
        cache.get_and_expire(key, Expiry::Never, &mut value).await?;
        cache.increment(key, 1).await?;
        cache.append(key, key).await?;
        cache.take(key, Some(&mut value)).await?;
        cache.delete(key).await?;
        cache.scan(0, 1, |_| ()).await?;
        cache.random_key().await?;
        cache.flush().await?;
        cache.objects().await?;
        cache.now_ms().await?;
        cache.tend().await?;
        let engine = cache.into_engine();
        engine.repair().await?;
        engine.verify().await?;
        engine.retire_chunks(1).await?;
        engine.evict_ahead().await?;
        engine.discard_retired().await?;
        engine.restore_chunk().await?;
        engine.grow(1 << 20).await?;
        engine.leave().await?;
        G::auditor(&pool, maker)?.verify().await?;
        Ok(())
    }
}
