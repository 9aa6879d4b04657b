//! GDSF, GreedyDual-Size with frequency: H = L + frequency * cost / size, with the same cost for
//! every object. After Cherkasova, "Improving WWW proxies performance with
//! Greedy-Dual-Size-Frequency caching policy", HP Laboratories 1998.

use super::{Formula, GHOSTS_ALL, Policy};

pub(super) const GDSF: Policy = Policy {
    name: "gdsf",
    ghost_percent: GHOSTS_ALL,
    formula: Formula::Ageing(|object| object.frequency as f64 / object.bytes()),
};
