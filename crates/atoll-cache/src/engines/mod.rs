//! The engines that are served and embedded, behind one type: for programs whose users choose the
//! engine.
//!
//! The pool's header names the engine, so a process opens a pool by its name alone. A client
//! matches on its engine once for each operation. From there on the code is that engine's own. A
//! program for one engine only uses that engine's type.
//!
//! | module | concept |
//! |---|---|
//! | `kind` | an engine: name, number, options, how its pools are made |
//!
//! To add an engine: its [`EngineKind`] in its folder, and a line in the list
//! [`served_engines`](crate::served_engines). Engines for comparison only are in the crate
//! `atoll-baselines`.

mod kind;

pub use crate::choices::{Described, EngineChoices, EngineIdentity, EngineOption, PoolSize};
pub use kind::{EngineKind, KindVisitor};

use crate::audit::Audit;
use crate::ditto::DittoOptions;
use crate::experts::ExpertSet;
use crate::forge::ForgeOptions;
use crate::near::{Copied, Copies};
use crate::pooled::{EnginePool, Pooled};
use crate::{
    Accesses, Ahead, CacheError, Change, Engine, Flushed, Lookup, Meta, Reading, Removals, Reserve, Staged, Stats,
    Value,
};
use atoll_fabric::{Arrivals, Endpoint};
use atoll_pool::{Client, Pool, PoolError, PoolSettings, Repaired};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Makes the types of all engines from their list.
macro_rules! engines {
    ($($(#[$doc:meta])* $Engine:ident: $Kind:ty,)*) => {
        /// An engine whose caches live in a pool.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum EngineId {
            $($(#[$doc])* $Engine,)*
        }

        impl EngineId {
            /// All engines.
            pub const ALL: &[Self] = &[$(Self::$Engine,)*];

            /// How users and the pool header name it.
            pub fn identity(self) -> EngineIdentity {
                match self {
                    $(Self::$Engine => <$Kind as EngineKind>::Options::ENGINE,)*
                }
            }

            /// Its number in the pool header.
            pub fn number(self) -> u64 {
                self.identity().number
            }

            /// Its name, as users write it.
            pub fn name(self) -> &'static str {
                self.identity().name
            }
        }

        /// Shows the engines to a visitor, in the list's order. The first result ends the visit.
        pub fn visit<V: KindVisitor>(visitor: &mut V) -> Option<V::Output> {
            None$(.or_else(|| visitor.visit::<$Kind>()))*
        }

        /// The engine of a new pool, with its own choices.
        #[derive(Clone, Debug, PartialEq)]
        pub enum EngineOptions {
            $($(#[$doc])* $Engine(<$Kind as EngineKind>::Options),)*
        }

        impl EngineOptions {
            /// Which engine.
            pub fn id(&self) -> EngineId {
                match self {
                    $(Self::$Engine(_) => EngineId::$Engine,)*
                }
            }

            /// The choices by a name that a user writes, such as `ditto:lru+lfu`. `None` if no
            /// engine has the name; an error if its choices make no sense.
            pub fn named(name: &str) -> Option<Result<Self, String>> {
                None$(.or_else(|| {
                    Some(<$Kind as EngineKind>::Options::named(name)?.map(Self::$Engine))
                }))*
            }

            /// Chooses one of the engine's options: see [`EngineChoices::choose`].
            pub fn choose(&mut self, option: &str, value: &str) -> Result<(), String> {
                match self {
                    $(Self::$Engine(options) => options.choose(option, value),)*
                }
            }

            /// The policies that choose victims, if the engine has experts.
            pub fn experts(&self) -> Option<ExpertSet> {
                match self {
                    $(Self::$Engine(options) => options.experts(),)*
                }
            }

            /// Settings for a pool of `capacity_bytes` that may grow by more bytes.
            /// `body_bytes_mean` is the expected size of an object with its key. `None` keeps the
            /// engine's own expectation.
            pub fn for_growth(
                &self,
                body_bytes_mean: Option<u32>,
                capacity_bytes: u64,
                growth_bytes_max: u64,
            ) -> PoolSettings {
                let size = PoolSize { body_bytes_mean, capacity_bytes, growth_bytes_max };
                match self {
                    $(Self::$Engine(options) => options.of_size(size),)*
                }
            }
        }

        /// Checks a new pool's settings against its engine's own limits, before there is any
        /// memory.
        pub fn check(settings: &PoolSettings) -> Result<(), PoolError> {
            match EngineId::of(settings)? {
                $(EngineId::$Engine => <$Kind as EngineKind>::Shared::check(settings),)*
            }
        }

        /// A pool as one process has it open. Cheap to clone.
        #[derive(Clone)]
        pub enum ChosenPool {
            $($(#[$doc])* $Engine(Arc<<$Kind as EngineKind>::Shared>),)*
        }

        impl ChosenPool {
            /// Formats all-zero regions, which the endpoint reaches, with settings made by
            /// [`EngineOptions::for_growth`]. A hash seed of 0 means a random seed.
            pub async fn format<E: Endpoint>(endpoint: &E, settings: PoolSettings) -> Result<Self, PoolError> {
                Ok(match EngineId::of(&settings)? {
                    $(EngineId::$Engine => {
                        Self::$Engine(<<$Kind as EngineKind>::Client<E> as Pooled<E>>::format(endpoint, settings).await?)
                    })*
                })
            }

            /// Opens a pool that was formatted before, for the engine that its header names.
            /// `home_bytes` is the size of node 0's region.
            pub async fn open<E: Endpoint>(endpoint: &E, home_bytes: u64) -> Result<Self, PoolError> {
                let pool = Pool::open(endpoint, home_bytes).await?;
                Ok(match EngineId::of(&pool.settings)? {
                    $(EngineId::$Engine => Self::$Engine(<$Kind>::opened(pool)?),)*
                })
            }

            /// Joins as a new client.
            pub async fn join<E: Endpoint>(&self, endpoint: E) -> Result<Chosen<E>, PoolError> {
                Ok(match self {
                    $(Self::$Engine(shared) => {
                        Chosen::$Engine(<<$Kind as EngineKind>::Client<E> as Pooled<E>>::join(shared, endpoint).await?)
                    })*
                })
            }

            /// An auditor, without a place in the pool: for [`Chosen::verify`].
            pub fn auditor<E: Endpoint>(&self, endpoint: E) -> Result<Chosen<E>, PoolError> {
                Ok(match self {
                    $(Self::$Engine(shared) => {
                        Chosen::$Engine(<<$Kind as EngineKind>::Client<E> as Pooled<E>>::auditor(shared, endpoint)?)
                    })*
                })
            }

            /// The pool behind it.
            pub fn pool(&self) -> &Pool {
                match self {
                    $(Self::$Engine(shared) => EnginePool::pool(&**shared),)*
                }
            }

            /// What an evictor shares with the writers of its process: see [`EnginePool::reserve`].
            pub fn reserve(&self) -> Option<&Reserve> {
                match self {
                    $(Self::$Engine(shared) => shared.reserve(),)*
                }
            }

            /// The engine that the pool was made for.
            pub fn engine(&self) -> EngineId {
                EngineId::of(&self.pool().settings).expect("a pool is opened for an engine of the list")
            }

            /// The policies that choose victims, if the engine has experts.
            pub fn experts(&self) -> Option<ExpertSet> {
                match self {
                    $(Self::$Engine(shared) => <$Kind>::experts(shared),)*
                }
            }

            /// The settings that the pool was made with, for people: name and value, the engine and
            /// its experts first.
            pub fn describe_settings(&self) -> Vec<(&'static str, String)> {
                let mut settings = vec![("engine", self.engine().to_string())];
                settings.extend(self.experts().map(|experts| ("experts", experts.to_string())));
                settings.extend(match self {
                    $(Self::$Engine(shared) => shared.describe_settings(),)*
                });
                settings
            }
        }

        /// A client of a pool, for the engine that the pool was made for. It is stored in place, so
        /// that no indirection lies between an engine and its caller.
        #[allow(clippy::large_enum_variant, reason = "clients are few and are not moved about")]
        pub enum Chosen<E: Endpoint> {
            $($(#[$doc])* $Engine(<$Kind as EngineKind>::Client<E>),)*
        }

        /// Calls the same method on every engine.
        macro_rules! on_engine {
            ($chosen:expr, $of:ident => $done:expr) => {
                match $chosen {
                    $(Chosen::$Engine($of) => $done,)*
                }
            };
        }
    };
}

/// The list of engines that are served: gives its lines to a macro, and further lines after them.
#[macro_export]
macro_rules! served_engines {
    ($then:ident! $($further:tt)*) => {
        $then! {
            /// FORGE.
            Forge: $crate::forge::ForgeKind,
            /// Ditto.
            Ditto: $crate::ditto::DittoKind,
            $($further)*
        }
    };
}

served_engines!(engines!);

impl EngineId {
    /// The engine that a pool's settings name.
    pub fn of(settings: &PoolSettings) -> Result<Self, PoolError> {
        let found = settings.engine;
        Self::ALL.iter().copied().find(|id| id.number() == found).ok_or(PoolError::UnknownEngine { found })
    }
}

impl fmt::Display for EngineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Default for EngineOptions {
    /// `forge` as it is shipped.
    fn default() -> Self {
        Self::Forge(ForgeOptions::default())
    }
}

impl EngineOptions {
    /// `ditto` with these experts, which learn with the shipped settings.
    pub fn ditto(experts: ExpertSet) -> Self {
        Self::Ditto(DittoOptions::adaptive(experts))
    }
}

impl fmt::Display for EngineOptions {
    /// The engine, and its experts behind a colon.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.experts() {
            Some(experts) => write!(f, "{}:{experts}", self.id()),
            None => self.id().fmt(f),
        }
    }
}

impl<E: Endpoint> Chosen<E> {
    /// The client of the pool.
    pub fn client(&self) -> &Client<E> {
        on_engine!(self, engine => engine.client())
    }

    /// Releases everything that this client holds and gives up its place.
    pub async fn leave(&self) -> Result<(), CacheError> {
        on_engine!(self, engine => engine.leave().await)
    }

    /// Makes the pool smaller by at most so many chunks: see [`Pooled::retire_chunks`].
    pub async fn retire_chunks(&self, most: u64) -> Result<u64, CacheError> {
        on_engine!(self, engine => engine.retire_chunks(most).await)
    }

    /// Continues to return the memory of retired chunks: see [`Pooled::discard_retired`].
    pub async fn discard_retired(&self) -> Result<u64, CacheError> {
        on_engine!(self, engine => engine.discard_retired().await)
    }

    /// Restores a retired chunk: see [`Pooled::restore_chunk`].
    pub async fn restore_chunk(&self) -> Result<bool, CacheError> {
        on_engine!(self, engine => engine.restore_chunk().await)
    }

    /// A step of an evictor: see [`Pooled::evict_ahead`].
    pub async fn evict_ahead(&self) -> Result<Ahead, CacheError> {
        on_engine!(self, engine => engine.evict_ahead().await)
    }

    /// Looks after all other clients now, and reclaims what dead clients held.
    pub async fn repair(&self) -> Result<Repaired, CacheError> {
        on_engine!(self, engine => Pooled::repair(engine).await)
    }

    /// Walks the pool. No other client may use it meanwhile, since operations under way would be
    /// reported as faults.
    pub async fn verify(&self) -> Result<Audit, CacheError> {
        on_engine!(self, engine => Pooled::verify(engine).await)
    }
}

impl<E: Endpoint> Copied for Chosen<E> {
    type Endpoint = E;

    fn pool_client(&self) -> &Client<E> {
        self.client()
    }

    fn hash(&self, key: &[u8]) -> u64 {
        on_engine!(self, engine => engine.hash(key))
    }

    fn stripe(&self, hash: u64) -> u64 {
        on_engine!(self, engine => engine.stripe(hash))
    }

    async fn permit(&self, key: &[u8]) -> Result<Option<Meta>, CacheError> {
        on_engine!(self, engine => engine.permit(key).await)
    }

    async fn get_permitting(
        &self,
        key: &[u8],
        into: &mut Value,
        bytes_max: usize,
    ) -> Result<(Lookup, bool), CacheError> {
        on_engine!(self, engine => engine.get_permitting(key, into, bytes_max).await)
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
        on_engine!(self, engine => engine.get_many_permitting(keys, bytes_max, copies, found).await)
    }
}

impl<E: Endpoint> Engine for Chosen<E> {
    #[inline]
    async fn get(&self, key: &[u8], into: &mut Value) -> Result<Lookup, CacheError> {
        on_engine!(self, engine => engine.get(key, into).await)
    }

    async fn get_to(&self, key: &[u8], into: &mut [u8]) -> Result<(Lookup, Meta), CacheError> {
        on_engine!(self, engine => engine.get_to(key, into).await)
    }

    async fn get_part<P>(&self, key: &[u8], part: P, into: &mut Value) -> Result<(Lookup, Meta), CacheError>
    where
        P: Fn(Meta) -> Range<usize> + 'static,
    {
        on_engine!(self, engine => engine.get_part(key, part, into).await)
    }

    async fn get_many<F: FnMut(usize, Lookup, &mut Value)>(
        &self,
        keys: &[&[u8]],
        bytes_max: usize,
        found: F,
    ) -> Result<(), CacheError> {
        on_engine!(self, engine => engine.get_many(keys, bytes_max, found).await)
    }

    async fn expect(&self, keys: &[&[u8]]) {
        on_engine!(self, engine => engine.expect(keys).await)
    }

    fn is_worth_expecting(&self, keys: &[&[u8]]) -> bool {
        on_engine!(self, engine => engine.is_worth_expecting(keys))
    }

    async fn peek(&self, key: &[u8]) -> Result<Option<Meta>, CacheError> {
        on_engine!(self, engine => engine.peek(key).await)
    }

    async fn accesses(&self, key: &[u8]) -> Result<Option<Accesses>, CacheError> {
        on_engine!(self, engine => engine.accesses(key).await)
    }

    async fn update<C: Change>(&self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError> {
        on_engine!(self, engine => engine.update(key, change).await)
    }

    fn opens_values(&self) -> bool {
        on_engine!(self, engine => engine.opens_values())
    }

    async fn open_value(&self, key: &[u8], value: &mut Value) -> Result<Option<Reading>, CacheError> {
        on_engine!(self, engine => engine.open_value(key, value).await)
    }

    async fn read_on(&self, reading: &mut Reading, into: &mut [u8]) -> Result<bool, CacheError> {
        on_engine!(self, engine => engine.read_on(reading, into).await)
    }

    fn stage(&self, key: &[u8], value_bytes: usize) -> Option<Staged> {
        on_engine!(self, engine => engine.stage(key, value_bytes))
    }

    async fn append_staged(&self, staged: &mut Staged, bytes: &[u8]) -> Result<(), CacheError> {
        on_engine!(self, engine => engine.append_staged(staged, bytes).await)
    }

    async fn scan<F: FnMut(&[u8])>(&self, cursor: u64, count: usize, each: F) -> Result<u64, CacheError> {
        on_engine!(self, engine => engine.scan(cursor, count, each).await)
    }

    async fn random_key(&self) -> Result<Option<Vec<u8>>, CacheError> {
        on_engine!(self, engine => engine.random_key().await)
    }

    async fn flush(&self, cursor: u64) -> Result<Flushed, CacheError> {
        on_engine!(self, engine => engine.flush(cursor).await)
    }

    async fn objects(&self) -> Result<u64, CacheError> {
        on_engine!(self, engine => engine.objects().await)
    }

    async fn now_ms(&self) -> Result<u64, CacheError> {
        on_engine!(self, engine => engine.now_ms().await)
    }

    fn attend(&self) {
        on_engine!(self, engine => engine.attend());
    }

    #[inline]
    fn has_work(&self) -> bool {
        on_engine!(self, engine => engine.has_work())
    }

    async fn work(&self) -> Result<(), CacheError> {
        on_engine!(self, engine => engine.work().await)
    }

    async fn tend(&self) -> Result<(), CacheError> {
        // The engine has another method of this name, which does less.
        on_engine!(self, engine => Engine::tend(engine).await)
    }

    async fn close(&self) -> Result<(), CacheError> {
        self.leave().await
    }

    fn value_bytes_max(&self) -> usize {
        on_engine!(self, engine => engine.value_bytes_max())
    }

    fn stats(&self) -> Stats {
        on_engine!(self, engine => engine.stats())
    }

    fn arrivals(&self) -> Option<&dyn Arrivals> {
        self.client().endpoint.arrivals()
    }

    #[inline]
    fn removals(&self) -> Option<&Removals> {
        on_engine!(self, engine => engine.removals())
    }
}
