//! The descriptors of the engines with queues among the engines that users choose from.

use super::{QueueOptions, Queued};
use atoll_cache::engines::EngineKind;
use atoll_cache::table::TablePool;
use atoll_fabric::Endpoint;

/// [`queues`](super).
pub enum QueuesKind {}

impl EngineKind for QueuesKind {
    type Options = QueueOptions;
    type Shared = TablePool;
    type Client<E: Endpoint> = Queued<E>;
}
