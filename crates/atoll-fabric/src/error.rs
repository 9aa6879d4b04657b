//! Errors of verbs, and of the control plane.

use crate::RegionAttributes;
use std::io;

/// Why a batch failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerbError {
    /// A verb reached outside its region, was not aligned to words, or named a node or region that
    /// does not exist. The batch took no effect. The address came from our own bug or from damaged
    /// remote bytes.
    #[error("{bytes} bytes at {at} are outside every region of this fabric")]
    Unreachable {
        /// The address, as text.
        at: String,
        /// Bytes that the verb touches.
        bytes: u64,
    },
    /// The control plane knows no region of this node, or cannot open it.
    #[error("memory node {node} cannot be reached: {why}")]
    NodeAbsent {
        /// The node.
        node: u8,
        /// What was tried, and how it failed.
        why: String,
    },
    /// No region is exported there, or its owner is dropped or dead.
    #[error("compute node {node} exports no region {region}: {why}")]
    ExportAbsent {
        /// The compute node.
        node: u16,
        /// The region.
        region: u8,
        /// What was tried, and how it failed.
        why: String,
    },
    /// The target has ended for good; no verb of the batch will take effect from now on.
    #[error("the memory node is gone: open the pool again once it is back")]
    PeerDead,
    /// The deadline passed. Atomics may have happened and WRITEs may still land later.
    #[error("no answer within the deadline: the outcome is unknown")]
    OutcomeUnknown,
    /// The file system has no locks by which this endpoint could prove that it lives. So the
    /// endpoint must not be used.
    #[error("the pool's file system has no locks (F_OFD_SETLK): put the pool on another one, such as /dev/shm")]
    Unprovable,
    /// This endpoint was shut out: none of its verbs takes effect any more.
    #[error("this client was shut out of the pool because it stood still: join again")]
    Fenced,
    /// The host has no memory for pages that a verb would touch first. The batch took no effect.
    #[error(
        "the host of memory node {node} has no memory left for the pool: free some, or make the pool anew with less"
    )]
    NoMemory {
        /// The node.
        node: u8,
    },
    /// This process is a fork of the process that made the endpoint. In a fork the endpoint may
    /// only READ.
    #[error("this process is a fork of the one that opened the pool: open the pool again after the fork")]
    Forked,
}

impl VerbError {
    /// Whether the batch took no effect, now and later. Its client keeps what it holds.
    pub fn took_no_effect(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::NoMemory { .. })
    }
}

/// Why the control plane refused a request. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum FabricError {
    /// The name is neither `shm:/NAME` nor a path.
    #[error("`{0}` names no region: write shm:/NAME (letters, digits, `.`, `_`, `-`), or the path of a file")]
    BadName(String),
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
    #[error("{0} does not exist: create it first (atoll pool create)")]
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
    #[error("no region with the attributes {wanted:?} can be exported: {why}")]
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
