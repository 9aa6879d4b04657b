//! Removing a pool's names, and no other names.
//!
//! | what has the name | in use | removed |
//! |---|---|---|
//! | a pool | no | yes |
//! | a pool of another version | no | yes; over a network by force |
//! | a pool | yes | by force: processes that have it open keep its memory until they close it |
//! | a damaged pool, or only zeros, as a process leaves that dies while it creates one | any | by force |
//! | no region, but memory nodes of that name exist | no | the nodes: an earlier removal ended early; over a network by force, since their home may be elsewhere |
//! | a pool of memory nodes that are not all reached, or not all named | any | by force: those that are |
//! | a further memory node's region of another pool, over a network | no | by force, if the home is absent or does not say which are its own |
//! | the same | yes | never |
//! | anything else, including a further memory node | any | never |

use super::nodes::{Found, Left, Whose, find_node, remove_node};
use super::users::Users;
use super::{OpenError, Pool};
use crate::fabric::{self, PoolFabric};
use atoll_cache::NearCache;
use atoll_fabric::{CostClass, Fabric, FabricError, Hold, Sharing};
use atoll_pool::nodes::MemberWords;
use atoll_pool::settings::NODES_MAX;
use atoll_pool::{PoolError, header};
use std::time::{Duration, Instant};

/// A process of another host that has just ended may count as a user for so long.
const DEPARTURE: Duration = Duration::from_millis(500);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Why a pool was not removed. No name was removed, unless the system failed meanwhile.
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
    /// It cannot be removed as a whole: it has no home, some of its memory nodes cannot be reached,
    /// or the address does not name them.
    #[error("{name} is not removed: {why}. With --force what is there and unused is removed")]
    Incomplete {
        /// The pool's name.
        name: String,
        /// What is wrong.
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
        let is_network = fabric.cost_class() == CostClass::Network;
        let refused = |why| RemoveError::Incomplete { name: name(), why };
        let mut home = Home { bytes: None, nodes: 1, whose: Whose::Any };
        if let Some(lock) = &lock {
            home = removable(fabric, by_force)?;
            removed.in_use = is_in_use_now(fabric, lock)?;
            removed.users = Users::of(&lock.peers());
            if removed.in_use && !by_force {
                return Err(RemoveError::InUse { name: name(), users: removed.users });
            }
        }
        if is_network && !by_force {
            let unsure = if lock.is_some() { unnamed(fabric, home.nodes) } else { remnant(fabric, NODES_MAX as u8) };
            if let Some(why) = unsure {
                return Err(refused(why));
            }
            check_members(fabric, home.whose)?;
        }
        match remove_regions(fabric, by_force, &home, &mut removed) {
            Err(FabricError::Absent(_)) if !removed.left.is_empty() => Err(refused(removed.left.join("; "))),
            Err(error @ FabricError::System { .. }) if is_network => Err(refused(error.to_string())),
            Err(error) => Err(error.into()),
            Ok(()) => {
                // Those of processes that were killed are of no use any more.
                NearCache::remove_left();
                Ok(removed)
            }
        }
    }
}

