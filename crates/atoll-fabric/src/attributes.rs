//! What is fixed when a region is created.

/// Where a region's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Ordinary memory of the node.
    Host,
    /// Memory on the NIC: small, and several times faster for atomics.
    Device,
}

/// The one agent whose atomics exclude each other in a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// The processors of one host.
    Cpu,
    /// The NIC of the node that exports the region.
    Nic,
    /// The agent thread of the node that exports the region.
    Agent,
}

/// How long the bytes live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// As long as a process has the region open.
    Process,
    /// Until the host reboots or a process removes the region.
    Host,
}

/// What is fixed when a region is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionAttributes {
    /// Size in bytes; a multiple of 8.
    pub bytes: u64,
    /// Where the bytes are.
    pub kind: Kind,
    /// The agent whose atomics exclude each other.
    pub domain: Domain,
    /// How long the bytes live.
    pub lifetime: Lifetime,
}
