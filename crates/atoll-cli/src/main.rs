//! The program `atoll`.
#![forbid(unsafe_code)]

mod command;

use atoll_commands::settings::{self, Settled};
use clap::{CommandFactory, FromArgMatches};
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
    let (given, mut program) = (std::env::args_os().collect(), command::Command::command());
    let environment = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let arguments = settings::arguments(&program, given, &environment.collect())?;
    arguments.warnings().for_each(|warning| eprintln!("{warning}"));
    let parsed = program.try_get_matches_from_mut(&arguments.all);
    let parsed = parsed.and_then(|matches| {
        let command = command::Command::from_arg_matches(&matches).map_err(|error| error.format(&mut program))?;
        Ok((command, matches))
    });
    match parsed {
        Ok((command, matches)) => {
            let settled = Settled::new(&program, &matches, &arguments).ok_or("there is no command")?;
            command.run(&settled).map(|()| ExitCode::SUCCESS)
        }
        Err(error) => {
            error.print()?;
            if let Some(note) = arguments.note().filter(|_| error.use_stderr()) {
                eprintln!("\n{note}");
            }
            Ok(ExitCode::from(error.exit_code() as u8))
        }
    }
}
