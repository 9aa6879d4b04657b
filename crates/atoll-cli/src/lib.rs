//! The command line of the program `atoll`.
//!
//! It is a library, with a program of one line: so the compiler works on the commands while it
//! still works on the lab, which takes longest.
#![forbid(unsafe_code)]

mod command;

use clap::Parser;
use std::process::ExitCode;

/// Does what the arguments of this process say.
pub fn run() -> ExitCode {
    match command::Command::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
