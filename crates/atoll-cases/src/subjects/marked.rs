//! Clients that keep what they read by the marks of [`Engine::mark`], as a server does for its own
//! clients.

use super::near::{CopiedSubject, NearSubject};
use crate::compiled::Compiled;
use crate::endpoint::CaseEndpoint;
use crate::subject::{ServerSpawner, Shared, Subject};
use atoll_cache::{CacheError, Change, Copied, Engine, Lookup, Mark, Meta, Near, Pooled, Stats, Value};
use atoll_fabric::{Arrivals, Buffer, RegionAttributes};
use atoll_pool::{PoolError, PoolSettings};
use atoll_sim::{Random, Sim};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A value that a client keeps as long as the mark of its word is the same.
struct Kept {
    mark: Mark,
    bytes: Vec<u8>,
    meta: Meta,
}

/// An engine whose client answers lookups from what it keeps.
pub struct Marked<G: Copied> {
    near: Near<G>,
    kept: RefCell<BTreeMap<Vec<u8>, Kept>>,
    /// Whether marks are taken after the lookup, which is a hole.
    takes_marks_late: bool,
    hits: Cell<u64>,
}

impl<G: Copied> Marked<G> {
    fn new(near: Near<G>) -> Self {
        Self { near, kept: RefCell::default(), takes_marks_late: false, hits: Cell::new(0) }
    }

    /// What the client keeps of a key, if that is as the pool has it.
    async fn find(&self, key: &[u8], mark: Mark) -> Result<Option<(Vec<u8>, Meta)>, CacheError> {
        let found = self.kept.borrow().get(key).map(|kept| (kept.mark, kept.bytes.clone(), kept.meta));
        let Some((_, bytes, meta)) = found.filter(|(kept, ..)| *kept == mark) else { return Ok(None) };
        let has_expired = match meta.expiry_ms {
            Some(expiry_ms) => expiry_ms <= self.near.now_ms().await?,
            None => false,
        };
        Ok((!has_expired).then_some((bytes, meta)))
    }
}

impl<G: Copied> Engine for Marked<G> {
    atoll_cache::pass_on_operations!(near);

    async fn get(&self, key: &[u8], into: &mut Value) -> Result<Lookup, CacheError> {
        let number = self.near.word_number(key);
        if self.near.mark(number).is_none() {
            self.near.follow_changes().await?;
        }
        let mark = self.near.mark(number);
        if let Some(mark) = mark
            && let Some((bytes, meta)) = self.find(key, mark).await?
        {
            self.hits.set(self.hits.get() + 1);
            let mut buffer = Buffer::sized(bytes.len());
            buffer.bytes_mut().copy_from_slice(&bytes);
            into.hold(buffer, 0, meta);
            return Ok(Lookup::Hit);
        }
        let told = self.near.tell_changes(key).await?;
        let lookup = self.near.get(key, into).await?;
        let mark = if self.takes_marks_late { self.near.mark(number) } else { mark };
        let found = into.meta();
        if let (Lookup::Hit, Some(mark), Some(meta)) = (lookup, mark, told)
            && (meta.token, meta.expiry_ms) == (found.token, found.expiry_ms)
        {
            self.kept.borrow_mut().insert(key.to_vec(), Kept { mark, bytes: into.bytes().to_vec(), meta: found });
        }
        Ok(lookup)
    }

    async fn update<C: Change>(&self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError> {
        self.near.update(key, change).await
    }

    async fn expect(&self, keys: &[&[u8]]) {
        self.near.expect(keys).await;
    }

    async fn tend(&self) -> Result<(), CacheError> {
        Engine::tend(&self.near).await
    }

    async fn close(&self) -> Result<(), CacheError> {
        self.near.close().await
    }

    fn stats(&self) -> Stats {
        let mut stats = self.near.stats();
        stats.hits += self.hits.get();
        stats.near_hits += self.hits.get();
        stats
    }

    fn arrivals(&self) -> Option<&dyn Arrivals> {
        self.near.arrivals()
    }
}

impl<G: Pooled<CaseEndpoint> + Copied<Endpoint = CaseEndpoint>> Pooled<CaseEndpoint> for Marked<G> {
    type Shared = G::Shared;

    async fn join(shared: &Arc<Self::Shared>, endpoint: CaseEndpoint) -> Result<Self, PoolError> {
        Ok(Self::new(Near::join(shared, endpoint).await?))
    }

    fn auditor(shared: &Arc<Self::Shared>, endpoint: CaseEndpoint) -> Result<Self, PoolError> {
        Ok(Self::new(Near::auditor(shared, endpoint)?))
    }

    async fn leave(&self) -> Result<(), CacheError> {
        Pooled::leave(&self.near).await
    }

    atoll_cache::pass_on_upkeep!(near, CaseEndpoint);
}

/// [`Marked`], over the near caches of its clients' processes.
#[derive(Clone, Debug, Default)]
pub struct MarkedSubject<S> {
    /// What it is over.
    pub near: NearSubject<S>,
    /// Whether marks are taken after the lookup, which is a hole.
    pub takes_marks_late: bool,
}

impl<S: CopiedSubject> Subject for MarkedSubject<S> {
    const NAME: &'static str = S::NEAR_NAME;
    type Hole = S::Hole;
    type Engine = Marked<Compiled<S::Engine>>;
    const CHUNK_BYTES: [u32; 3] = S::CHUNK_BYTES;
    const SPREADS: bool = S::SPREADS;
    const CLIENTS_EVICT: bool = S::CLIENTS_EVICT;
    const ENDS_WITH_FENCE: bool = S::ENDS_WITH_FENCE;
    const SETTLES_DOWN: bool = S::SETTLES_DOWN;

    fn drawn(random: &mut Random, paper: bool) -> Self {
        Self { near: NearSubject::drawn(random, paper), takes_marks_late: false }
    }

    fn settings(&self, base: PoolSettings, slots: u64) -> PoolSettings {
        self.near.settings(base, slots)
    }

    fn further_region(&self, settings: &PoolSettings) -> Result<Option<RegionAttributes>, String> {
        self.near.further_region(settings)
    }

    fn prepare_pool(&self, sim: &Sim, shared: &Arc<Shared<Self>>) {
        self.near.prepare_pool(sim, shared);
    }

    fn server_spawner(&self, shared: &Arc<Shared<Self>>) -> Option<ServerSpawner> {
        self.near.server_spawner(shared)
    }

    fn without_address_cache(self) -> Self {
        Self { near: self.near.without_address_cache(), ..self }
    }

    fn caches_no_addresses(&self) -> bool {
        self.near.caches_no_addresses()
    }

    fn configure(&self, engine: &mut Self::Engine, hole: Option<Self::Hole>) {
        engine.takes_marks_late = self.takes_marks_late;
        self.near.configure(&mut engine.near, hole);
    }
}
