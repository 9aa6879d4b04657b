//! GDS, GreedyDual-Size: H = L + cost / size, with the same cost for every object. It is
//! GD-Size(1), for the hit ratio, of Cao and Irani, "Cost-aware WWW proxy caching algorithms",
//! USITS 1997.

use super::{Formula, GHOSTS_ALL, Policy};

pub(super) const GDS: Policy =
    Policy { name: "gds", ghost_percent: GHOSTS_ALL, formula: Formula::Ageing(|object| 1.0 / object.bytes()) };
