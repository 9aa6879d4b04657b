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
use atoll_fabric::shm::{RegionLock, ShmError, ShmNodes, ShmRegion};
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

impl From<ShmError> for RemoveError {
    fn from(error: ShmError) -> Self {
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
pub(crate) fn shown_processes(pids: &[u32]) -> String {
    match pids {
        [] => "a process that is not visible here".to_owned(),
        [pid] => format!("process {pid}"),
        pids => format!("processes {}", pids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
    }
}

impl Pool {
    /// Removes the names of a pool that no process has open, this one included.
    pub fn remove(name: &str) -> Result<Removed, RemoveError> {
        Self::remove_by(name, false)
    }

    /// The same of a pool that is in use or damaged, too, and of what a process left that died
    /// while it made a pool.
    pub fn remove_by_force(name: &str) -> Result<Removed, RemoveError> {
        Self::remove_by(name, true)
    }

    fn remove_by(name: &str, by_force: bool) -> Result<Removed, RemoveError> {
        let mut removed = Removed::default();
        // No process opens it meanwhile.
        let lock = match RegionLock::alone(name) {
            Ok(lock) => Some(lock),
            Err(ShmError::Absent(_)) => None,
            Err(error) => return Err(error.into()),
        };
        let mut bytes = 0;
        if let Some(lock) = &lock {
            bytes = removable(name, by_force)?;
            removed.in_use = lock.is_in_use()?;
            removed.pids = lock.holders().pids();
            if removed.in_use && !by_force {
                return Err(RemoveError::InUse { name: name.to_owned(), pids: removed.pids });
            }
        }
        // The home last: a process that dies in between leaves something that can be removed by its
        // name.
        for node in 1..header::NODES_MAX as u8 {
            let region = ShmNodes::name(name, node);
            match remove_node(&region, by_force) {
                Ok(Some(bytes)) => {
                    removed.regions.push(region);
                    removed.bytes += bytes;
                }
                Ok(None) => {}
                // What has such a name and is no memory node stays; and there may be no such name.
                Err(ShmError::Exists(_) | ShmError::BadSize { .. } | ShmError::BadName(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        match ShmRegion::remove(name) {
            Err(ShmError::Absent(_)) if !removed.regions.is_empty() => {}
            Err(error) => return Err(error.into()),
            Ok(()) => {
                removed.regions.insert(0, name.to_owned());
                removed.bytes += bytes;
            }
        }
        Ok(removed)
    }
}

/// The bytes of the file of that name, if it may be removed.
fn removable(name: &str, by_force: bool) -> Result<u64, RemoveError> {
    let (words, bytes) = ShmRegion::beginning(name)?;
    match header::decode(&words, bytes) {
        Ok(_) | Err(PoolError::Version { .. }) => Ok(bytes),
        Err(PoolError::NotAPool) if words[0] != 0 => Err(OpenError::Pool(PoolError::NotAPool).into()),
        Err(error @ PoolError::NotTheHome { .. }) => Err(OpenError::Pool(error).into()),
        Err(_) if by_force => Ok(bytes),
        Err(why) => Err(RemoveError::Unsound { name: name.to_owned(), why }),
    }
}
