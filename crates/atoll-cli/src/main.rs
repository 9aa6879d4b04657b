//! The program `atoll`.
#![forbid(unsafe_code)]

mod command;

use atoll_commands::settings;
use clap::{CommandFactory, Parser};
use std::error::Error;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode, Box<dyn Error>> {
    let given = std::env::args_os().collect();
    let arguments = settings::arguments(&command::Command::command(), given, |name| std::env::var_os(name))?;
    match command::Command::try_parse_from(&arguments.all) {
        Ok(command) => command.run().map(|()| ExitCode::SUCCESS),
        Err(error) => {
            error.print()?;
            if let Some(note) = arguments.note().filter(|_| error.use_stderr()) {
                eprintln!("\n{note}");
            }
            Ok(ExitCode::from(error.exit_code() as u8))
        }
    }
}
