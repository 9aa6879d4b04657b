//! Removing a pool's names, and nothing else's.
//!
//! | what has the name | in use | removed |
//! |---|---|---|
//! | a pool, of this version or another | no | yes |
//! | a pool | yes | by force: processes that have it open keep its memory until they close it |
//! | a damaged pool, or only zeros, as a process leaves that dies while it makes one | any | by force |
//! | nothing, but memory nodes of that name do | any | those: a removal ended early |
//! | anything else, a further memory node among them | any | never |

use super::nodes::remove_node;
use super::{OpenError, Pool};
use crate::fabric::{self, PoolFabric};
use atoll_fabric::{Fabric, FabricError, Hold, Sharing};
use atoll_pool::settings::NODES_MAX;
use atoll_pool::{PoolError, header};

/// Why a pool was not removed. Nothing was.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// It cannot be looked at, or is no pool's.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// What has the name may have been a pool, or become one.
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
        /// The processes, as far as this one sees them.
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
    /// Whether a process still has them open, and keeps their memory.
    pub in_use: bool,
    /// Such processes, as far as this one sees them.
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
    /// Removes the names of a pool that no process has open, this one included.
    pub fn remove(name: &str) -> Result<Removed, RemoveError> {
        Self::remove_on(&fabric::addressed(name)?, false)
    }

    /// The same of a pool that is in use or damaged, too, and of what a process left that died
    /// while it made a pool.
    pub fn remove_by_force(name: &str) -> Result<Removed, RemoveError> {
        Self::remove_on(&fabric::addressed(name)?, true)
    }
}

impl<F: PoolFabric> Pool<F> {
    /// As [`Pool::remove`] or [`Pool::remove_by_force`], on a fabric of choice.
    pub fn remove_on(fabric: &F, by_force: bool) -> Result<Removed, RemoveError> {
        let address = |node| fabric.region_address(node).unwrap_or_default();
        let mut removed = Removed::default();
        // No process opens it meanwhile.
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
        // The home last: a process that dies in between leaves something that can be removed by its
        // name.
        for node in 1..NODES_MAX as u8 {
            match remove_node(fabric, node, by_force) {
                Ok(Some(bytes)) => {
                    removed.regions.push(address(node));
                    removed.bytes += bytes;
                }
                Ok(None) => {}
                // What has such a name and is no memory node stays; and there may be no such name.
                Err(FabricError::Exists(_) | FabricError::BadSize { .. } | FabricError::BadName(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        match fabric.remove(0) {
            Err(FabricError::Absent(_)) if !removed.regions.is_empty() => {}
            Err(error) => return Err(error.into()),
            Ok(()) => {
                removed.regions.insert(0, address(0));
                removed.bytes += bytes;
            }
        }
        Ok(removed)
    }
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
