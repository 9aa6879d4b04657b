//! The list of engines whose cases are drawn and explored.

use crate::explored::{Bounds, SmallCase};
use crate::subject::{Dittoed, Forged, Learned, Queueing, Stored, Subject};
use crate::turmoil::{Ran, Turmoil};
use atoll_sim::explore::{self, Decisions, Explored};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The engines, as users name them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SimulatedEngine {
    /// FORGE.
    #[default]
    Forge,
    /// FORGE's groups, of which those go that trees say are worth least.
    GlCacheDm,
    /// Ditto.
    Ditto,
    /// A table of objects that tracks nothing and evicts at random.
    Kvs,
    /// A table of objects with queues in the pool: any of them.
    Queues,
}

/// Evaluates an expression in which the subject of an engine has a name.
macro_rules! on_subject {
    ($engine:expr, $Subject:ident => $body:expr) => {
        match $engine {
            SimulatedEngine::Forge => on_subject!(@ Forged, $Subject => $body),
            SimulatedEngine::GlCacheDm => on_subject!(@ Learned, $Subject => $body),
            SimulatedEngine::Ditto => on_subject!(@ Dittoed, $Subject => $body),
            SimulatedEngine::Kvs => on_subject!(@ Stored, $Subject => $body),
            SimulatedEngine::Queues => on_subject!(@ Queueing, $Subject => $body),
        }
    };
    (@ $this:ident, $Subject:ident => $body:expr) => {{
        type $Subject = $this;
        $body
    }};
}

impl SimulatedEngine {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Forge, Self::GlCacheDm, Self::Ditto, Self::Kvs, Self::Queues];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forge => "forge",
            Self::GlCacheDm => "glcache-dm",
            Self::Ditto => "ditto",
            Self::Kvs => "kvs",
            Self::Queues => "queues",
        }
    }

    /// What it is, in a line.
    pub fn what(self) -> &'static str {
        match self {
            Self::Forge => "FORGE",
            Self::GlCacheDm => "FORGE's groups, of which those go that trees say are worth least",
            Self::Ditto => "Ditto",
            Self::Kvs => "A table of objects that tracks nothing and evicts at random",
            Self::Queues => "A table of objects with queues in the pool: any of them",
        }
    }

    /// Runs the case that a seed draws; a panic is a failure like any other.
    pub fn run_seed(self, seed: u64) -> Result<Ran, String> {
        let run = || on_subject!(self, S => Turmoil::<S>::crowded(seed).run(seed));
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            Err(text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default())
        })
    }

    /// Runs the case that a seed draws and tells how: the case, how it went, and the last so many
    /// events in words.
    pub fn replay_seed(self, seed: u64, events: usize) -> (String, Result<Ran, String>, String) {
        on_subject!(self, S => replay_seed::<S>(seed, events))
    }

    /// Runs the interleavings of a small case that lie within the bounds.
    pub fn explore(self, case: &SmallCase, bounds: &Bounds) -> Explored {
        on_subject!(self, S => case.explore::<S>(bounds))
    }

    /// Runs one interleaving of a small case: how it went, and its events in words.
    pub fn replay_decisions(
        self,
        case: &SmallCase,
        bounds: &Bounds,
        decisions: &Decisions,
    ) -> (Result<(), String>, String) {
        on_subject!(self, S => explore::replay(&case.options::<S>(bounds), decisions, |sim| case.run::<S>(sim)))
    }
}

fn replay_seed<S: Subject>(seed: u64, events: usize) -> (String, Result<Ran, String>, String) {
    let turmoil = Turmoil::<S>::crowded(seed);
    let (ran, trace) = turmoil.run_traced(seed, events);
    (format!("{turmoil:#?}"), ran, trace)
}
