//! Why an operation of a near cache failed.

use atoll_fabric::{FabricError, VerbError};

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum NearError {
    /// A verb failed. After an unknown outcome the client must not be used any more.
    #[error(transparent)]
    Verb(#[from] VerbError),
    /// The near region could not be exported.
    #[error("the near cache's region cannot be exported: {0}")]
    Export(#[from] FabricError),
    /// The pool has as many near caches as it can have.
    #[error("there are {max} near caches on this pool, and there can be no more: end one, or go on without", max = atoll_pool::sharers::SHARERS_MAX)]
    Sharers,
    /// The directory has as many members as it can have.
    #[error("all {members_max} places of the directory are taken: end a compute node first")]
    Full {
        /// Compute nodes that the directory can have.
        members_max: usize,
    },
    /// The directory has as many further clients as it can have.
    #[error("all {clients_max} places for further clients of compute nodes are taken: end one first")]
    Crowded {
        /// Further clients that the directory can have.
        clients_max: usize,
    },
    /// The words at the directory's address are no directory of this version.
    #[error("no near-cache directory of this version is there ({what}): create it with `Directory::create`")]
    NoDirectory {
        /// What is wrong.
        what: &'static str,
    },
    /// An option is out of its range.
    #[error("{what} is {found}: choose {wanted}")]
    Option {
        /// The option.
        what: &'static str,
        /// Its value.
        found: u64,
        /// The valid values.
        wanted: &'static str,
    },
    /// No manager is there, or none answers. A change that was asked for may have been done, and
    /// may be done later.
    #[error(
        "no manager of the near caches answers: start one with `Manager::start`; if there was one, create the directory anew"
    )]
    NoManager,
    /// The memory node has ended, or was made anew and is not in use yet, or this client cannot
    /// tell.
    #[error(
        "this client cannot use memory node {node}: if it has ended, make its region anew, and call Near::renew_memory_node of a client that reaches it"
    )]
    NodeAway {
        /// The memory node.
        node: u8,
    },
    /// The near region of this compute node has ended: the process that exported it has, or was
    /// killed. A change that was asked for may have been done.
    #[error("the near region of this compute node has ended: detach this client, and join or attach again")]
    Ended,
    /// With [`Promise::Linearizable`](crate::Promise): an earlier write of this compute node to an
    /// object of the same stripe has an unknown outcome. Nothing was written.
    #[error("a write of this compute node has an unknown outcome: end all clients of the node, and join again")]
    Unsettled,
    /// A compute node's near region cannot be reached, and the fabric does not say that it is dead.
    /// With [`Promise::Regular`](crate::Promise) the object was written, and copies on that node
    /// may be old until it answers or is buried. With
    /// [`Promise::Linearizable`](crate::Promise) it was not written.
    #[error("compute node {node} does not answer, and is not known to be dead: write again, or shut it out")]
    Silent {
        /// The compute node.
        node: u16,
    },
}
