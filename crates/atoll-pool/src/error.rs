//! Why a region is no pool, or a pool cannot be used.

use atoll_fabric::{Domain, VerbError};

/// The format that this version reads and writes.
pub const FORMAT_VERSION: u8 = 17;

/// Why a region is no pool, or cannot become one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// The region was never formatted, or not to its end.
    #[error("the region holds no pool: make one with `atoll pool create`")]
    NotAPool,
    /// Another version of Atoll formatted it.
    #[error("the pool has format {found}, this version reads {FORMAT_VERSION}: remove the pool and create it anew")]
    Version {
        /// The format found.
        found: u8,
    },
    /// The header does not match its checksum, or is not valid.
    #[error("the pool's header is damaged ({what}): remove the pool and create it anew")]
    Damaged {
        /// What is wrong.
        what: &'static str,
    },
    /// The settings are not valid.
    #[error("{what} is {found}: choose {wanted}")]
    Setting {
        /// The setting.
        what: &'static str,
        /// Its value.
        found: u64,
        /// The valid values.
        wanted: String,
    },
    /// The pool belongs to another engine.
    #[error("the pool was made for engine {found}, not {wanted}")]
    Engine {
        /// The engine in the header.
        found: u64,
        /// The engine that wants to use it.
        wanted: u64,
    },
    /// The pool belongs to an engine that this version does not know.
    #[error(
        "the pool was made for engine {found}, which this version does not have: open it with the version that made it, or remove the pool and create it anew"
    )]
    UnknownEngine {
        /// The engine in the header.
        found: u64,
    },
    /// All places of the registry are taken.
    #[error("the pool has its {clients_max} clients: end one, or create the pool anew with more (--clients-max)")]
    Full {
        /// Places in the registry.
        clients_max: u32,
    },
    /// A memory node's region is not the pool's.
    #[error("the region of memory node {node} {what}: put the right one back, or remove the pool and create it anew")]
    Member {
        /// The node.
        node: u8,
        /// What the region is instead.
        what: String,
    },
    /// A memory node that the user gives up is there.
    #[error("memory node {node} is not given up: {why}")]
    Present {
        /// The node.
        node: u8,
        /// What is known of it.
        why: &'static str,
    },
    /// The region belongs to a pool with another home.
    #[error("this is memory node {node} of a pool, not its home: open the pool by the name that it was created with")]
    NotTheHome {
        /// The node's number.
        node: u64,
    },
    /// The pool cannot be enlarged.
    #[error("the pool cannot grow by {wanted_bytes} bytes: {why}")]
    Growth {
        /// The requested addition.
        wanted_bytes: u64,
        /// The obstacle, and what to do.
        why: String,
    },
    /// This process and those that have the pool open disagree about the boot of the host.
    #[error(
        "this process reads another boot id than the pool has, but {proof}, so that the host was not restarted: let this process read the host's /proc/sys/kernel/random/boot_id (it has a /proc of its own), or remove the pool"
    )]
    OtherBoot {
        /// Why both cannot be right.
        proof: &'static str,
    },
    /// It is unknown whether the pool's file went through a crash of the host.
    #[error(
        "the pool's file was not closed, and whether the host went down since cannot be told without its boot id: let this process read /proc/sys/kernel/random/boot_id (mount /proc), or remove the pool"
    )]
    UnknownBoot,
    /// The pool's clients change its words with the atomics of another agent.
    #[error(
        "the pool was made where atomics are of domain {found}, and this fabric's are of the {mine:?}, which do not exclude each other: open the pool by the fabric that it was made on"
    )]
    Domain {
        /// The number of the domain in the header.
        found: u64,
        /// The domain of the endpoint that opens it.
        mine: Domain,
    },
    /// The fabric failed.
    #[error(transparent)]
    Verb(#[from] VerbError),
}

impl PoolError {
    /// The engine's own settings in the header are not valid.
    pub const ENGINE_SETTINGS: Self = Self::Damaged { what: "the engine's settings" };
}
