//! Which fabric an address belongs to. No other module of this library names a fabric.
//!
//! | address | fabric |
//! |---|---|
//! | `shm:/NAME`, or the path of a file | memory of this host |
//! | `tcp:HOST:PORT[,HOST:PORT...]` | memory of other hosts, behind agents (`atoll node`), with the feature `tcp` |
//! | `verbs:...` | not in this version: an error |
//!
//! Everything else is written for any [`PoolFabric`]. A program that gets an address from its user
//! chooses the fabric by [`on_fabric`]. A program that knows it opens `Pool::open("shm:/NAME")` or
//! `Pool::connect("tcp:HOST:PORT")`.

use atoll_cache::{Chosen, Engine, Near};
pub(crate) use atoll_fabric::shm::ForkGuard;
use atoll_fabric::shm::ShmFabric;
#[cfg(feature = "tcp")]
pub use atoll_fabric::tcp::TcpFabric;
use atoll_fabric::{Fabric, FabricError, Reach};

/// The fabric of pools on this host that are opened by an address, or of this process alone.
pub type AddressedFabric = ShmFabric;

/// An endpoint of a fabric.
pub type EndpointOf<F> = <<F as Fabric>::Reach as Reach>::Endpoint;

/// A fabric that threads of one process share.
pub trait PoolFabric: Fabric<Region: Send + Sync, Reach: PoolReach> + Clone + Send + Sync + 'static {}

impl<F: Fabric<Region: Send + Sync, Reach: PoolReach> + Clone + Send + Sync + 'static> PoolFabric for F {}

/// A fabric as the threads of one process share it.
pub trait PoolReach: Reach<Endpoint: Send> + Send + Sync + 'static {}

impl<R: Reach<Endpoint: Send> + Send + Sync + 'static> PoolReach for R {}

/// How an engine runs over a fabric if its caller drops futures before they end. A server drops the
/// futures of a connection that is cut.
///
/// | memory | an operation | the engine |
/// |---|---|---|
/// | near | ends at its first poll, but for the pauses of large values, at which no caller drops it | as it is |
/// | reached by a network | may be dropped at any await | within [`Lasting`](atoll_cache::Lasting) |
pub trait ServedFabric: PoolFabric {
    /// The engine of a client.
    type Served: Engine + 'static;

    /// Wraps a client's engine.
    fn served(engine: Near<Chosen<EndpointOf<Self>>>) -> Self::Served;
}

/// Memory of this host is near.
impl ServedFabric for ShmFabric {
    type Served = Near<Chosen<EndpointOf<Self>>>;

    #[inline]
    fn served(engine: Self::Served) -> Self::Served {
        engine
    }
}

/// Other hosts' memory is reached by a network.
#[cfg(feature = "tcp")]
impl ServedFabric for TcpFabric {
    type Served = atoll_cache::Lasting<Near<Chosen<EndpointOf<Self>>>>;

    // Inline, as what opens a pool: this crate compiles no engine.
    #[inline]
    fn served(engine: Near<Chosen<EndpointOf<Self>>>) -> Self::Served {
        atoll_cache::Lasting::new(engine)
    }
}

/// What is done over a fabric that a user's address chooses.
pub trait OnFabric {
    /// What comes of it.
    type Output;

    /// Does it.
    fn run<F: ServedFabric>(self, fabric: F) -> Self::Output;
}

/// Does something over the fabric of an address.
///
/// # Errors
/// [`FabricError::NoFabric`] if this version lacks the fabric. It never falls back to another
/// fabric.
pub fn on_fabric<D: OnFabric>(address: &str, done: D) -> Result<D::Output, FabricError> {
    #[cfg(feature = "tcp")]
    if address.starts_with("tcp:") {
        return Ok(done.run(TcpFabric::named(address)?));
    }
    Ok(done.run(ShmFabric::named(address)?))
}

/// The fabric of an address on this host.
///
/// # Errors
/// [`FabricError::NoFabric`] if the address is of another fabric.
pub(crate) fn addressed(address: &str) -> Result<AddressedFabric, FabricError> {
    ShmFabric::named(address)
}

/// The fabric of a pool of this process alone.
pub(crate) fn private() -> AddressedFabric {
    ShmFabric::anonymous()
}
