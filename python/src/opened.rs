//! A cache on the fabric that its address names.
//!
//! | fabric | an operation |
//! |---|---|
//! | `shm:` | keeps the interpreter lock, unless it copies much: to release the lock costs more than a lookup |
//! | `tcp:` | waits for the network without the lock |

use atoll::fabric::{AddressedFabric, OnFabric, PoolFabric, ServedFabric, TcpFabric, on_fabric};
use atoll::{BuildError, Cache, OpenError, Pool, PoolOptions, RemoveError, Removed};
use pyo3::marker::{Python, Ungil};

/// What a process needs to open the pool.
pub(crate) struct Opening {
    pub(crate) address: String,
    pub(crate) options: PoolOptions,
    /// Whether the pool is created if there is none.
    pub(crate) creates: bool,
    /// The most clients that this process has of the pool.
    pub(crate) clients: usize,
    /// Bytes of the near cache that this process uses.
    pub(crate) near_bytes: Option<u64>,
}

/// A cache that is open.
pub(crate) enum Opened {
    /// In memory of this host.
    Near(Cache),
    /// On memory nodes.
    Far(Cache<TcpFabric>),
}

/// Runs an operation on the cache of an [`Opened`], whichever fabric it is on. `$is_long` says
/// whether it runs without the interpreter lock also where memory is near.
macro_rules! on_cache {
    ($py:expr, $opened:expr, $is_long:expr, |$cache:ident| $operation:expr) => {
        match $opened {
            $crate::opened::Opened::Near($cache) => $crate::opened::run($py, $is_long, || $operation),
            $crate::opened::Opened::Far($cache) => $crate::opened::run($py, true, || $operation),
        }
    };
}
pub(crate) use on_cache;

/// Runs an operation, without the interpreter lock if it is long.
#[inline]
pub(crate) fn run<T: Ungil>(py: Python<'_>, is_long: bool, operation: impl FnOnce() -> T + Ungil) -> T {
    if is_long { py.detach(operation) } else { operation() }
}

impl Opening {
    pub(crate) fn open(&self) -> Result<Opened, BuildError> {
        if self.address.starts_with("tcp:") {
            let fabric = TcpFabric::named(&self.address).map_err(OpenError::from)?;
            // Memory nodes take a silent client for gone. So a thread speaks for an idle one.
            return self.open_on(&fabric, true).map(Opened::Far);
        }
        // Without a thread of its own: a process with threads cannot fork without a warning, and
        // over shared memory nothing is lost. Operations tend the pool.
        let fabric = AddressedFabric::named(&self.address).map_err(OpenError::from)?;
        self.open_on(&fabric, false).map(Opened::Near)
    }

    fn open_on<F: PoolFabric>(&self, fabric: &F, tends: bool) -> Result<Cache<F>, BuildError> {
        let pool = match self.creates {
            true => Pool::open_or_create_on(fabric, &self.options.clone().nodes(fabric.agents()))?,
            false => Pool::open_on(fabric)?,
        };
        let builder = Cache::builder().clients(self.clients).tend(tends);
        match self.near_bytes {
            Some(bytes) => builder.near(bytes).build(&pool),
            None => builder.build(&pool),
        }
    }
}

impl Opened {
    /// Whether it is a fork's copy of what its parent has open.
    #[inline]
    pub(crate) fn is_inherited(&self) -> bool {
        match self {
            Self::Near(cache) => cache.is_inherited(),
            Self::Far(cache) => cache.is_inherited(),
        }
    }
}

/// Removes a pool, one that is in use by force only.
pub(crate) fn remove(address: &str, by_force: bool) -> Result<Removed, RemoveError> {
    struct Removing {
        by_force: bool,
    }
    impl OnFabric for Removing {
        type Output = Result<Removed, RemoveError>;

        fn run<F: ServedFabric>(self, fabric: F) -> Self::Output {
            Pool::remove_on(&fabric, self.by_force)
        }
    }
    on_fabric(address, Removing { by_force })?
}
