//! CliqueMap (SIGCOMM 2021) as Ditto compares itself with it (section 5.1): the baselines
//! `cliquemap-lru` and `cliquemap-lfu`. Their memory node has a processor that does every change.
//!
//! ```text
//! GET   client: READ the bucket, READ the record. The record proves that it is the entry's
//! SET   client --- key, value --->  server: evict, WRITE record and entry
//!              <--- answer ------
//!       client --- accesses: age, key's hash --->  server: order of eviction
//!                  when 2 KB are full, or 2 ms old
//! ```
//!
//! It is built from Ditto's paper and prototype alone, since CliqueMap's own paper was not at hand.
//! It has no replication, no quorums, and no resizing of the index.
//!
//! **Needs.** An endpoint with [messages](Messenger) beside the verbs: the simulated fabric. Shared
//! memory has no messages, so no pool of one host can be of this engine. Clients can change
//! something only while a process runs the pool's [`Server`].
//!
//! **Promises** while the server lives:
//!
//! - Lookups and changes of a key are linearizable, and a miss counts as an eviction, even if
//!   messages are lost.
//! - A change takes effect at the server, once, between its request and its answer. A request that
//!   is sent again carries the same number, by which the server knows it (see `server`'s
//!   `sessions`). A request of a client that died may still be done, as a verb in flight may.
//! - A change decided at the client (an increment, a condition) names the version that it was
//!   decided on. If that version is gone, the client decides again. A plain SET names none and is
//!   one round trip.
//! - A client that dies holds nothing but its place in the registry. Nothing waits for it.
//! - A client whose request has no answer for [`PATIENCE_NS`] gives up with
//!   [`VerbError::OutcomeUnknown`](atoll_fabric::VerbError). A GET needs no server, unless it finds
//!   an expired object: the server removes that before the GET misses.
//!
//! **A server that dies loses the cache**: its books are in its own memory. The next server begins
//! with an empty index. Changes that were under way end with an unknown outcome, and GETs miss. An
//! operator must not start the next server before the last one has ended.
//!
//! **Accesses** are hints. A log may be lost, and a log that arrives twice counts once. A client
//! has one log in flight at a time. It waits for the server before it sends the next, at most
//! [`LOG_PATIENCE_NS`]. So a slow server slows its clients down, as the paper's figures show.
//!
//! | memory | counts as capacity |
//! |---|---|
//! | index and records, in the pool | yes |
//! | the server's books (keys, order, free room), in its own memory | no |
//!
//! **Limits**: one memory node, whose pool does not grow. A value has up to
//! [`VALUE_BYTES_MAX_MESSAGES`] bytes, or a quarter of the heap, in as many messages as it needs.
//!
//! | module | concept |
//! |---|---|
//! | [`settings`] | what clients and server agree on |
//! | [`layout`] | where the words are |
//! | [`entry`] | an entry of the index |
//! | [`record`] | an object in the heap |
//! | [`wire`] | messages |
//! | `server` | the memory node's processor |
//! | `lookup` | the way of a GET |
//! | `request` | a change in flight, until there is an answer |
//! | `accesses` | a client's log of its GETs |
//! | `update` | changes decided at the client |
//! | `walk` | SCAN, and the walk over a quiet pool |
//! | `holes` | checks that it could miss, for tests |
//! | `pooled` | among the engines whose caches live in a pool |

mod accesses;
pub mod entry;
mod holes;
pub mod layout;
mod lookup;
mod pooled;
pub mod record;
mod request;
mod server;
pub mod settings;
mod update;
mod walk;
pub mod wire;

pub use accesses::LOG_PATIENCE_NS;
pub use holes::Hole;
pub use request::PATIENCE_NS;
pub use server::{Server, ServerStats};
pub use settings::{CliqueMapOptions, CliqueMapSettings, ENGINE_CLIQUEMAP, Policy};

