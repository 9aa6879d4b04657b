//! The program `atoll`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    atoll_cli::run()
}
