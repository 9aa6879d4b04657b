//! `atoll lab`: what is measured on this machine, and what on the simulated network.

use atoll_papers::PapersCommand;
use std::error::Error;

/// Experiments
#[derive(Debug, clap::Subcommand)]
pub(crate) enum LabCommand {
    #[command(flatten)]
    Measured(atoll_lab::LabCommand),
    #[command(flatten)]
    Papers(PapersCommand),
}

impl LabCommand {
    pub(super) fn run(self) -> Result<(), Box<dyn Error>> {
        match self {
            Self::Measured(command) => Ok(command.run()?),
            Self::Papers(command) => Ok(command.run()?),
        }
    }
}
