//! What goes wrong with verbs, and with the control plane.

use crate::RegionAttributes;
use std::io;

/// Why a batch failed.
///
/// Every verb's future carries one of these past its caller, so it is two words: what an error says
/// in more words lies apart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerbError {
    /// A verb reached outside its region, was not aligned to words, or named a node or region that
    /// is not there. Nothing of the batch took effect. The address came from our own bug or from
    /// damaged remote bytes.
    #[error("{} bytes at {} are outside every region of this fabric", .0.bytes, .0.at)]
    Unreachable(Box<Unreachable>),
    /// The control plane knows of no region of this node, or cannot have it.
    #[error("memory node {} cannot be reached: {}", .0.node, .0.why)]
    NodeAbsent(Box<NodeAbsent>),
    /// No region is exported there, or its owner is gone.
    #[error("compute node {} exports no region {}: {}", .0.node, .0.region, .0.why)]
    ExportAbsent(Box<ExportAbsent>),
    /// The target is gone for good; none of the batch's verbs will take effect from now on.
    #[error("the memory node is gone: open the pool again once it is back")]
    PeerDead,
    /// The deadline passed. Atomics may have happened and WRITEs may still land later.
    #[error("no answer within the deadline: the outcome is unknown")]
    OutcomeUnknown,
    /// The file system has no locks by which this endpoint could prove its life, so that it takes
    /// no part.
    #[error("the pool's file system has no locks (F_OFD_SETLK): put the pool on another one, such as /dev/shm")]
    Unprovable,
    /// This endpoint was shut out: none of its verbs takes effect any more.
    #[error("this client was shut out of the pool because it stood still: join again")]
    Fenced,
    /// The host of this memory node has no memory for what a verb would touch first. Nothing of the
    /// batch took effect.
    #[error("the host of memory node {0} has no memory left for the pool: free some, or make the pool anew with less")]
    NoMemory(Box<u8>),
    /// This process is a fork of the one that made the endpoint, which alone may use it, but for a
    /// READ.
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

    /// The host of a memory node has no memory left.
    pub fn no_memory(node: u8) -> Self {
        Self::NoMemory(Box::new(node))
    }

    /// Whether nothing of the batch took effect, or will: its client goes on with what it has.
    pub fn took_no_effect(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::NoMemory(_))
    }
}

/// Why the control plane cannot do what it was asked for. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum FabricError {
    /// The name is neither `shm:/NAME` nor a path.
    #[error("`{0}` names no region: write shm:/NAME (letters, digits, `.`, `_`, `-`), or the path of a file")]
    BadName(String),
    /// The address is of a fabric that is not there.
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
    #[error("{0} does not exist: create it first (atoll pool create)")]
    Absent(String),
    /// The agent has no room for all of it.
    #[error("no room for {bytes} bytes in {name}: {why}; choose a smaller capacity, or free memory")]
    NoRoom {
        /// The region's name.
        name: String,
        /// Bytes wanted.
        bytes: u64,
        /// What is in the way, and how to change it.
        why: String,
    },
    /// The size is not usable.
    #[error("{name} has {bytes} bytes: a region has at least {least} and a multiple of 8")]
    BadSize {
        /// The region's name.
        name: String,
        /// Bytes found or wanted.
        bytes: u64,
        /// The least possible.
        least: u64,
    },
    /// The fabric cannot export such a region.
    #[error("no region with the attributes {wanted:?} can be exported: {why}")]
    NoExport {
        /// What was asked for.
        wanted: RegionAttributes,
        /// What is in the way.
        why: &'static str,
    },
    /// The system refused.
    #[error("{name}: cannot {what}: {source}")]
    System {
        /// The region's name.
        name: String,
        /// What was tried.
        what: &'static str,
        /// The system's words.
        source: io::Error,
    },
}
