//! The log of `atoll serve` and `atoll node`, on standard error. What a command prints for its user
//! is on standard output.
//!
//! | level | what it has |
//! |---|---|
//! | error | keys that miss because a memory node has ended; a pool that cannot be joined; failed accepts |
//! | warn | connections and logins that were refused; dead clients that were shut out; less memory than wanted |
//! | info | the end of a server; nodes that are back |
//! | debug | every connection |
//!
//! Peers can cause one line a second of a kind; the next line says how many were held back. No
//! command of a client writes a line, except a login that is refused.

use clap::{Args, ValueEnum};
use std::fmt;
use std::io::IsTerminal;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::SubscriberBuilder;

/// The options of the log.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct LogArgs {
    /// What the log on standard error has: lines of this level and of those before it
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = Level::Info)]
    log_level: Level,
    /// The form of the log's lines
    #[arg(long, value_name = "FORM", value_enum, default_value_t = Format::Text)]
    log_format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Level {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().expect("none is hidden").get_name())
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().expect("none is hidden").get_name())
    }
}

/// Begins the log of a command that does not serve: its lines are for the command's user.
pub(crate) fn begin_plain() {
    let log = SubscriberBuilder::default().with_writer(std::io::stderr).without_time().with_target(false);
    let _ = tracing::subscriber::set_global_default(log.with_ansi(false).finish());
}

impl LogArgs {
    /// Begins the log of this process.
    pub(crate) fn begin(self) {
        let level = match self.log_level {
            Level::Off => LevelFilter::OFF,
            Level::Error => LevelFilter::ERROR,
            Level::Warn => LevelFilter::WARN,
            Level::Info => LevelFilter::INFO,
            Level::Debug => LevelFilter::DEBUG,
            Level::Trace => LevelFilter::TRACE,
        };
        let log = SubscriberBuilder::default().with_max_level(level).with_writer(std::io::stderr);
        // The first log of a process stays: one that embeds this crate may have its own.
        let _ = match self.log_format {
            Format::Text => {
                let is_terminal = std::io::stderr().is_terminal();
                tracing::subscriber::set_global_default(log.with_target(false).with_ansi(is_terminal).finish())
            }
            Format::Json => tracing::subscriber::set_global_default(log.json().flatten_event(true).finish()),
        };
    }
}
