//! LIRS: evicts the object with the longest inter-reference recency. After Jiang and Zhang, "LIRS:
//! an efficient low inter-reference recency set replacement policy to improve buffer cache
//! performance", SIGMETRICS 2002.
//!
//! | term | meaning |
//! |---|---|
//! | inter-reference recency, distance | the time between an object's last two accesses |
//! | recency | the time since its last access |
//!
//! The paper's stack compares one object's inter-reference recency with the recency of the objects
//! that have proven themselves. With samples, the comparison is direct. An object shows the larger
//! of the two, and the object that shows the largest is evicted. The extension word is the
//! inter-reference recency in microseconds:
//!
//! | object | the paper | word | shown |
//! |---|---|---|---|
//! | accessed once, no ghost | HIR, its distance infinite | 0 | is evicted before all others, the least recently used first |
//! | returned while its ghost lived | was in the stack: becomes LIR | 1 | its recency |
//! | accessed again | LIR, if its distance is below the largest recency of a LIR | the distance | the larger of distance and recency |

use super::{Formula, GHOSTS_ALL, Policy, Priority};

/// No second access yet.
const ONCE: u64 = 0;
/// The distance is known to be short, but not how short.
const SHORT: u64 = 1;

pub(super) const LIRS: Policy = Policy {
    name: "lirs",
    ghost_percent: GHOSTS_ALL,
    formula: Formula::Word {
        accessed: |access, _word| match (access.before, access.ghost) {
            (Some(before), _) => before.idle_us(access.now_us).max(SHORT),
            (None, Some(_)) => SHORT,
            (None, None) => ONCE,
        },
        priority: |now_us, object, word| {
            let shown = if word == ONCE { u64::MAX } else { word.max(object.idle_us(now_us)) };
            Priority::reversed(shown).then(object.accessed_us)
        },
    },
};
