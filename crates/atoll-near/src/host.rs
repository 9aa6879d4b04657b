//! The compute node that the processes of a host are together.
//!
//! ```no_run
//! # async fn run(
//! #     reach: atoll_fabric::shm::ShmReach,
//! #     directory: atoll_near::Directory,
//! #     object: atoll_near::Object,
//! # ) -> Result<(), atoll_near::NearError> {
//! use atoll_fabric::{Buffer, Reach};
//! use atoll_near::{HostNode, NearError, NodeOptions};
//!
//! let host = HostNode::open("orders")?;
//! let options = NodeOptions::default();
//! let mut near = host.enter(reach.endpoint(), &directory, options).await?;
//! loop {
//!     match near.read(&object, Buffer::new()).await {
//!         // The process that had exported the near region has ended.
//!         Err(NearError::Ended) => {
//!             near.detach().await?;
//!             near = host.enter(reach.endpoint(), &directory, options).await?;
//!             // Before locks of dead processes are released.
//!             near.look_after_members().await?;
//!         }
//!         read => drop(read?),
//!     }
//! }
//! # }
//! ```
//!
//! | the host's memory says that | a client that enters |
//! |---|---|
//! | a near region is here, and it is a member's | attaches to it |
//! | a near region is here, and it has ended, or another one has its address | exports another one, and joins with it |
//! | a client is about to export | waits for it, at most for ten seconds |
//! | no client exports | exports a near region, and joins with it |
//!
//! A client that was too slow to export leaves again, and attaches to the region of the one that
//! was quicker.

use crate::directory::Directory;
use crate::error::NearError;
use crate::export::{Attempt, Export, Exported};
use crate::near::Near;
use crate::node::NodeOptions;
use atoll_fabric::shm::{HostMemory, HostUser};
use atoll_fabric::{Endpoint, Identity, VerbError};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The kind of the host's memory, with the version of its words.
const KIND: &str = "node1";
/// How long a client waits before it looks again for one that is about to export.
const LOOK_PAUSE_NS: u64 = 100_000;
/// How long clients wait for one that is about to export. It READs all modes meanwhile.
const ATTEMPT_NS: u64 = 10_000_000_000;
/// The words of the memory: who exports, and its id.
const EXPORT: usize = 0;
const ID: usize = 1;

/// The compute node of this host: what its processes know of each other.
#[derive(Debug)]
pub struct HostNode {
    memory: Arc<HostMemory>,
}

impl HostNode {
    /// The compute node that the processes of this host and user have by a name of their choice.
    /// Processes that give one name use one directory.
    ///
    /// # Errors
    /// [`NearError::Export`] if the host has no memory left for a page, or nowhere to keep it.
    pub fn open(name: &str) -> Result<Self, NearError> {
        // Any text is a name.
        let name = format!("{:016x}", rapidhash::v3::rapidhash_v3(name.as_bytes()));
        Ok(Self { memory: Arc::new(HostMemory::of_host(KIND, &name, ID + 1, ID + 1)?) })
    }

    fn word(&self) -> &AtomicU64 {
        self.memory.word(EXPORT)
    }

    /// A client of the compute node. It attaches to the near region that a process of the host
    /// exports. If none does, it joins the directory with these options, and exports one.
    ///
    /// # Errors
    /// As [`Near::attach`] and [`Near::join`]. [`VerbError::Forked`] in a fork of the process that
    /// opened this: open it there.
    pub async fn enter<E: Endpoint>(
        &self,
        mut endpoint: E,
        directory: &Directory,
        options: NodeOptions,
    ) -> Result<Near<E>, NearError> {
        let nonce = |export: Export, random| export.nonce(self.memory.word(ID), random);
        let (user, attempt) = (HostUser::new(self.memory.clone()), Attempt::default());
        if user.identity() == Identity::NOBODY {
            // No other client could tell whether this one is about to export.
            return Err(VerbError::Forked.into());
        }
        loop {
            let (before, random) = (Export::of(self.word()), endpoint.random());
            match before.exported() {
                Exported::Here(region) => {
                    match Near::try_attach(endpoint, directory, region, Some(nonce(before, random))).await {
                        Ok(near) => return Ok(near.known_to(self.memory.clone())),
                        Err((back, NearError::Ended | NearError::NoDirectory { .. })) => endpoint = back,
                        Err((_, error)) => return Err(error),
                    }
                }
                Exported::Soon(who)
                    if !attempt.has_given_up(&self.memory, who, before, (endpoint.now_ns(), ATTEMPT_NS)) =>
                {
                    endpoint.pause(LOOK_PAUSE_NS).await;
                    continue;
                }
                Exported::Soon(_) | Exported::Nobody => {}
            }
            let Some(soon) = before.change(self.word(), Exported::Soon(user.identity())) else { continue };
            let nonce_at = |region| nonce(soon.followed_by(Exported::Here(region)), random);
            let near = match Near::join_as_host(endpoint, directory.clone(), options, nonce_at).await {
                Ok(near) => near,
                Err(error) => {
                    soon.change(self.word(), Exported::Nobody);
                    return Err(error);
                }
            };
            match soon.change(self.word(), Exported::Here(near.region())) {
                Some(_) => return Ok(near.known_to(self.memory.clone())),
                None => endpoint = near.leave_for_another().await?,
            }
        }
    }
}
