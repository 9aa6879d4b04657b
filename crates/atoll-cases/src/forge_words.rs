//! The words of a `forge` pool, which tests read and change behind the engine's back.

use atoll_cache::forge::layout::{BUCKET_SLOTS, ForgeLayout};
use atoll_cache::forge::{ForgePool, Queue};
use atoll_fabric::Address;
use atoll_sim::Sim;
use std::sync::Arc;

/// The addresses of a `forge` pool's words.
pub struct ForgePoolWords {
    /// The pool.
    pub pool: Arc<ForgePool>,
}

impl ForgePoolWords {
    fn layout(&self) -> ForgeLayout {
        ForgeLayout::new(self.pool.pool(), self.pool.settings()).expect("the pool was made with it")
    }

    /// The addresses of the index's slots.
    pub fn slots(&self) -> impl Iterator<Item = Address> {
        let layout = self.layout();
        (0..u64::from(self.pool.settings().buckets) * BUCKET_SLOTS as u64).map(move |slot| layout.slot(slot))
    }

    /// The address of a queue's cursors.
    pub fn cursors(&self, queue: Queue) -> Address {
        self.layout().cursors(queue)
    }

    /// Whether a word is a node of a ring.
    pub fn is_node(&self, at: Address) -> bool {
        let bytes = 8u64 << self.pool.settings().ring_log2;
        Queue::ALL.iter().map(|queue| self.layout().ring(*queue)).any(|first| {
            let offsets = first.offset()..first.offset() + bytes;
            (first.node(), first.region()) == (at.node(), at.region()) && offsets.contains(&at.offset())
        })
    }

    /// Makes both rings look as if so many groups had passed through them.
    pub fn turn_rings(&self, sim: &Sim, position: u32) {
        let layout = self.layout();
        let ring_log2 = self.pool.settings().ring_log2;
        for queue in Queue::ALL {
            sim.poke_word(layout.cursors(queue), u64::from(position) << 32 | u64::from(position));
            let (length, lap_mask) = (1u32 << ring_log2, 0x1fff & u32::MAX >> ring_log2);
            for ahead in 0..length {
                // A node that was emptied waits for the lap after its own.
                let before = position.wrapping_add(ahead).wrapping_sub(length);
                let lap = u64::from((before >> ring_log2).wrapping_add(1) & lap_mask);
                sim.poke_word(layout.ring(queue).add(u64::from(before & (length - 1)) * 8), lap << 48);
            }
        }
    }
}
