//! The lab's part of the command line, for a binary to mount.

use crate::LabError;
use crate::hit_ratio::HitRatioCommand;

/// Experiments
#[derive(Clone, Debug, clap::Subcommand)]
pub enum LabCommand {
    /// Measure an engine's hit ratio on a folder of traces, beside known algorithms
    HitRatio(HitRatioCommand),
}

impl LabCommand {
    /// Does the experiment and prints its result.
    pub fn run(self) -> Result<(), LabError> {
        match self {
            Self::HitRatio(command) => command.run(),
        }
    }
}
