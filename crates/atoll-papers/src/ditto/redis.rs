//! A model of the Redis cluster that Ditto's Fig. 1, 13 and 15 have: a process and core for each
//! node, keys in slots, slots on nodes, clients in a closed loop.
//!
//! | constant | value | from |
//! |---|---|---|
//! | a request at its node | 8.24 us | 121,359 GETs and 121,655 SETs a second over a network, without pipelining: `redis-benchmark` of cloud.tencent.com, article 1997317; elsewhere 138,889 (tokio-rs/mini-redis, issue 1), so 7.2 us |
//! | a round trip of a client | 30 us | assumed: as in `tcp-25g` |
//! | moving a key | 59 us, one after the other | 1,000,001 keys of a slot in 57.6 to 59.7 s, 1000 or more in a pipeline: redis/redis, pull request 2711 |
//! | what a moved key takes of both nodes | as long as a request | assumed |
//!
//! A node serves requests in the order in which they come. Evictions, the cluster's own messages
//! and redirections of clients are not in the model.

use atoll_lab::latency::Latencies;
use atoll_lab::load::{Load, Stream};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const SLOTS: usize = 16_384;
const REQUEST_NS: u64 = 8_240;
const ROUND_TRIP_NS: u64 = 30_000;
const MOVED_KEY_NS: u64 = 59_000;
/// In the place of a client's number: the next key is moved.
const MOVER: u32 = u32::MAX;
/// Instead of a time: nothing is answered.
const NEVER: u64 = u64::MAX;

/// The cluster with its clients.
pub(super) struct Cluster {
    /// By slot, its node.
    owners: Vec<u16>,
    /// By node, from when on it is free.
    free_ns: Vec<u64>,
    clients: Vec<Stream>,
    /// When a client has its answer and sends its next request, or the next key is moved; who, and
    /// when the client sent what is answered.
    due: BinaryHeap<Reverse<(u64, u32, u64)>>,
    now_ns: u64,
    /// Slots that are still to be moved, the next one last, and to which node.
    moves: Vec<(u16, u16)>,
    /// Keys of the slot that is being moved that are still at its old node.
    keys_left: u64,
    keys_per_slot: u64,
}

/// What was served in a time.
#[derive(Clone, Debug, Default)]
pub(super) struct Span {
    pub(super) mops: f64,
    pub(super) p99_us: f64,
}

impl Cluster {
    /// Slots spread evenly over the nodes, each with so many keys.
    pub(super) fn new(load: &dyn Load, nodes: u16, clients: u16, keys_per_slot: u64) -> Self {
        let (streams, all) = (0..u64::from(clients), u64::from(clients));
        Self {
            owners: (0..SLOTS).map(|slot| slot as u16 % nodes).collect(),
            free_ns: vec![0; usize::from(nodes)],
            clients: streams.map(|client| load.stream(client, all)).collect(),
            due: (0..u32::from(clients)).map(|client| Reverse((0, client, NEVER))).collect(),
            now_ns: 0,
            moves: Vec::new(),
            keys_left: 0,
            keys_per_slot,
        }
    }

