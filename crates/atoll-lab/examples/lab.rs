//! The lab's commands by themselves, for work on the lab.

use atoll_lab::LabCommand;
use atoll_lab::advise::AdviseCommand;
use atoll_lab::replay::ReplayCommand;
use clap::Parser;

#[derive(Parser)]
enum Command {
    /// Replay a trace on a cache and report what it hits and how fast it is
    Replay(ReplayCommand),
    Advise(AdviseCommand),
    /// Experiments
    #[command(subcommand)]
    Lab(LabCommand),
}

fn main() -> std::process::ExitCode {
    let outcome = match Command::parse() {
        Command::Replay(command) => command.run(),
        Command::Advise(command) => command.run(),
        Command::Lab(command) => command.run(),
    };
    match outcome {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}