use accesses::Log;
use atoll_cache::pooled::{EnginePool, Pooled};
use atoll_cache::record::Hasher;
use atoll_cache::stats::Counters;
use atoll_cache::{CacheError, Change, Engine, Flushed, Lookup, Meta, Stats, Value};
use atoll_fabric::purpose::Scope;
use atoll_fabric::{Address, Buffer, Endpoint, Messenger, Purpose, VerbError};
use atoll_pool::in_flight::ROUNDS_PROVING;
use atoll_pool::loan::Lender;
use atoll_pool::{Client, EngineArea, Pool, PoolError, PoolSettings};
use holes::OpenHoles;
use layout::CliqueMapLayout;
use request::Reached;
use std::rc::Rc;
use std::sync::Arc;

/// Longest value in bytes, for the number of its messages; a quarter of the heap, if that is less.
pub const VALUE_BYTES_MAX_MESSAGES: usize = 256 << 10;

/// A pool as one process has it open.
#[derive(Debug)]
pub struct CliqueMapPool {
    pool: Arc<Pool>,
    settings: CliqueMapSettings,
    layout: CliqueMapLayout,
    hasher: Hasher,
}

impl CliqueMapPool {
    /// The pool behind it.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The engine's settings.
    pub fn settings(&self) -> &CliqueMapSettings {
        &self.settings
    }

    /// The longest value that it stores.
    pub fn value_bytes_max(&self) -> usize {
        let heap_bytes = self.layout.heap_bytes.min(entry::RECORD_BYTES_MAX);
        VALUE_BYTES_MAX_MESSAGES.min(heap_bytes as usize / 4)
    }

    /// The hash by which clients and server know a key.
    pub fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash(key)
    }

    fn objects_max(&self) -> u64 {
        match self.pool.settings.objects_max {
            0 => u64::MAX,
            objects_max => objects_max,
        }
    }
}

impl EnginePool for CliqueMapPool {
    fn engine_area(settings: &PoolSettings) -> EngineArea {
        layout::engine_area(settings)
    }

    fn check(settings: &PoolSettings) -> Result<(), PoolError> {
        CliqueMapSettings::decode(settings).map(drop)
    }

    fn opened(pool: Pool) -> Result<Arc<Self>, PoolError> {
        let settings = CliqueMapSettings::decode(&pool.settings)?;
        if pool.layout.engine_area.home_bytes < layout::engine_area(&pool.settings).home_bytes {
            return Err(PoolError::Damaged { what: "the engine's area" });
        }
        let (layout, hasher) = (CliqueMapLayout::new(&pool, &settings), Hasher::new(pool.settings.hash_seed));
        Ok(Arc::new(Self { pool: Arc::new(pool), settings, layout, hasher }))
    }

    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn describe_own(&self, at: Address) -> Option<String> {
        self.layout.describe(at)
    }
}

/// A client of a pool. It does one operation at a time; further operations wait.
pub struct CliqueMap<E: Endpoint + Messenger> {
    shared: Arc<CliqueMapPool>,
    client: Rc<Client<E>>,
    stats: Rc<Counters>,
    session: Lender<Box<Session<E>>>,
}

/// A client's state for one operation at a time.
struct Session<E: Endpoint + Messenger> {
    shared: Arc<CliqueMapPool>,
    client: Rc<Client<E>>,
    /// The server, once it was looked for.
    server: Option<Reached>,
    /// The last change that was sent.
    sequence: u64,
    log: Log,
    /// The bucket of the lookup under way.
    bucket: Buffer,
    /// The value that a change replaces.
    old: Value,
    outgoing: Vec<u8>,
    stats: Rc<Counters>,
    holes: OpenHoles,
}

impl<E: Endpoint + Messenger> CliqueMap<E> {
    fn new(shared: &Arc<CliqueMapPool>, client: Client<E>) -> Self {
        let (client, stats) = (Rc::new(client), Rc::new(Counters::default()));
        let session = Session {
            shared: shared.clone(),
            client: client.clone(),
            server: None,
            sequence: 0,
            log: Log::default(),
            bucket: Buffer::new(),
            old: Value::new(),
            outgoing: Vec::new(),
            stats: stats.clone(),
            holes: OpenHoles::NONE,
        };
        Self { shared: shared.clone(), client, stats, session: Lender::new(Box::new(session)) }
    }

