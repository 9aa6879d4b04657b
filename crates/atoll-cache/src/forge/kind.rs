//! The descriptor of the engine `forge`: name, number, options, constructor.

use super::{Forge, ForgeOptions, ForgePool};
use crate::engines::EngineKind;
use atoll_fabric::Endpoint;

/// [`forge`](super).
pub enum ForgeKind {}

impl EngineKind for ForgeKind {
    type Options = ForgeOptions;
    type Shared = ForgePool;
    type Client<E: Endpoint> = Forge<E>;
}
