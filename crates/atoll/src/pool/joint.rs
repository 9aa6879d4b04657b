//! Opening a pool that any of several processes creates.
//!
//! | the name has | the region is in use | then |
//! |---|---|---|
//! | no region | | this process creates the pool |
//! | a region that was created meanwhile | | this process opens it |
//! | a pool | any | this process opens it |
//! | a region that is not formatted yet | yes | another process formats it: this process waits |
//! | a region that is not formatted yet | no, for [`ABANDONED_AFTER`] | its creator has died: the region is removed |
//! | anything else | any | an error |
//!
//! The region is removed under the lock that keeps other processes from opening it. A creator that
//! was stopped meanwhile finds out that its file is gone, and begins again.

use super::removal::{Home, remove_regions};
use super::{OpenError, Pool, PoolOptions, Removed};
use crate::fabric::{self, PoolFabric};
use atoll_fabric::{Fabric, FabricError, Hold, Sharing};
use atoll_pool::{PoolError, header};
use std::time::{Duration, Instant};

/// Pause before another look at a pool that is being created.
const LOOK_PERIOD: Duration = Duration::from_millis(1);
/// A region that no process uses and that is not formatted for this long has lost its creator.
const ABANDONED_AFTER: Duration = Duration::from_millis(500);
/// Longest time for another process to create the pool.
const CREATION_PATIENCE: Duration = Duration::from_secs(30);

impl Pool {
    /// Opens the pool of this name, or creates it if there is none. Any number of processes may do
    /// so at once: one creates the pool, the others open it. An existing pool keeps its settings.
    ///
    /// What a process left that died while it created the pool is removed first.
    #[inline]
    pub fn open_or_create(name: &str, options: &PoolOptions) -> Result<Self, OpenError> {
        Self::open_or_create_on(&fabric::addressed(name)?, options)
    }
}

impl<F: PoolFabric> Pool<F> {
    /// As [`Pool::open_or_create`], on a given fabric.
    pub fn open_or_create_on(fabric: &F, options: &PoolOptions) -> Result<Self, OpenError> {
        let settings = options.settings()?;
        let begun = Instant::now();
        let mut unused_since = None;
        loop {
            match Self::open_on(fabric) {
                Err(OpenError::Region(FabricError::Absent(_))) => match Self::create_with(fabric, settings.clone()) {
                    Err(OpenError::Region(FabricError::Exists(_) | FabricError::Absent(_))) => {}
                    made => return made,
                },
                Err(error) if is_unformatted(&error) && begun.elapsed() < CREATION_PATIENCE => {
                    if remove_abandoned(fabric, &mut unused_since)? {
                        unused_since = None;
                    }
                }
                opened => return opened,
            }
            std::thread::sleep(LOOK_PERIOD);
        }
    }
}

/// Whether the region may be one that its creator has not formatted yet.
fn is_unformatted(error: &OpenError) -> bool {
    matches!(error, OpenError::Pool(PoolError::NotAPool) | OpenError::Region(FabricError::BadSize { bytes: 0, .. }))
}

/// Removes the region if its creator has died; returns whether it did. `unused_since` is when the
/// region was first seen without a user.
fn remove_abandoned<F: Fabric>(fabric: &F, unused_since: &mut Option<Instant>) -> Result<bool, OpenError> {
    // From here on no process opens the pool.
    let lock = match fabric.hold(0, Sharing::Alone) {
        Err(FabricError::Absent(_)) => return Ok(true),
        lock => lock?,
    };
    let (words, bytes) = fabric.beginning(0)?;
    if lock.is_in_use()? || !matches!(header::decode(&words, bytes), Err(PoolError::NotAPool)) {
        *unused_since = None;
        return Ok(false);
    }
    // Bytes of another program.
    if words[0] != 0 {
        return Err(PoolError::NotAPool.into());
    }
    let since = *unused_since.get_or_insert_with(Instant::now);
    let is_abandoned = since.elapsed() >= ABANDONED_AFTER;
    if is_abandoned {
        remove_regions(fabric, true, &Home::unformatted(&words, bytes), &mut Removed::default())?;
    }
    Ok(is_abandoned)
}
