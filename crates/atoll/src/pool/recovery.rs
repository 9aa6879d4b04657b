//! A pool whose memory is gone, because the home's memory node has ended.
//!
//! | the home's memory node | a client that joins |
//! |---|---|
//! | does not answer | gets the error that says so |
//! | has the same region | joins: only connections had ended |
//! | has another pool's region, which another client made meanwhile | opens that pool |
//! | has no region, since it came back empty | lets go of the other regions; makes the pool anew, with the settings of the one that is gone, if no other memory node has a region either |
//!
//! Another memory node's region may be gone, too. Then the client that joins takes part in
//! [`atoll_pool::loss`]. Once that node is back, this process opens all regions anew.
//!
//! A region is made, and never made over. So of several clients one makes the home, and the others
//! open it. A further memory node's region that is left is an error: without its home it has no
//! use, but it is a user who decides that ([`OpenError::Remnant`]). The next client that joins
//! tries again.

use super::evictor::{PLACES_LEAST, TEND_PERIOD};
use super::{OpenError, Opened, Pool};
use crate::fabric::{EndpointOf, PoolFabric};
use atoll_cache::Chosen;
use atoll_fabric::{CostClass, FabricError, Reach, VerbError};
use atoll_pool::PoolError;
use std::sync::{Arc, PoisonError};

/// Tries to join a full pool, each after [`TEND_PERIOD`]: evictors leave within twice that time.
const JOINS_FULL: u32 = 4;

/// Joins the pool. If its memory is gone, joins the pool that is there now.
pub(super) fn join<F: PoolFabric>(pool: &Pool<F>) -> Result<Chosen<EndpointOf<F>>, OpenError> {
    let opened = pool.opened_now();
    let joined = match opened.join() {
        // What it had read of a memory node was out of date before it had joined.
        Err(OpenError::Pool(PoolError::Verb(VerbError::Fenced))) => opened.join(),
        Err(OpenError::Pool(PoolError::Full { clients_max })) if clients_max >= PLACES_LEAST => join_full(&opened),
        joined => joined,
    };
    match joined {
        Err(error) if is_gone(&error) && pool.0.fabric.cost_class() == CostClass::Network => {
            recover(pool, &opened, error)?;
            pool.opened_now().join()
        }
        joined => joined,
    }
}

/// Joins a pool without a free place. The evictors of processes leave such a pool.
fn join_full<F: PoolFabric>(opened: &Opened<F>) -> Result<Chosen<EndpointOf<F>>, OpenError> {
    for _ in 1..JOINS_FULL {
        std::thread::sleep(TEND_PERIOD);
        match opened.join() {
            Err(OpenError::Pool(PoolError::Full { .. })) => {}
            joined => return joined,
        }
    }
    opened.join()
}

/// Whether the region may be gone.
fn is_gone(error: &OpenError) -> bool {
    let verb = match error {
        OpenError::Pool(PoolError::Verb(error)) => error,
        // The region is there, and has no pool.
        OpenError::Pool(PoolError::NotAPool) => return true,
        _ => return false,
    };
    matches!(verb, VerbError::PeerDead | VerbError::NodeAbsent(_) | VerbError::OutcomeUnknown | VerbError::Unprovable)
}

/// Opens or makes the pool that replaces `lost`.
fn recover<F: PoolFabric>(pool: &Pool<F>, lost: &Arc<Opened<F>>, why: OpenError) -> Result<(), OpenError> {
    let _one = pool.0.recovery.lock().unwrap_or_else(PoisonError::into_inner);
    if !Arc::ptr_eq(&pool.opened_now(), lost) {
        return Ok(());
    }
    let found = match Pool::open_on(&pool.0.fabric) {
        Err(OpenError::Region(FabricError::Absent(_))) => {
            // A user may remove now what is left.
            lost.reach.let_go();
            match Pool::create_with(&pool.0.fabric, lost.chosen.pool().settings.clone()) {
                // Another client was faster, and may not have come to its end yet.
                Err(OpenError::Region(FabricError::Exists(name)))
                    if pool.0.fabric.region_address(0) == Some(name.clone()) =>
                {
                    return Err(why);
                }
                made => made?,
            }
        }
        // What the join met says more than that the pool cannot be opened either.
        Err(OpenError::Region(_)) => return Err(why),
        found => found?,
    };
    *pool.0.current.write().unwrap_or_else(PoisonError::into_inner) = found.opened_now();
    Ok(())
}
