//! The lab's commands by themselves, for work on the lab.

use atoll_lab::LabCommand;
use clap::Parser;

#[derive(Parser)]
enum Command {
    /// Experiments
    #[command(subcommand)]
    Lab(LabCommand),
}

fn main() -> std::process::ExitCode {
    let outcome = match Command::parse() {
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
