//! The list of engines whose cases are drawn and explored.

use crate::faulty::{FaultyCase, RunSummary};
use crate::small_case::{Bounds, SmallCase};
use crate::subject::Subject;
use crate::subjects::{DittoSubject, ForgeSubject, GlCacheSubject, KvsSubject, QueuesSubject};
use atoll_sim::explore::{self, Decisions, Explored};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Makes the list of engines, each with its case, and what evaluates an expression in which the
/// case of an engine has a name.
macro_rules! simulated {
    ($(#[doc = $what:literal] $(#[$attribute:meta])* $Engine:ident: $Case:ty,)*) => {
        /// The engines, as users name them.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum SimulatedEngine {
            $(#[doc = $what] $(#[$attribute])* $Engine,)*
        }

        impl SimulatedEngine {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$Engine,)*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$Engine => <$Case>::NAME,)*
                }
            }

            /// What it is, in a line.
            pub fn what(self) -> &'static str {
                match self {
                    $(Self::$Engine => $what.trim().trim_end_matches('.'),)*
                }
            }
        }

        macro_rules! on_subject {
            ($engine:expr, $Subject:ident => $body:expr) => {
                match $engine {
                    $(SimulatedEngine::$Engine => {
                        type $Subject = $Case;
                        $body
                    })*
                }
            };
        }
    };
}

simulated! {
    /// FORGE.
    #[default]
    Forge: ForgeSubject,
    /// FORGE's groups; decision trees choose the group that is evicted.
    GlCacheDm: GlCacheSubject,
    /// Ditto.
    Ditto: DittoSubject,
    /// A table of objects that tracks nothing and evicts at random.
    Kvs: KvsSubject,
    /// A table of objects with queues in the pool: any of them.
    Queues: QueuesSubject,
}

impl SimulatedEngine {
    /// Runs the case that a seed draws; a panic is a failure like any other.
    pub fn run_seed(self, seed: u64) -> Result<RunSummary, String> {
        let run = || on_subject!(self, S => FaultyCase::<S>::crowded(seed).run(seed));
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            Err(text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default())
        })
    }

    /// Runs the case that a seed draws. Returns the case, its result, and its last events in words.
    pub fn replay_seed(self, seed: u64, events: usize) -> (String, Result<RunSummary, String>, String) {
        on_subject!(self, S => replay_seed::<S>(seed, events))
    }

    /// Runs the interleavings of a small case that lie within the bounds.
    pub fn explore(self, case: &SmallCase, bounds: &Bounds) -> Explored {
        on_subject!(self, S => case.explore::<S>(bounds))
    }

    /// Runs one interleaving of a small case; returns its result and its events in words.
    pub fn replay_decisions(
        self,
        case: &SmallCase,
        bounds: &Bounds,
        decisions: &Decisions,
    ) -> (Result<(), String>, String) {
        on_subject!(self, S => explore::replay(&case.options::<S>(bounds), decisions, |sim| case.run::<S>(sim)))
    }
}

fn replay_seed<S: Subject>(seed: u64, events: usize) -> (String, Result<RunSummary, String>, String) {
    let faulty = FaultyCase::<S>::crowded(seed);
    let (ran, trace) = faulty.run_traced(seed, events);
    (format!("{faulty:#?}"), ran, trace)
}
