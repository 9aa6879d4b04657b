//! FIFO: the object that was inserted first leaves (Belady, "A study of replacement algorithms for
//! a virtual-storage computer", 1966).

use super::{Object, Policy, Priority};

/// The policy.
#[derive(Debug)]
pub(super) struct Fifo;

impl Policy for Fifo {
    fn name(&self) -> &'static str {
        "fifo"
    }

    fn priority(&self, _now_us: u64, object: &Object, _global: u64, _extension: &[u64]) -> Priority {
        Priority::new(object.inserted_us)
    }
}
