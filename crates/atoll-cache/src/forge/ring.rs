//! The FIFO of groups: a ring of nodes and two packed cursors. It has no lock, and no retry on the
//! cursors.
//!
//! ```text
//! a node   63        62      61 60       48 47          32 31                     0
//!          +--------+----------+-----------+--------------+-----------------------+
//!          | filled | segment  |  lap 13   | generation,  |       chunk           |
//!          |        |    2     |           | low 16       |                       |
//!          +--------+----------+-----------+--------------+-----------------------+
//!          atomics only
//! ```
//!
//! Fetch-and-add on the cursors hands out tickets and nothing else. The node of a ticket changes by
//! compare-and-swap:
//!
//! | node of ticket `p` | client | becomes |
//! |---|---|---|
//! | empty, lap of `p` | enqueuer | filled; otherwise the enqueuer takes another ticket |
//! | filled, lap of `p` or an earlier one | dequeuer | empty, lap of `p` + 1, after the dequeuer has owned the group |
//! | filled, a later lap | dequeuer | empty, that lap + 1: the same, by a late dequeuer |
//! | empty, lap of `p` or an earlier one | dequeuer | empty, lap of `p` + 1: the enqueuer that held the ticket finds it expired and takes another |
//! | empty, a later lap | dequeuer | unchanged |
//!
//! Invariants:
//! - A client empties a node only if it owns the node's group, or has found that the node is stale.
//!   It owns the group by a CAS of the chunk's descriptor, Queued -> Leaving. So a queued group has
//!   its node as long as it is queued. The exception is the moment between Queued and the node,
//!   when the group is put in. Its descriptor names the enqueuer then. If that client is dead, a
//!   repairer puts the group in.
//! - A dequeuer owns a group only by the node that the group has now. It READs the node again
//!   behind the descriptor (see `leaving`).
//! - A node never waits for a lap that has passed. Otherwise no ticket would ever fit it again.
//!
//! A client that stops between its ticket and its node stops no other client. A head that overran
//! the tail only wastes tickets, and a slow client's node is found one lap later. A dequeuer that
//! dies before it has emptied the node of its ticket leaves that to a repairer. Otherwise an
//! enqueuer would fill the node behind the head.
//!
//! Positions are 32 bits and wrap, and laps with them. A ring of more than 2^19 nodes has fewer
//! than 13 bits of laps. Once in 2^32 groups the head's carry into the tail makes one position that
//! no enqueuer fills: the fourth row.
//!
//! A node may outlive its group, because a cleaner leaves the node of a cleaned group behind. The
//! dequeuer finds the chunk in another state or of another generation, and drops the node.

use super::layout::Queue;
use super::technique::{Section, Technique};
use super::{Forge, Hole};
use crate::CacheError;
use atoll_fabric::{Batch, Buffer, Endpoint};
use atoll_pool::ChunkId;

const FILLED: u64 = 1 << 63;
/// Laps of a short ring, where a position has more lap bits than a node.
const LAP_MASK: u32 = 0x1fff;
/// Most tickets that clients have taken from an empty queue: each READs the cursors before it takes
/// one.
const OVERRUN_MAX: u32 = 1 << 20;
/// Nodes READ at once. A ring may be longer than one verb can READ.
const NODES_AT_ONCE: u32 = 4096;

/// A group in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its chunk; unchecked if it was just read.
    pub chunk: ChunkId,
    /// Low bits of the chunk's generation.
    pub generation: u16,
    /// Virtual segment: how often the group is put back before it is evicted.
    pub segment: u8,
}

impl Node {
    fn word(self, lap: u32) -> u64 {
        FILLED
            | u64::from(self.segment & 3) << 61
            | u64::from(lap) << 48
            | u64::from(self.generation) << 32
            | u64::from(self.chunk.0)
    }

    /// The node that a word holds, if it is filled.
    pub fn from_word(word: u64) -> Option<Self> {
        (word & FILLED != 0).then_some(Self {
            chunk: ChunkId(word as u32),
            generation: (word >> 32) as u16,
            segment: (word >> 61) as u8 & 3,
        })
    }
}

/// A filled node, as the client found it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) node: Node,
    pub(super) position: u32,
    pub(super) word: u64,
}

/// A filled node of a ring that was walked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub(super) queue: Queue,
    pub(super) head: Head,
    /// Whether the node is between the queue's cursors.
    pub(super) between: bool,
}

/// A queue's cursors at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursors {
    /// The next position to dequeue.
    pub head: u32,
    /// The next position to enqueue.
    pub tail: u32,
}

impl Cursors {
    /// The cursors of a word: tail 32 | head 32.
    pub fn from_word(word: u64) -> Self {
        Self { head: word as u32, tail: (word >> 32) as u32 }
    }

