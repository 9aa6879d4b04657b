//! GDS, GreedyDual-Size: H = L + cost / size, with the same cost for every object (Cao and Irani,
//! "Cost-aware WWW proxy caching algorithms", USITS 1997: GD-Size(1), which looks at the hit
//! ratio).

use super::{Formula, Policy};

pub(super) const GDS: Policy = Policy { name: "gds", formula: Formula::Ageing(|object| 1.0 / object.bytes()) };
