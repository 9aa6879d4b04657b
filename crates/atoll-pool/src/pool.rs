//! A pool, as one process has it open.

use crate::{Layout, PoolSettings};

/// A formatted pool: its settings and layout, checked. Every thread uses it with its own endpoint.
#[derive(Clone, Debug)]
pub struct Pool {
    /// What all processes agree on.
    pub settings: PoolSettings,
    /// Where everything is.
    pub layout: Layout,
    /// What the regions of its nodes know each other by: random, made with the pool.
    pub id: u64,
}

impl Pool {
    /// Bytes of all regions that this process knows.
    pub fn capacity_bytes(&self) -> u64 {
        let added = (self.settings.nodes as u8..self.layout.nodes_known()).filter_map(|node| {
            let chunks = self.layout.chunks_of(node)?.len() as u32;
            Some(self.layout.member_end(node, chunks))
        });
        self.settings.capacity_bytes + added.sum::<u64>()
    }
}
