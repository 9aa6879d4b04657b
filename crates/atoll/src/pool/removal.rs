//! Removing a pool's names, and no other names.
//!
//! | what has the name | in use | removed |
//! |---|---|---|
//! | a pool, of this version or another | no | yes |
//! | a pool | yes | by force: processes that have it open keep its memory until they close it |
//! | a damaged pool, or only zeros, as a process leaves that dies while it creates one | any | by force |
//! | no region, but memory nodes of that name exist | any | the nodes: an earlier removal ended early |
//! | anything else, including a further memory node | any | never |

use super::nodes::remove_node;
use super::{OpenError, Pool};
use crate::fabric::{self, PoolFabric};
use atoll_fabric::{Fabric, FabricError, Hold, Sharing};
use atoll_pool::settings::NODES_MAX;
use atoll_pool::{PoolError, header};

/// Why a pool was not removed. No name was removed.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// The name cannot be read, or is not a pool's.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The named region may have been a pool, or may become one.
    #[error("{name} is no whole pool ({why}): to remove it nevertheless, say --force")]
    Unsound {
        /// The pool's name.
        name: String,
        /// What is wrong with it.
        why: PoolError,
    },
    /// Processes have it open.
    #[error(
        "{name} is in use by {}: end them first. With --force its name goes, and they keep its memory until they end",
        shown_processes(.pids)
    )]
    InUse {
        /// The pool's name.
        name: String,
        /// The processes, as far as this one can see them.
        pids: Vec<u32>,
    },
}

impl From<FabricError> for RemoveError {
    fn from(error: FabricError) -> Self {
        Self::Open(error.into())
    }
}

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Names of regions.
    pub regions: Vec<String>,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Whether a process still has the pool open, and keeps its memory.
    pub in_use: bool,
    /// Such processes, as far as this one can see them.
    pub pids: Vec<u32>,
}

/// Processes, in words.
pub fn shown_processes(pids: &[u32]) -> String {
    match pids {
        [] => "a process that is not visible here".to_owned(),
        [pid] => format!("process {pid}"),
        pids => format!("processes {}", pids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
    }
}

impl Pool {
    /// Removes the names of a pool that no process has open; this process counts, too.
    pub fn remove(name: &str) -> Result<Removed, RemoveError> {
        Self::remove_on(&fabric::addressed(name)?, false)
    }

    /// As [`Pool::remove`], also for a pool that is in use or damaged. It also removes what a
    /// process left that died while it created a pool.
    pub fn remove_by_force(name: &str) -> Result<Removed, RemoveError> {
        Self::remove_on(&fabric::addressed(name)?, true)
    }
}

impl<F: PoolFabric> Pool<F> {
    /// As [`Pool::remove`] or [`Pool::remove_by_force`], on a given fabric.
    pub fn remove_on(fabric: &F, by_force: bool) -> Result<Removed, RemoveError> {
        let address = |node| fabric.region_address(node).unwrap_or_default();
        let mut removed = Removed::default();
        // No process opens the pool meanwhile.
        let lock = match fabric.hold(0, Sharing::Alone) {
            Ok(lock) => Some(lock),
            Err(FabricError::Absent(_)) => None,
            Err(error) => return Err(error.into()),
        };
        let mut bytes = 0;
        if let Some(lock) = &lock {
            bytes = removable(fabric, by_force)?;
            removed.in_use = lock.is_in_use()?;
            removed.pids = lock.peers().pids();
            if removed.in_use && !by_force {
                return Err(RemoveError::InUse { name: address(0), pids: removed.pids });
            }
        }
        remove_regions(fabric, by_force, bytes, &mut removed)?;
        Ok(removed)
    }
}

/// Removes the regions of a pool, whose home has this many bytes. The caller excludes other
/// processes.
pub(super) fn remove_regions<F: Fabric>(
    fabric: &F,
    by_force: bool,
    home_bytes: u64,
    removed: &mut Removed,
) -> Result<(), FabricError> {
    let address = |node| fabric.region_address(node).unwrap_or_default();
    // The home is removed last. If the process dies in between, the pool can still be removed
    // by its name.
    for node in 1..NODES_MAX as u8 {
        match remove_node(fabric, node, by_force) {
            Ok(Some(bytes)) => {
                removed.regions.push(address(node));
                removed.bytes += bytes;
            }
            Ok(None) => {}
            // A file of such a name that is no memory node stays. The name may also be unused.
            Err(FabricError::Exists(_) | FabricError::BadSize { .. } | FabricError::BadName(_)) => {}
            Err(error) => return Err(error),
        }
    }
    match fabric.remove(0) {
        Err(FabricError::Absent(_)) if !removed.regions.is_empty() => {}
        Err(error) => return Err(error),
        Ok(()) => {
            removed.regions.insert(0, address(0));
            removed.bytes += home_bytes;
        }
    }
    Ok(())
}

/// The bytes of the file of that name, if it may be removed.
fn removable(fabric: &impl Fabric, by_force: bool) -> Result<u64, RemoveError> {
    let (words, bytes) = fabric.beginning(0)?;
    match header::decode(&words, bytes) {
        Ok(_) | Err(PoolError::Version { .. }) => Ok(bytes),
        Err(PoolError::NotAPool) if words[0] != 0 => Err(OpenError::Pool(PoolError::NotAPool).into()),
        Err(error @ PoolError::NotTheHome { .. }) => Err(OpenError::Pool(error).into()),
        Err(_) if by_force => Ok(bytes),
        Err(why) => Err(RemoveError::Unsound { name: fabric.region_address(0).unwrap_or_default(), why }),
    }
}