    /// Opens a hole, to show its effect in a simulation.
    #[cfg(feature = "holes")]
    pub fn open_hole(&mut self, hole: Hole) {
        if let Some(mut session) = self.session.lend() {
            session.holes = OpenHoles::only(hole);
        }
    }
}

impl<E: Endpoint + Messenger> Session<E> {
    /// The first step of every operation.
    #[inline]
    async fn begin(&mut self) -> Result<(), CacheError> {
        if self.client.count_operation() {
            Box::pin(self.tend_now()).await?;
        }
        Ok(())
    }

    async fn tend_now(&mut self) -> Result<(), CacheError> {
        self.client.begin_round()?;
        self.renew();
        self.tell_if_due().await
    }

    /// Moves the lease.
    fn renew(&mut self) {
        let _scope = Scope::new(&self.client.endpoint, Purpose::Upkeep);
        if self.client.is_member() {
            // One operation has the session at a time.
            self.client.member().renew(&self.client.endpoint, ROUNDS_PROVING);
        }
    }

    /// The pool's time.
    async fn pool_ms(&self) -> Result<u64, VerbError> {
        self.client.pool_ms(self.client.endpoint.now_ns()).await
    }

    /// Whether an object with this expiry has expired. If so, no client that looks at the pool's
    /// clock from now on finds it live.
    async fn is_over(&mut self, expiry_ms: Option<u64>) -> Result<bool, VerbError> {
        let Some(expiry_ms) = expiry_ms else { return Ok(false) };
        Ok(expiry_ms <= self.pool_ms().await?)
    }
}

impl<E: Endpoint + Messenger> Drop for CliqueMap<E> {
    /// Leaves the pool if the fabric needs no waiting. Over another fabric, call [`Pooled::leave`]
    /// before.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let _ = std::pin::pin!(self.leave()).as_mut().poll(&mut context);
        }
    }
}

impl<E: Endpoint + Messenger> Engine for CliqueMap<E> {
    async fn get(&self, key: &[u8], into: &mut Value) -> Result<Lookup, CacheError> {
        let mut session = self.session.lent().await;
        session.begin().await?;
        session.lookup(key, into).await
    }

    async fn peek(&self, key: &[u8]) -> Result<Option<Meta>, CacheError> {
        let mut session = self.session.lent().await;
        session.begin().await?;
        session.peek_now(key).await
    }

    async fn update<C: Change>(&self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError> {
        let mut session = self.session.lent().await;
        session.begin().await?;
        let updated = session.apply(key, change).await;
        session.old.shrink_beyond(1 << 20);
        updated
    }

    async fn scan<F: FnMut(&[u8])>(&self, cursor: u64, count: usize, each: F) -> Result<u64, CacheError> {
        let mut session = self.session.lent().await;
        session.begin().await?;
        session.walk_keys(cursor, count, each).await
    }

    async fn random_key(&self) -> Result<Option<Vec<u8>>, CacheError> {
        let mut session = self.session.lent().await;
        session.begin().await?;
        session.some_key().await
    }

    async fn flush(&self, _cursor: u64) -> Result<Flushed, CacheError> {
        let mut session = self.session.lent().await;
        session.begin().await?;
        Ok(Flushed { removed: session.remove_all().await?, next: 0 })
    }

    async fn objects(&self) -> Result<u64, CacheError> {
        Ok(atoll_pool::read_word(&self.client.endpoint, self.shared.layout.objects()).await?)
    }

    async fn now_ms(&self) -> Result<u64, CacheError> {
        Ok(self.client.pool_ms(self.client.endpoint.now_ns()).await?)
    }

    /// Renews the lease, and sends accesses that are 2 ms old.
    async fn tend(&self) -> Result<(), CacheError> {
        self.session.lent().await.tend_now().await
    }

    fn value_bytes_max(&self) -> usize {
        self.shared.value_bytes_max()
    }

    fn stats(&self) -> Stats {
        self.stats.stats(self.client.upkeep(), self.client.endpoint.traffic())
    }
}
