//! Errors of verbs, and of the control plane.

use crate::RegionAttributes;
use std::io;

/// Why a batch failed.
///
/// Every verb's future carries one of these past its caller, so it is two words: what an error says
/// in more words lies apart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerbError {
    /// A verb reached outside its region, was not aligned to words, or named a node or region that
    /// does not exist. The batch took no effect. The address came from our own bug or from
    /// damaged remote bytes.
    #[error("{} bytes at {} are outside every region of this fabric", .0.bytes, .0.at)]
    Unreachable(Box<Unreachable>),
    /// The control plane knows no region of this node, or cannot open it.
    #[error("memory node {} cannot be reached: {}", .0.node, .0.why)]
    NodeAbsent(Box<NodeAbsent>),
    /// No region is exported there, or its owner is dropped or dead.
    #[error("compute node {} exports no region {}: {}", .0.node, .0.region, .0.why)]
    ExportAbsent(Box<ExportAbsent>),
    /// A region is exported there, perhaps, and this process cannot open it. Nothing is proven of
    /// its owner. The batch took no effect.
    #[error("region {} of compute node {} cannot be opened: {}", .0.region, .0.node, .0.why)]
    ExportUnopened(Box<ExportAbsent>),
    /// The target has ended for good: a memory node, or a region that an endpoint exported. No verb
    /// of the batch will take effect from now on.
    #[error("the memory node is gone: open the pool again once it is back")]
    PeerDead,
    /// The deadline passed. Atomics may have happened and WRITEs may still land later.
    #[error("the memory node has not answered, or the connection broke: the outcome is unknown")]
    OutcomeUnknown,
    /// The file system has no locks by which this endpoint could prove that it lives. So the
    /// endpoint must not be used.
    #[error("the pool's file system has no locks (F_OFD_SETLK): put the pool on another one, such as /dev/shm")]
    Unprovable,
    /// This endpoint was shut out: none of its verbs takes effect any more.
    #[error(
        "this client lost the pool: it was silent for too long, or a memory node failed. A cache joins again by itself"
    )]
    Fenced,
    /// The host of this memory node has no memory for pages that a verb would touch first. The
    /// batch took no effect.
    #[error("the host of memory node {0} has no memory left for the pool: free some, or make the pool anew with less")]
    NoMemory(Box<u8>),
    /// This process is a fork of the process that made the endpoint. In a fork the endpoint may
    /// only READ.
    #[error("this process is a fork of the one that opened the pool: open the pool again after the fork")]
    Forked,
}

const _: () = assert!(size_of::<Result<(), VerbError>>() == 16);

/// What a verb wanted that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// The address, as text.
    pub at: String,
    /// Bytes that the verb wanted.
    pub bytes: u64,
}

/// A memory node that cannot be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAbsent {
    /// The node.
    pub node: u8,
    /// What was tried, and what came of it.
    pub why: String,
}

/// A region that is not exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportAbsent {
    /// The compute node.
    pub node: u16,
    /// The region.
    pub region: u8,
    /// What was tried, and what came of it.
    pub why: String,
}

impl VerbError {
    /// So many bytes at an address are outside every region.
    pub fn unreachable(at: impl std::fmt::Debug, bytes: u64) -> Self {
        Self::Unreachable(Box::new(Unreachable { at: format!("{at:?}"), bytes }))
    }

    /// A memory node cannot be reached, and why.
    pub fn node_absent(node: u8, why: impl Into<String>) -> Self {
        Self::NodeAbsent(Box::new(NodeAbsent { node, why: why.into() }))
    }

    /// A compute node does not export a region, and why.
    pub fn export_absent(node: u16, region: u8, why: impl Into<String>) -> Self {
        Self::ExportAbsent(Box::new(ExportAbsent { node, region, why: why.into() }))
    }

    /// An export of a compute node cannot be opened, and why.
    pub fn export_unopened(node: u16, region: u8, why: impl Into<String>) -> Self {
        Self::ExportUnopened(Box::new(ExportAbsent { node, region, why: why.into() }))
    }

    /// The host of a memory node has no memory left.
    pub fn no_memory(node: u8) -> Self {
        Self::NoMemory(Box::new(node))
    }

    /// Whether the batch took no effect, now and later. Its client keeps what it holds.
    pub fn took_no_effect(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::NoMemory(_) | Self::ExportUnopened(_))
    }

    /// Whether a verb to an exported region failed because the region has ended, or because the
    /// endpoint does not reach it: it may have learnt of the end before.
    pub fn is_of_ended_export(&self) -> bool {
        matches!(self, Self::PeerDead | Self::ExportAbsent(_) | Self::Unreachable(_))
    }
}

/// Why the control plane refused a request. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum FabricError {
    /// The name is neither `shm:/NAME` nor a path.
    #[error(
        "`{0}` names no region: write shm:/NAME (letters, digits, `.`, `_`, `-`), the path of a file with a slash in \
         it (./FILE), or tcp:HOST:PORT[,HOST:PORT...]"
    )]
    BadName(String),
    /// The address is not that of memory nodes.
    #[error(
        "`{0}` names no memory nodes: write tcp:HOST:PORT[,HOST:PORT...] without //, for TLS with ?ca=FILE behind it"
    )]
    BadAddress(String),
    /// The address belongs to a fabric that is missing.
    #[error("{address}: this version has no `{scheme}` fabric: write shm:/NAME, or the path of a file")]
    NoFabric {
        /// The whole address.
        address: String,
        /// The part of it that names the fabric.
        scheme: String,
    },
    /// The region was created before.
    #[error("{0} exists: open it, remove it first, or choose another name")]
    Exists(String),
    /// The region was not created, or is removed.
    #[error("{0} does not exist (`atoll pool create {0}` makes it)")]
    Absent(String),
    /// The agent has no room for the whole region.
    #[error("no room for {bytes} bytes in {name}: {why}; choose a smaller capacity, or free memory")]
    NoRoom {
        /// The region's name.
        name: String,
        /// Bytes requested.
        bytes: u64,
        /// The limit, and how to change it.
        why: String,
    },
    /// The size is not usable.
    #[error("{name} has {bytes} bytes: a region has at least {least} and a multiple of 8")]
    BadSize {
        /// The region's name.
        name: String,
        /// Bytes found or requested.
        bytes: u64,
        /// The smallest possible size.
        least: u64,
    },
    /// The fabric cannot export such a region.
    #[error("a region of {} bytes cannot be exported: {why}", wanted.bytes)]
    NoExport {
        /// The request.
        wanted: RegionAttributes,
        /// The obstacle.
        why: &'static str,
    },
    /// The system refused the request.
    #[error("{name}: cannot {what}: {source}")]
    System {
        /// The region's name.
        name: String,
        /// What was tried.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}
