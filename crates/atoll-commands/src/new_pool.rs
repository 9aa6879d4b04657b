//! The options of a new pool, for every command that creates one.

use crate::capacity_or_default;
use crate::engine::EngineArgs;
use atoll::fabric::PoolFabric;
use atoll::size::parse_bytes;
use atoll::{EngineOptions, PoolOptions};
use atoll_fabric::FabricError;
use clap::Args;

/// What a new pool is like. A process that opens the pool reads it from the header.
#[derive(Args, Debug)]
pub(super) struct NewPoolArgs {
    /// Bytes of the whole pool, whose memory is allocated now [default: 1GiB, or less if the host
    /// has no room for it; on the fabric tcp all that the memory nodes lend]
    #[arg(long, value_parser = parse_bytes)]
    capacity: Option<u64>,
    /// Memory nodes that the capacity is spread over: regions whose names end in +1, +2, ...
    /// [default: 1, or one for each HOST:PORT]
    #[arg(long)]
    nodes: Option<u32>,
    /// Bytes to which the pool may grow (`atoll pool grow`); index and tables are made for this
    /// size [default: the capacity]
    #[arg(long, value_parser = parse_bytes)]
    capacity_max: Option<u64>,
    /// Most memory nodes, including nodes added later [default: 16 in a pool that may grow]
    #[arg(long)]
    nodes_max: Option<u32>,
    /// Most clients (threads of all processes) at a time [default: 64, less in small pools]
    #[arg(long)]
    clients_max: Option<u32>,
    /// Expected bytes of an object with its key, which determine the size of the index
    /// [default: 296]
    #[arg(long)]
    object_bytes_mean: Option<u32>,
    #[command(flatten)]
    pub(super) engine: EngineArgs,
}

impl NewPoolArgs {
    /// The first option that was given.
    pub(super) fn given(&self) -> Option<String> {
        let given = [
            ("--capacity", self.capacity.is_some()),
            ("--nodes", self.nodes.is_some()),
            ("--capacity-max", self.capacity_max.is_some()),
            ("--nodes-max", self.nodes_max.is_some()),
            ("--clients-max", self.clients_max.is_some()),
            ("--object-bytes-mean", self.object_bytes_mean.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name.to_owned()).or_else(|| self.engine.given())
    }

    /// The capacity of a pool of shared memory with this name, or of a private one.
    pub(super) fn capacity_bytes(&self, name: Option<&str>) -> u64 {
        capacity_or_default(self.capacity, name)
    }

    /// The capacity of a pool on this fabric. The default is what the memory nodes have left; where
    /// memory nodes have no capacity of their own, see [`Self::capacity_bytes`].
    pub(super) fn capacity_bytes_on(&self, fabric: &impl PoolFabric) -> Result<u64, FabricError> {
        Ok(match (self.capacity, fabric.room_bytes()?) {
            (None, Some(left_bytes)) => left_bytes,
            _ => self.capacity_bytes(fabric.address()),
        })
    }

    /// The memory nodes that it is made with. `default`: unless the user says how many.
    pub(super) fn nodes(&self, default: u32) -> u32 {
        self.nodes.unwrap_or(default)
    }

    /// The options of a pool of this capacity. `nodes`: unless the user says how many.
    pub(super) fn options(&self, engine: EngineOptions, capacity_bytes: u64, nodes: u32) -> PoolOptions {
        let mut options = PoolOptions::default().capacity_bytes(capacity_bytes).nodes(self.nodes(nodes)).engine(engine);
        if let Some(object_bytes_mean) = self.object_bytes_mean {
            options = options.object_bytes_mean(object_bytes_mean);
        }
        if let Some(clients_max) = self.clients_max {
            options = options.clients_max(clients_max);
        }
        if let Some(capacity_max) = self.capacity_max {
            options = options.capacity_bytes_max(capacity_max);
        }
        if let Some(nodes_max) = self.nodes_max {
            options = options.nodes_max(nodes_max);
        }
        options
    }

    /// What the options come to that were not given, in a pool of a server's own.
    pub(super) fn defaults(&self, engine: &EngineOptions) -> [(&'static str, String); 3] {
        let [capacity, nodes] = [self.capacity_bytes(None), self.nodes(1).into()].map(|number| number.to_string());
        [("capacity", capacity), ("nodes", nodes), ("engine", engine.to_string())]
    }
}
