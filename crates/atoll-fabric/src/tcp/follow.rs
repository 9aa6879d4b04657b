//! Exported regions that processes of the exporter's host follow: their endpoints read the words
//! from a mirror.
//!
//! The endpoint that exported a region begins: it has a [`Mirror`] kept. The other endpoints of the
//! process find the mirror in a table of the process, those of other processes by its name. The
//! endpoint that began ends the mirror before it gives its number back.

use super::TcpEndpoint;
use super::call::Answer;
use super::mirror::{Keeping, Mirror};
use crate::{Address, FabricError, Region};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

/// A region that a process exports: the process, its agent, the home there, the compute node, the
/// region. A fork is another process, whose mirrors stand still.
type Key = (u64, u64, u64, u16, u8);

/// The name of a mirror on this host.
fn name_of((_, agent, home, node, region): Key) -> String {
    format!("{agent:016x}-{home:x}-{node}.{region}")
}

/// The mirrors of this process.
static MIRRORS: LazyLock<Mutex<HashMap<Key, Weak<Mirror>>>> = LazyLock::new(Mutex::default);

fn mirrors() -> std::sync::MutexGuard<'static, HashMap<Key, Weak<Mirror>>> {
    MIRRORS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What an endpoint follows.
#[derive(Default)]
pub(super) struct Followed {
    /// The regions that it exports.
    exported: RefCell<Vec<(u16, u8)>>,
    mirrors: RefCell<Vec<(Address, Arc<Mirror>)>>,
    /// Of those that it exports.
    kept: RefCell<Vec<Keeping>>,
}

impl Followed {
    /// Notes that this endpoint has exported a region.
    pub(super) fn note_export(&self, place: (u16, u8)) {
        self.exported.borrow_mut().push(place);
    }

    /// The process follows the regions of this endpoint no longer, and the agent knows it.
    pub(super) fn end(&self) {
        self.kept.borrow_mut().clear();
    }

    /// Forgets everything in a fork, whose threads are not there.
    pub(super) fn forget(&mut self) {
        std::mem::forget(std::mem::take(self));
    }
}

impl TcpEndpoint {
    /// See [`Endpoint::follow`](crate::Endpoint::follow).
    pub(super) fn follow_export(&self, at: Address) -> Result<(), FabricError> {
        let wanted = self.reach.home_region().attributes();
        let refused = |why| FabricError::NoExport { wanted, why };
        let Some(node) = at.compute_node() else { return Err(refused("it is a memory node's region")) };
        let at = Address::on_compute(node, at.region(), 0);
        if self.reach_exported(at).is_err() {
            return Err(refused("its owner has ended, or exports no such region"));
        }
        let (agent, session) = self.home_session().ok_or(refused("the agent of the home is gone"))?;
        let key = (self.process, agent, self.reach.home_region().id(), node, at.region());
        let owns = self.followed.exported.borrow().contains(&(node, at.region()));
        let known = mirrors().get(&key).and_then(Weak::upgrade).filter(|mirror| mirror.is_present());
        let mirror = match known {
            Some(mirror) => mirror,
            None if owns => {
                let fabric = self.reach.fabric();
                let agent = fabric.agent(self.reach.home_region().agent());
                match Keeping::begin(agent, fabric.options(), session, at, &name_of(key))? {
                    Ok((keeping, mirror)) => {
                        self.followed.kept.borrow_mut().push(keeping);
                        mirror
                    }
                    Err(Answer::NoExport { .. }) => {
                        let why = "processes of the memory node's host could change it unseen: start the node without \
                                   --pool shm:";
                        return Err(refused(why));
                    }
                    Err(Answer::Exists {}) => return Err(refused("its process followed it, and this has ended")),
                    Err(_) => return Err(refused("the agent of the home lets no process follow it")),
                }
            }
            None => {
                let found = Mirror::find(&name_of(key));
                Arc::new(found.ok_or(refused("its owner is on another host, or does not follow it"))?)
            }
        };
        let mut table = mirrors();
        table.retain(|_, mirror| mirror.strong_count() > 0);
        table.insert(key, Arc::downgrade(&mirror));
        drop(table);
        let mut followed = self.followed.mirrors.borrow_mut();
        followed.retain(|(region, mirror)| *region != at && !mirror.is_over());
        followed.push((at, mirror));
        Ok(())
    }

    /// See [`Endpoint::own_word`](crate::Endpoint::own_word).
    #[inline]
    pub(super) fn followed_word(&self, at: Address) -> Option<u64> {
        let mirrors = self.followed.mirrors.borrow();
        let (_, mirror) = mirrors.iter().find(|(region, _)| region.is_in_region_of(at))?;
        mirror.word(at.offset()).filter(|_| !self.is_fork())
    }
}
