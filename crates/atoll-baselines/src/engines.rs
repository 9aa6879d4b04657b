//! The list of all engines that run on any fabric: the served engines, and the baselines.
//!
//! To add a baseline: its [`EngineKind`](atoll_cache::EngineKind) in its folder, and a line in
//! [`visit`]. [`cliquemap`](crate::cliquemap) is not here: its clients need messages and a server.

use crate::glcache::GlCacheKind;
use crate::kvs::KvsKind;
use crate::queues::QueuesKind;
use atoll_cache::engines::{self, KindVisitor};

/// Shows all engines to a visitor, the served engines first. The first result ends the visit.
pub fn visit<V: KindVisitor>(visitor: &mut V) -> Option<V::Output> {
    engines::visit(visitor)
        .or_else(|| visitor.visit::<GlCacheKind>())
        .or_else(|| visitor.visit::<KvsKind>())
        .or_else(|| visitor.visit::<QueuesKind>())
}
