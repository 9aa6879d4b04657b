//! The most operations that memory nodes can serve, by arithmetic, to compare a run with.

use super::profile::Profile;
use super::traffic::{Limit, VerbKind};
use atoll_fabric::Kind;

/// A verb of an operation, as far as a NIC cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerbShape {
    /// Which.
    pub verb: VerbKind,
    /// Of a READ or WRITE; 8 for atomics.
    pub bytes: u64,
    /// What memory it is to.
    pub memory: Kind,
}

impl Profile {
    /// For how long an operation of these verbs, each in a batch of its own, holds each server of
    /// one memory node's NIC, in picoseconds; the longest first. The reciprocal of the first is the
    /// most operations a second that one memory node gives; `n` of them, evenly used, give `n`
    /// times as many.
    pub fn operation_ps(&self, verbs: &[VerbShape]) -> [(Limit, u64); 4] {
        let sum = |ps: &dyn Fn(&VerbShape) -> u64| verbs.iter().map(ps).sum::<u64>();
        let link_ps = |bytes: u64| bytes * self.link_kib_ps() / 1024;
        let is_atomic = |verb: VerbKind| matches!(verb, VerbKind::CompareAndSwap | VerbKind::FetchAndAdd);
        let mut limits = [
            (Limit::Serve, sum(&|verb| self.serve_batch_ps + self.serve.of(verb.verb, verb.memory))),
            (Limit::Atomics, sum(&|verb| if is_atomic(verb.verb) { self.atomics(verb.memory).gap_ps } else { 0 })),
            (Limit::LinkIn, sum(&|verb| link_ps(self.request_bytes(verb.verb, verb.bytes)))),
            (Limit::LinkOut, sum(&|verb| link_ps(self.response_bytes(verb.verb, verb.bytes)))),
        ];
        limits.sort_by_key(|(_, ps)| std::cmp::Reverse(*ps));
        limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::profiles::CX5_100G;

    const fn read(bytes: u64) -> VerbShape {
        VerbShape { verb: VerbKind::Read, bytes, memory: Kind::Host }
    }

    #[test]
    fn small_reads_are_limited_by_the_engine_and_large_ones_by_the_link() {
        assert_eq!(CX5_100G.operation_ps(&[read(8)])[0], (Limit::Serve, 11_364));
        assert_eq!(CX5_100G.operation_ps(&[read(1024), read(8)])[0], (Limit::LinkOut, (1054 + 38) * 80));
        let swap = VerbShape { verb: VerbKind::CompareAndSwap, bytes: 8, memory: Kind::Host };
        assert_eq!(CX5_100G.operation_ps(&[swap])[0], (Limit::Atomics, 50_000));
    }
}
