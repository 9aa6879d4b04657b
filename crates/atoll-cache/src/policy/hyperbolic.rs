//! Hyperbolic: evicts the object with the fewest accesses per time in the cache and byte. It was
//! made for sampling. After Blankstein, Sen and Freedman, "Hyperbolic caching: flexible caching for
//! web applications", USENIX ATC 2017, sections 2 and 3.

use super::{Formula, GHOSTS_ALL, Policy, Priority};

pub(super) const HYPERBOLIC: Policy = Policy {
    name: "hyperbolic",
    ghost_percent: GHOSTS_ALL,
    formula: Formula::Plain(|now_us, object| {
        // An object of this very microsecond has been there for one.
        let resident_us = now_us.saturating_sub(object.inserted_us).max(1) as f64;
        Priority::real(object.frequency as f64 / resident_us / object.bytes()).then(object.accessed_us)
    }),
};