    fn word(self) -> u64 {
        u64::from(self.tail) << 32 | u64::from(self.head)
    }

    /// Nodes between the cursors; 0 if the head overran the tail by a few tickets. No client moves
    /// the head farther ahead. Such a head gives a large number.
    pub fn len(self) -> u32 {
        let distance = self.tail.wrapping_sub(self.head);
        if self.head.wrapping_sub(self.tail) <= OVERRUN_MAX { 0 } else { distance }
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// The modulus of laps, less one.
    fn lap_mask(&self) -> u32 {
        LAP_MASK & u32::MAX >> self.shared.settings.ring_log2
    }

    fn lap(&self, position: u32) -> u32 {
        position >> self.shared.settings.ring_log2 & self.lap_mask()
    }

    pub(super) fn node_address(&self, queue: Queue, position: u32) -> atoll_fabric::Address {
        let index = position & ((1 << self.shared.settings.ring_log2) - 1);
        self.shared.layout.ring(queue).add(u64::from(index) * 8)
    }

    /// Both queues' cursors.
    pub async fn cursors(&self) -> Result<[Cursors; 2], CacheError> {
        let mut batch = Batch::new();
        let words = Queue::ALL.map(|queue| batch.read_word(self.shared.layout.cursors(queue)));
        self.client.endpoint.post(&mut batch).await?;
        Ok(words.map(|word| Cursors::from_word(batch.word(word))))
    }

    /// Takes a ticket by fetch-and-add: adds `by` to the cursors, and returns the old cursors.
    pub async fn add_to_cursors(&self, queue: Queue, by: u64) -> Result<Cursors, CacheError> {
        let mut batch = Batch::new();
        let ticket = batch.fetch_and_add(self.shared.layout.cursors(queue), by);
        self.client.endpoint.post(&mut batch).await?;
        Ok(Cursors::from_word(batch.word(ticket)))
    }

    /// Puts a group at the tail.
    pub(super) async fn enqueue(&self, queue: Queue, node: Node) -> Result<(), CacheError> {
        self.technique.lock(self, Section::Queue(queue)).await?;
        let put = self.put_at_tail(queue, node).await;
        self.technique.unlock(self, Section::Queue(queue));
        put
    }

    async fn put_at_tail(&self, queue: Queue, node: Node) -> Result<(), CacheError> {
        // The ring is twice as long as the pool has chunks, so that some ticket of the next lap
        // finds its node empty.
        for _ in 0..4u64 << self.shared.settings.ring_log2 {
            let position = self.technique.take_ticket(self, queue, 1 << 32).await?.tail;
            let lap = self.lap(position);
            let mut batch = Batch::new();
            let swap = batch.compare_and_swap(self.node_address(queue, position), u64::from(lap) << 48, node.word(lap));
            self.client.endpoint.post(&mut batch).await?;
            if batch.swapped(swap) {
                return Ok(());
            }
        }
        Err(CacheError::Damaged { what: "a queue without an empty node" })
    }

    /// Takes the ticket at the head and READs its node. `None` if the queue or the position was
    /// empty. The caller READs the cursors again before it concludes anything. The node is still in
    /// the ring: see [`Forge::empty_node`].
    pub(super) async fn dequeue(&self, queue: Queue) -> Result<Option<Head>, CacheError> {
        self.technique.lock(self, Section::Queue(queue)).await?;
        let taken = self.take_from_head(queue).await;
        self.technique.unlock(self, Section::Queue(queue));
        taken
    }

    async fn take_from_head(&self, queue: Queue) -> Result<Option<Head>, CacheError> {
        let position = self.technique.take_ticket(self, queue, 1).await?.head;
        let address = self.node_address(queue, position);
        loop {
            let mut batch = Batch::new();
            let word = batch.read_word(address);
            self.client.endpoint.post(&mut batch).await?;
            let word = batch.word(word);
            if let Some(node) = Node::from_word(word) {
                return Ok(Some(Head { node, position, word }));
            }
            if self.lap_behind(position, word) == self.lap_of(word) || self.is_open(Hole::UnfilledNode) {
                return Ok(None);
            }
            // The enqueuer with this ticket has not filled the node: it will find the ticket
            // expired.
            if self.empty_node(queue, position, word).await? {
                return Ok(None);
            }
        }
    }

    fn lap_of(&self, word: u64) -> u32 {
        (word >> 48) as u32 & self.lap_mask()
    }

    /// The lap that the node with this word waits for once the ticket `position` has passed.
    fn lap_behind(&self, position: u32, word: u64) -> u32 {
        let (lap, found, mask) = (self.lap(position), self.lap_of(word), self.lap_mask());
        let is_later = lap.wrapping_sub(found) & mask > mask / 2;
        match Node::from_word(word) {
            None if is_later => found,
            _ => (if is_later { found } else { lap } + 1) & mask,
        }
    }

    /// Makes the node of `position` wait for its next lap, if its word is still this one.
    pub(super) async fn empty_node(&self, queue: Queue, position: u32, word: u64) -> Result<bool, CacheError> {
        let next = self.lap_behind(position, word);
        let mut batch = Batch::new();
        let swap = batch.compare_and_swap(self.node_address(queue, position), word, u64::from(next) << 48);
        self.client.endpoint.post(&mut batch).await?;
        Ok(batch.swapped(swap))
    }

    /// Empties every node that waits for a ticket which the head has passed. A living dequeuer with
    /// that ticket does the same; a dead one cannot.
    pub(super) async fn take_back_tickets(&self) -> Result<(), CacheError> {
        if self.is_open(Hole::KeptTicket) {
            return Ok(());
        }
        let (length, ring_log2) = (1u32 << self.shared.settings.ring_log2, self.shared.settings.ring_log2);
        // The number of positions that a node can distinguish, less one.
        let tellable = self.lap_mask() << ring_log2 | (length - 1);
        let cursors = self.cursors().await?;
        for queue in Queue::ALL {
            let last = cursors[queue as usize].head.wrapping_sub(1);
            for (index, word) in (0..length).zip(self.node_words(queue, 0, length).await?) {
                let position = self.lap_of(word) << ring_log2 | index;
                let has_passed = last.wrapping_sub(position) & tellable <= tellable / 2;
                if Node::from_word(word).is_none() && has_passed {
                    self.empty_node(queue, position, word).await?;
                }
            }
        }
        Ok(())
    }

    /// Every filled node of both rings, and whether it is between its queue's cursors.
    pub(super) async fn all_nodes(&self) -> Result<Vec<Standing>, CacheError> {
        let length = 1u32 << self.shared.settings.ring_log2;
        let mut standing = Vec::new();
        for queue in Queue::ALL {
            let words = self.node_words(queue, 0, length).await?;
            // READ afterwards, so that a node which was filled meanwhile is between them.
            let cursors = self.cursors().await?[queue as usize];
            for (index, word) in words.into_iter().enumerate() {
                let Some(node) = Node::from_word(word) else { continue };
                let ahead = (index as u32).wrapping_sub(cursors.head) & (length - 1);
                let between = ahead < cursors.len();
                let position = cursors.head.wrapping_add(ahead).wrapping_sub(if between { 0 } else { length });
                standing.push(Standing { queue, head: Head { node, position, word }, between });
            }
        }
        Ok(standing)
    }

    /// Moves a head that is more than a ring behind the tail to one ring behind it.
    pub(super) async fn catch_up(&self, queue: Queue, cursors: Cursors) -> Result<(), CacheError> {
        let head = cursors.tail.wrapping_sub(1 << self.shared.settings.ring_log2);
        let mut batch = Batch::new();
        let moved = Cursors { head, ..cursors };
        batch.compare_and_swap(self.shared.layout.cursors(queue), cursors.word(), moved.word());
        Ok(self.client.endpoint.post(&mut batch).await?)
    }

    /// The nodes at `count` positions from `first` on, as they are.
    pub(super) async fn nodes(&self, queue: Queue, first: u32, count: u32) -> Result<Vec<Option<Node>>, CacheError> {
        Ok(self.node_words(queue, first, count).await?.into_iter().map(Node::from_word).collect())
    }

    async fn node_words(&self, queue: Queue, first: u32, count: u32) -> Result<Vec<u64>, CacheError> {
        let length = 1u32 << self.shared.settings.ring_log2;
        let mut words = Vec::with_capacity(count as usize);
        let mut position = first;
        while (words.len() as u32) < count {
            let here = (count - words.len() as u32).min(length - (position & (length - 1))).min(NODES_AT_ONCE);
            let mut buffer = Buffer::new();
            buffer.resize(here as usize * 8);
            let read = self.client.endpoint.read(self.node_address(queue, position), buffer).await?;
            words.extend_from_slice(read.words());
            position = position.wrapping_add(here);
        }
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_reads_back_and_an_empty_one_is_none() {
        let node = Node { chunk: ChunkId(u32::MAX), generation: 0xffff, segment: 3 };
        assert_eq!(Node::from_word(node.word(LAP_MASK)), Some(node));
        assert_eq!(Node::from_word(u64::from(LAP_MASK) << 48), None);
    }

    #[test]
    fn cursors_measure_across_the_wrap() {
        assert_eq!(Cursors { head: u32::MAX, tail: 2 }.len(), 3);
        assert_eq!(Cursors { head: 5, tail: 2 }.len(), 0);
    }
}
