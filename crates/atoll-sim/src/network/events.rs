//! What is to happen, in the order of virtual time; at the same time in the order in which it was decided.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// The task of a lane is polled.
    Poll(u32),
    /// A batch has been rung in at its compute node's NIC.
    Doorbell(u32),
    /// A verb of a batch has come to the NIC of its node.
    Request(u32, u8),
    /// The response to a verb of a batch has come to its compute node's NIC.
    Response(u32, u8),
    /// The completion of a batch can be seen by its client.
    Completion(u32),
}

/// Events to come.
#[derive(Default)]
pub(crate) struct Events {
    /// Time, number, event: numbers differ, so that the event itself never decides.
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    made: u64,
}

impl Events {
    #[inline]
    pub(crate) fn add(&mut self, at: u64, event: Event) {
        self.made += 1;
        self.heap.push(Reverse((at, self.made, event)));
    }

    /// The time of the next one.
    #[inline]
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes the next one, with its time.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<(u64, Event)> {
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
    }
}