/// Checks that all further memory nodes are reached, and that no process has a region of them open,
/// before any name is removed.
fn check_members<F: Fabric>(fabric: &F, whose: Whose) -> Result<(), RemoveError> {
    let name = |node| fabric.region_address(node).unwrap_or_default();
    for node in 1..NODES_MAX as u8 {
        match find_node(fabric, node, whose) {
            Ok(Found::Region { lock, .. }) if is_in_use_now(fabric, &lock)? => {
                return Err(RemoveError::InUse { name: name(node), users: Users::of(&lock.peers()) });
            }
            Err(error @ FabricError::System { .. }) => {
                return Err(RemoveError::Incomplete { name: name(0), why: error.to_string() });
            }
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
    }
    Ok(())
}

/// What to say if there is no home, and a further memory node of these has the region of a pool.
pub(super) fn remnant(fabric: &impl Fabric, nodes: u8) -> Option<String> {
    let is_of_pool = |node: &u8| {
        let words = fabric.beginning(*node).map(|(words, _)| MemberWords::of(&words));
        matches!(words, Ok(MemberWords::OfPool(_)))
    };
    let left = (1..nodes).find(is_of_pool)?;
    // Another client may have made the pool meanwhile.
    let is_home_absent = matches!(fabric.beginning(0), Err(FabricError::Absent(_)));
    let address = |node| fabric.region_address(node).unwrap_or_default();
    is_home_absent.then(|| format!("there is no home at {}, and {} is of a pool", address(0), address(left)))
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

/// What to say if a pool over a network was made of more memory nodes than the address names.
fn unnamed(fabric: &impl Fabric, nodes: u32) -> Option<String> {
    let named = fabric.agents();
    let is_absent = |node| matches!(fabric.beginning(node), Err(FabricError::Absent(_)));
    if named >= nodes || !(1..nodes as u8).any(is_absent) {
        return None;
    }
    Some(format!("it was made of {nodes} memory nodes, and the address names {named}: name the addresses of all"))
}

/// Removes the regions of a pool. The caller excludes other processes. Without a home, clients may
/// make a new one meanwhile, which stays.
pub(super) fn remove_regions<F: Fabric>(
    fabric: &F,
    by_force: bool,
    home: &Home,
    removed: &mut Removed,
) -> Result<(), FabricError> {
    let address = |node| fabric.region_address(node).unwrap_or_default();
    let is_network = fabric.cost_class() == CostClass::Network;
    // The home is removed last. If the process dies in between, the pool can still be removed
    // by its name.
    for node in 1..NODES_MAX as u8 {
        match remove_node(fabric, (node, home.whose), by_force) {
            Ok(Left::Removed(bytes)) => {
                removed.regions.push(address(node));
                removed.bytes += bytes;
            }
            Ok(Left::InUse(users)) if is_network => {
                removed.left.push(format!("{} is in use by {users}", address(node)))
            }
            Ok(Left::NotOurs) if is_network && u32::from(node) < home.nodes => {
                removed.left.push(format!("{} is another pool's", address(node)));
            }
            Ok(Left::Nothing | Left::NotOurs | Left::InUse(_)) => {}
            // The name may be unused.
            Err(FabricError::BadSize { .. } | FabricError::BadName(_)) => {}
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
    let Some(home_bytes) = home.bytes else {
        return if removed.regions.is_empty() { Err(FabricError::Absent(address(0))) } else { Ok(()) };
    };
    fabric.remove(0)?;
    removed.regions.insert(0, address(0));
    removed.bytes += home_bytes;
    Ok(())
}

/// What is known of a pool that is to be removed.
pub(super) struct Home {
    /// Bytes of the home's region, if it has one.
    pub(super) bytes: Option<u64>,
    /// Memory nodes that the pool was made of; 1 if that is not known.
    nodes: u32,
    /// Which further regions are the pool's.
    whose: Whose,
}

impl Home {
    /// The home of a pool that its creator has not formatted, by its first words.
    pub(super) fn unformatted(words: &[u64], bytes: u64) -> Self {
        Self { bytes: Some(bytes), nodes: 1, whose: Whose::pool(header::id_of(words)) }
    }
}

/// The file of that name, if it may be removed.
fn removable(fabric: &impl Fabric, by_force: bool) -> Result<Home, RemoveError> {
    let (words, bytes) = fabric.beginning(0)?;
    let unformatted = || Home::unformatted(&words, bytes);
    let is_network = fabric.cost_class() == CostClass::Network;
    let name = || fabric.region_address(0).unwrap_or_default();
    match header::decode(&words, bytes) {
        Ok(pool) => Ok(Home { bytes: Some(bytes), nodes: pool.settings.nodes, whose: Whose::Pool(pool.id) }),
        // Its format may say differently which regions are its own.
        Err(why @ PoolError::Version { .. }) if is_network && !by_force => {
            Err(RemoveError::Incomplete { name: name(), why: why.to_string() })
        }
        Err(PoolError::Version { .. }) => Ok(Home { bytes: Some(bytes), nodes: 1, whose: Whose::Any }),
        Err(PoolError::NotAPool) if words[0] != 0 => Err(OpenError::Pool(PoolError::NotAPool).into()),
        Err(error @ PoolError::NotTheHome { .. }) => Err(OpenError::Pool(error).into()),
        Err(PoolError::NotAPool) if by_force => Ok(unformatted()),
        Err(_) if by_force => Ok(Home { bytes: Some(bytes), nodes: 1, whose: Whose::Any }),
        Err(why) => Err(RemoveError::Unsound { name: name(), why }),
    }
}
