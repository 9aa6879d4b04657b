//! The list of all engines that run on any fabric: the served engines, and the baselines.
//!
//! To add a baseline: its [`EngineKind`](atoll_cache::EngineKind) in its folder, and a line in
//! [`all_engines`](crate::all_engines). [`cliquemap`](crate::cliquemap) is not here: its clients
//! need messages and a server.

use atoll_cache::engines::KindVisitor;
pub use atoll_cache::served_engines;

/// The list of all engines: gives its lines to a macro.
#[macro_export]
macro_rules! all_engines {
    ($then:ident!) => {
        $crate::engines::served_engines! {
            $then!
            /// FORGE's groups with GLCache's eviction.
            GlCacheDm: $crate::glcache::GlCacheKind,
            /// A table of objects that tracks nothing and evicts at random.
            Kvs: $crate::kvs::KvsKind,
            /// A table of objects with queues in the pool.
            Queues: $crate::queues::QueuesKind,
        }
    };
}

/// Shows all engines to a visitor, the served engines first. The first result ends the visit.
pub fn visit<V: KindVisitor>(visitor: &mut V) -> Option<V::Output> {
    macro_rules! in_turn {
        ($($(#[$doc:meta])* $Engine:ident: $Kind:ty,)*) => {
            None$(.or_else(|| visitor.visit::<$Kind>()))*
        };
    }
    all_engines!(in_turn!)
}
