//! What the steps of a protocol cost a client's processor, from a table that was measured on the
//! shared-memory fabric.
//! The table is `profiles/cpu.toml` in this crate. Its head states when, where and by which command
//! (`atoll lab costs`) it was measured. The additional cost of a network to the processor is in its
//! profile ([`ClientTimes`](super::profile::ClientTimes)).

use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// Processor time by step, in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuCosts {
    /// A task is polled: what the awaits of a protocol cost.
    pub poll_ps: u64,
    /// A batch is made and posted.
    pub batch_ps: u64,
    /// A verb is added to it, and checked.
    pub verb_ps: u64,
    /// The result of a verb is taken.
    pub completion_ps: u64,
    /// 1024 bytes are copied between buffers at home.
    pub copy_kib_ps: u64,
    /// A key of 16 bytes is hashed.
    pub hash_ps: u64,
}

impl CpuCosts {
    /// No step costs anything: for measuring a network alone.
    pub const fn none() -> Self {
        Self { poll_ps: 0, batch_ps: 0, verb_ps: 0, completion_ps: 0, copy_kib_ps: 0, hash_ps: 0 }
    }

    /// The committed table.
    pub fn measured() -> Self {
        static MEASURED: LazyLock<CpuCosts> = LazyLock::new(|| {
            toml::from_str(include_str!("../../profiles/cpu.toml")).expect("the committed table has every cost")
        });
        *MEASURED
    }
}

impl Default for CpuCosts {
    fn default() -> Self {
        Self::measured()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_table_is_whole_and_its_costs_are_those_of_a_processor() {
        let costs = CpuCosts::measured();
        for ps in [costs.poll_ps, costs.batch_ps, costs.verb_ps, costs.completion_ps, costs.copy_kib_ps, costs.hash_ps]
        {
            assert!((100..1_000_000).contains(&ps), "{costs:?}");
        }
    }
}
