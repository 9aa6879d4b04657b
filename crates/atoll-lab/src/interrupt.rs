//! Ctrl-c, for experiments that must clean up.

use crate::LabError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the user has had enough.
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on ctrl-c does not end this process; [`Interrupt::check`] reports it.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new() -> Result<Self, LabError> {
        let came = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, came.clone())
                .map_err(|source| LabError::System { what: "listen for ctrl-c", source })?;
        }
        Ok(Self(came))
    }

    /// Whether it came.
    ///
    /// # Errors
    /// Once it came.
    pub fn check(&self) -> Result<(), LabError> {
        if self.0.load(Ordering::Relaxed) { Err(LabError::Options("interrupted".to_owned())) } else { Ok(()) }
    }
}
