//! The engines of the list as cases see them: each is drawn and explored as its [`Subject`].

use crate::faulty::{FaultyCase, RunSummary};
use crate::small_case::{Bounds, SmallCase};
use crate::subject::Subject;
use atoll_baselines::all_engines;
use atoll_cache::engines::{EngineChoices, EngineIdentity, EngineKind};
use atoll_sim::explore::{self, Decisions, Explored};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An engine of the list, and how it is put under test.
pub trait Simulated: EngineKind {
    /// The engine under test.
    type Subject: Subject;
}

/// Makes the engines from the list, and what evaluates an expression in which an engine's subject
/// has a name.
macro_rules! simulated {
    ($($(#[$doc:meta])* $Engine:ident: $Kind:ty,)*) => {
        /// The engines, as users name them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum SimulatedEngine {
            $($(#[$doc])* $Engine,)*
        }

        impl SimulatedEngine {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$Engine,)*];

            /// How users name it, and its forms.
            pub fn identity(self) -> EngineIdentity {
                match self {
                    $(Self::$Engine => <$Kind as EngineKind>::Options::ENGINE,)*
                }
            }
        }

        macro_rules! on_subject {
            ($engine:expr, $Subject:ident => $body:expr) => {
                match $engine {
                    $(SimulatedEngine::$Engine => {
                        type $Subject = <$Kind as Simulated>::Subject;
                        $body
                    })*
                }
            };
        }
    };
}

all_engines!(simulated!);

impl Default for SimulatedEngine {
    /// The engine that is shipped.
    fn default() -> Self {
        Self::Forge
    }
}

impl SimulatedEngine {
    /// Its name.
    pub fn name(self) -> &'static str {
        self.identity().name
    }

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
