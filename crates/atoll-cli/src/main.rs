//! The program `atoll`.
#![forbid(unsafe_code)]

mod command;

use atoll_commands::settings;
use clap::{CommandFactory, Parser};
use std::error::Error;
use std::process::ExitCode;

fn main() -> ExitCode {
    end_quietly_without_reader();
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A program whose output has no reader any more (`atoll pool info NAME | head -1`) ends, and does
/// not panic.
fn end_quietly_without_reader() {
    let shown = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let said = panic.payload().downcast_ref::<String>().map(String::as_str).unwrap_or_default();
        if let Some(error) = said.strip_prefix("failed printing to stdout: ") {
            if !error.contains("Broken pipe") {
                eprintln!("error: what was found cannot be printed: {error}");
            }
            std::process::exit(1);
        }
        shown(panic);
    }));
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