    /// Serves for so long.
    pub(super) fn serve(&mut self, ns: u64) -> Span {
        let (mut latencies, mut requests) = (Latencies::default(), 0_u64);
        let until_ns = self.now_ns + ns;
        while let Some(Reverse((at_ns, who, sent_ns))) = self.due.peek().copied() {
            if at_ns >= until_ns {
                break;
            }
            self.due.pop();
            if who == MOVER {
                self.move_key(at_ns);
                continue;
            }
            if sent_ns != NEVER {
                latencies.record(at_ns - sent_ns);
                requests += 1;
            }
            let Some(request) = self.clients[who as usize].next() else { continue };
            let slot = (request.key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as usize;
            let node = usize::from(self.owners[slot]);
            let ended_ns = self.occupy(node, at_ns + ROUND_TRIP_NS / 2) + ROUND_TRIP_NS / 2;
            self.due.push(Reverse((ended_ns, who, at_ns)));
        }
        self.now_ns = until_ns;
        Span { mops: requests as f64 * 1e3 / ns as f64, p99_us: latencies.quantile(0.99) as f64 / 1e3 }
    }

    /// A node does what takes as long as a request; gives when it has ended.
    fn occupy(&mut self, node: usize, at_ns: u64) -> u64 {
        self.free_ns[node] = self.free_ns[node].max(at_ns) + REQUEST_NS;
        self.free_ns[node]
    }

    /// Spreads the slots evenly over so many nodes, and serves meanwhile. Gives what was served in
    /// each time of `span_ns`, and how long the keys took.
    pub(super) fn migrate(&mut self, nodes: u16, span_ns: u64) -> (Vec<Span>, u64) {
        let to = |slot: usize| slot as u16 % nodes;
        let mut moves: Vec<(u16, u16)> = (0..SLOTS).map(|slot| (slot as u16, to(slot))).collect();
        moves.retain(|(slot, to)| self.owners[usize::from(*slot)] != *to);
        // One node's slots after another's, as the cluster's own tool does it.
        moves.sort_by_key(|(slot, _)| Reverse((self.owners[usize::from(*slot)], *slot)));
        let keys = moves.len() as u64 * self.keys_per_slot;
        self.free_ns.resize(usize::from(nodes).max(self.free_ns.len()), 0);
        (self.moves, self.keys_left) = (moves, self.keys_per_slot);
        self.due.push(Reverse((self.now_ns, MOVER, NEVER)));
        let mut spans = Vec::new();
        while !self.moves.is_empty() {
            spans.push(self.serve(span_ns));
        }
        (spans, keys * MOVED_KEY_NS)
    }

    fn move_key(&mut self, at_ns: u64) {
        let Some((slot, to)) = self.moves.last().copied() else { return };
        for node in [self.owners[usize::from(slot)], to] {
            self.occupy(usize::from(node), at_ns);
        }
        self.keys_left -= 1;
        if self.keys_left == 0 {
            self.owners[usize::from(slot)] = to;
            self.moves.pop();
            self.keys_left = self.keys_per_slot;
        }
        if !self.moves.is_empty() {
            self.due.push(Reverse((at_ns + MOVED_KEY_NS, MOVER, NEVER)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Options;
    use crate::bench::loads::ycsb;

    const SPAN_NS: u64 = 20_000_000;

    fn cluster(nodes: u16, clients: u16) -> Cluster {
        Cluster::new(&*ycsb("ycsb-c", 100_000, 1 << 30, &Options::default()).unwrap(), nodes, clients, 1)
    }

    #[test]
    fn one_node_serves_a_request_after_the_other_and_the_hottest_bounds_many() {
        let one = cluster(1, 64).serve(SPAN_NS);
        assert!((one.mops - 1e3 / REQUEST_NS as f64).abs() < 0.001, "{one:?}");
        let alone = cluster(32, 1).serve(SPAN_NS);
        assert!((alone.mops - 1e3 / (REQUEST_NS + ROUND_TRIP_NS) as f64).abs() < 0.001, "{alone:?}");
        let many = cluster(32, 512).serve(SPAN_NS);
        assert!(many.mops > 5.0 * one.mops && many.mops < 20.0 * one.mops, "{many:?} {one:?}");
    }

    #[test]
    fn a_migration_takes_its_time_costs_throughput_and_brings_more_nodes() {
        let mut cluster = cluster(8, 256);
        let before = cluster.serve(SPAN_NS);
        let (spans, took_ns) = cluster.migrate(16, SPAN_NS);
        assert_eq!(took_ns, SLOTS as u64 / 2 * MOVED_KEY_NS);
        assert_eq!(spans.len() as u64, took_ns.div_ceil(SPAN_NS));
        assert!(spans.iter().any(|span| span.mops < before.mops), "{spans:?}");
        let after = cluster.serve(SPAN_NS);
        assert!(after.mops > before.mops, "{after:?} {before:?}");
        let of = |node: u16| cluster.owners.iter().filter(|owner| **owner == node).count();
        assert!((0..16).all(|node| of(node) == SLOTS / 16));
    }
}
