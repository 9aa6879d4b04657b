//! LFUDA, LFU with dynamic ageing: H = L + frequency (Arlitt, Cherkasova, Dilley, Friedrich and
//! Jin, "Evaluating content management techniques for web proxy caches", 1999).

use super::{Formula, GHOSTS_ALL, Policy};

pub(super) const LFUDA: Policy =
    Policy { name: "lfuda", ghost_percent: GHOSTS_ALL, formula: Formula::Ageing(|object| object.frequency as f64) };
