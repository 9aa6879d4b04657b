//! Removing a pool's names, and no other names.
//!
//! | what has the name | in use | removed |
//! |---|---|---|
//! | a pool, of this version or another | no | yes |
//! | a pool | yes | by force: processes that have it open keep its memory until they close it |
//! | a damaged pool, or only zeros, as a process leaves that dies while it creates one | any | by force |
//! | no region, but memory nodes of that name exist | no | the nodes: an earlier removal ended early, or the home is lost |
//! | the same | yes | by force |
//! | a pool of memory nodes that are not all reached | any | by force: those that are |
//! | anything else, including a further memory node | any | never |

use super::nodes::remove_node;
use super::users::Users;
use super::{OpenError, Pool};
use crate::fabric::{self, PoolFabric};
use atoll_fabric::{CostClass, Fabric, FabricError, Hold, Sharing};
use atoll_pool::settings::NODES_MAX;
use atoll_pool::{PoolError, header};
use std::time::{Duration, Instant};

/// A process of another host that has just ended may count as a user for so long.
const DEPARTURE: Duration = Duration::from_millis(500);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

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
        "{name} is in use by {users}: end them first. With --force its name goes, and they keep its memory until they \
         end"
    )]
    InUse {
        /// The pool's name.
        name: String,
        /// The processes, as far as this one can see them.
        users: Users,
    },
    /// Some of its memory nodes cannot be reached, or the address does not name them.
    #[error("{name} is not removed as a whole: {why}. With --force what can be reached of it is removed")]
    NotReached {
        /// The pool's name.
        name: String,
        /// Which, and what to do.
        why: String,
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
    pub users: Users,
    /// Why regions of the pool may be left, in words.
    pub left: Vec<String>,
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
        let name = || fabric.region_address(0).unwrap_or_default();
        let mut removed = Removed::default();
        // No process opens the pool meanwhile.
        let lock = match fabric.hold(0, Sharing::Alone) {
            Ok(lock) => Some(lock),
            Err(FabricError::Absent(_)) => None,
            Err(error) => return Err(error.into()),
        };
        let mut home_bytes = None;
        if let Some(lock) = &lock {
            let home = removable(fabric, by_force)?;
            home_bytes = Some(home.bytes);
            removed.in_use = is_in_use_now(fabric, lock)?;
            removed.users = Users::of(&lock.peers());
            if removed.in_use && !by_force {
                return Err(RemoveError::InUse { name: name(), users: removed.users });
            }
            if !by_force && let Some(why) = unnamed(fabric, home.nodes) {
                return Err(RemoveError::NotReached { name: name(), why });
            }
        }
        let is_network = fabric.cost_class() == CostClass::Network;
        match remove_regions(fabric, by_force, home_bytes, &mut removed) {
            Err(FabricError::Exists(region)) => {
                let node = (1..NODES_MAX as u8).find(|node| fabric.region_address(*node).as_ref() == Some(&region));
                let lock = fabric.hold(node.unwrap_or(0), Sharing::Shared)?;
                Err(RemoveError::InUse { name: region, users: Users::of(&lock.peers()) })
            }
            Err(error @ FabricError::System { .. }) if is_network => {
                Err(RemoveError::NotReached { name: name(), why: error.to_string() })
            }
            Err(error) => Err(error.into()),
            Ok(()) => Ok(removed),
        }
    }

    /// Makes room for a new pool: if the home has no region, removes regions of further memory
    /// nodes that a pool has left and that no process has open. Returns the bytes that the memory
    /// nodes have left, where they have a capacity of their own.
    pub fn make_room_on(fabric: &F) -> Result<Option<u64>, OpenError> {
        let is_absent = |node| matches!(fabric.beginning(node), Err(FabricError::Absent(_)));
        if fabric.room_bytes()?.is_some() && is_absent(0) {
            for node in 1..NODES_MAX as u8 {
                match remove_node(fabric, node, false) {
                    // It is in use, or another program's.
                    Err(FabricError::Exists(_)) | Ok(_) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(fabric.room_bytes()?)
    }
}

/// Whether a process has the region open. One that has just ended may be seen for a while where it
/// is of another host.
fn is_in_use_now<F: Fabric>(fabric: &F, lock: &F::Hold) -> Result<bool, FabricError> {
    let deadline = Instant::now() + DEPARTURE;
    loop {
        let is_in_use = lock.is_in_use()?;
        let is_over = fabric.cost_class() != CostClass::Network || Instant::now() >= deadline;
        if !is_in_use || is_over || !lock.peers().connections().is_empty() {
            return Ok(is_in_use);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// What to say if a pool was made of more memory nodes than the address names.
fn unnamed(fabric: &impl Fabric, nodes: u32) -> Option<String> {
    let named = fabric.agents();
    let is_absent = |node| matches!(fabric.beginning(node), Err(FabricError::Absent(_)));
    if fabric.cost_class() != CostClass::Network || named >= nodes || !(1..nodes as u8).any(is_absent) {
        return None;
    }
    Some(format!("it was made of {nodes} memory nodes, and the address names {named}: name the addresses of all"))
}

/// Removes the regions of a pool, whose home has this many bytes. The caller excludes other
/// processes. Without a home, clients may make a new one meanwhile, which stays.
///
/// # Errors
/// [`FabricError::Exists`] if there is no home, and other processes have all that is left open.
pub(super) fn remove_regions<F: Fabric>(
    fabric: &F,
    by_force: bool,
    home_bytes: Option<u64>,
    removed: &mut Removed,
) -> Result<(), FabricError> {
    let address = |node| fabric.region_address(node).unwrap_or_default();
    let is_network = fabric.cost_class() == CostClass::Network;
    let mut in_use = None;
    // The home is removed last. If the process dies in between, the pool can still be removed
    // by its name.
    for node in 1..NODES_MAX as u8 {
        match remove_node(fabric, node, by_force) {
            Ok(Some(bytes)) => {
                removed.regions.push(address(node));
                removed.bytes += bytes;
            }
            Ok(None) => {}
            Err(FabricError::Exists(name)) if is_network => in_use = in_use.or(Some(name)),
            // A file of such a name that is no memory node stays. The name may also be unused.
            Err(FabricError::Exists(_) | FabricError::BadSize { .. } | FabricError::BadName(_)) => {}
            // Of each memory node once.
            Err(error @ FabricError::System { .. }) if is_network && by_force => {
                let why = error.to_string();
                if !removed.left.contains(&why) {
                    removed.left.push(why);
                }
            }
            Err(error) => return Err(error),
        }
    }
    let Some(home_bytes) = home_bytes else {
        let nothing = || in_use.map_or_else(|| FabricError::Absent(address(0)), FabricError::Exists);
        return if removed.regions.is_empty() { Err(nothing()) } else { Ok(()) };
    };
    fabric.remove(0)?;
    removed.regions.insert(0, address(0));
    removed.bytes += home_bytes;
    Ok(())
}

/// What the first words of a home say.
struct Home {
    bytes: u64,
    /// Memory nodes that the pool was made of; 1 if that is not known.
    nodes: u32,
}

/// The file of that name, if it may be removed.
fn removable(fabric: &impl Fabric, by_force: bool) -> Result<Home, RemoveError> {
    let (words, bytes) = fabric.beginning(0)?;
    let unknown = Home { bytes, nodes: 1 };
    match header::decode(&words, bytes) {
        Ok(pool) => Ok(Home { bytes, nodes: pool.settings.nodes }),
        Err(PoolError::Version { .. }) => Ok(unknown),
        Err(PoolError::NotAPool) if words[0] != 0 => Err(OpenError::Pool(PoolError::NotAPool).into()),
        Err(error @ PoolError::NotTheHome { .. }) => Err(OpenError::Pool(error).into()),
        Err(_) if by_force => Ok(unknown),
        Err(why) => Err(RemoveError::Unsound { name: fabric.region_address(0).unwrap_or_default(), why }),
    }
}
