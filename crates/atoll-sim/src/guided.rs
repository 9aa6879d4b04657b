//! What an explored run has beside a world.

use crate::fault::Fault;
use crate::footprint::Footprint;
use crate::guide::Guide;
use crate::history;
use std::cell::RefCell;
use std::rc::Rc;

/// The state of an explored run.
pub(crate) struct Guided {
    pub(crate) guide: Rc<RefCell<Guide>>,
    /// The fault of the run, and which of the clients that are not spared it hits.
    pub(crate) fault: Option<(Fault, u32)>,
    /// Whether the fault has struck, and whether what follows from it is over.
    pub(crate) struck: bool,
    pub(crate) settled: bool,
    /// How often time passes while the victim is paused.
    pub(crate) jumps_left: u32,
    /// What the present step has touched so far.
    pub(crate) footprint: Footprint,
    /// What histories had been told before it.
    pub(crate) told: (u64, u64),
}

impl Guided {
    pub(crate) fn new(guide: Rc<RefCell<Guide>>, fault: Option<(Fault, u32)>, jumps_max: u32) -> Self {
        Self {
            guide,
            fault,
            struck: false,
            settled: false,
            jumps_left: jumps_max,
            footprint: Footprint::default(),
            told: history::told(),
        }
    }
}
