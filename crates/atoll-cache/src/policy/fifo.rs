//! FIFO: the object that was inserted first is evicted (Belady, "A study of replacement algorithms
//! for a virtual-storage computer", 1966).

use super::{Formula, Policy, Priority};

pub(super) const FIFO: Policy =
    Policy { name: "fifo", formula: Formula::Plain(|_now_us, object| Priority::new(object.inserted_us)) };
