//! The lab's part of the command line. A binary mounts [`LabCommand`] within its command `lab`, and
//! [`ReplayCommand`](crate::replay::ReplayCommand) as its command `replay`. Experiments of several
//! processes start the binary again with `lab process`.

use crate::LabError;
use crate::costs::CostsCommand;
use crate::hit_ratio::HitRatioCommand;
use crate::hit_ratio::choice::ChooseCommand;
use crate::hit_ratio::curve::CurveCommand;
use crate::hit_ratio::distance::DistanceCommand;
use crate::kill::KillCommand;
use crate::load::LoadCommand;
use crate::micro::MicroCommand;
use crate::process::ProcessCommand;
use crate::report::ReportCommand;

/// Experiments
#[derive(Clone, Debug, clap::Subcommand)]
pub enum LabCommand {
    /// Measure an engine's hit ratio on a folder of traces, beside known algorithms
    HitRatio(HitRatioCommand),
    /// Choose among engines by their hit ratios, for every trace by the others
    Choose(ChooseCommand),
    /// Hold the hit ratios that an engine's clients model at other capacities against what it hits
    /// there
    Curve(CurveCommand),
    /// Hold each policy as an engine has it, by samples, against its exact form
    Distance(DistanceCommand),
    /// Measure the latency of single operations and the throughput of two processes, beside other
    /// caches
    Micro(MicroCommand),
    /// Kill and stop processes of a pool under load at random, and check that nothing is wrong,
    /// lost or slower
    Kill(KillCommand),
    /// Look at a load: its operations, sizes, times to live, frequencies
    Load(LoadCommand),
    /// Make one page of the results in a folder, and tables
    Report(ReportCommand),
    /// Measure what the steps of a protocol cost this machine's processor, as the table that
    /// simulated clients use
    Costs(CostsCommand),
    /// Be a process of an experiment
    #[command(hide = true)]
    Process(ProcessCommand),
}

impl LabCommand {
    /// Does the experiment and prints its result.
    pub fn run(self) -> Result<(), LabError> {
        match self {
            Self::HitRatio(command) => command.run(),
            Self::Choose(command) => command.run(),
            Self::Curve(command) => command.run(),
            Self::Distance(command) => command.run(),
            Self::Micro(command) => command.run(),
            Self::Kill(command) => command.run(),
            Self::Load(command) => command.run(),
            Self::Report(command) => command.run(),
            Self::Costs(command) => command.run(),
            Self::Process(command) => command.run(),
        }
    }
}
