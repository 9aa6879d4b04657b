//! `atoll top`: what a server or a pool does, live in the terminal.
//!
//! | module | concept |
//! |---|---|
//! | `server` | a server's counters, by INFO, and what they say between two looks |
//! | `pool` | what any process can see of a pool |
//!
//! On a terminal each look replaces the one before it; elsewhere each is printed below the other.
//! What a server sends is shown without its control characters.

mod pool;
mod server;

use crate::logs;
use clap::Args;
use server::Connection;
use std::error::Error;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Options of `atoll top`.
#[derive(Args, Debug)]
pub struct TopCommand {
    /// A server (HOST:PORT, or unix:PATH), or a pool (shm:/NAME, the path of a file, or
    /// tcp:HOST:PORT[,HOST:PORT...]). Of a pool there are no rates: its clients count what they do
    #[arg(default_value = "127.0.0.1:6379")]
    target: String,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    interval: f64,
    /// Look for one interval, print what was found, and end
    #[arg(long)]
    once: bool,
    /// Print a JSON object for each look, a line each
    #[arg(long)]
    json: bool,
    /// The server's user
    #[arg(long, value_name = "NAME", requires = "password_file")]
    user: Option<String>,
    /// File that holds the server's password; its end of line does not count
    #[arg(long, value_name = "PATH")]
    password_file: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("say a number of seconds from 0.1 to 3600".to_owned()),
    }
}

/// What was found at a look.
struct Look {
    text: String,
    json: serde_json::Value,
}

impl TopCommand {
    /// Looks, and prints what it finds, until it is interrupted.
    pub fn run(self) -> Result<(), Box<dyn Error>> {
        logs::begin_plain();
        let interval = Duration::from_secs_f64(self.interval);
        if ["shm:", "tcp:", "verbs:", "/"].iter().any(|start| self.target.starts_with(start)) {
            return pool::watch(&self.target, &mut |look| self.show(look).then(|| std::thread::sleep(interval)));
        }
        let password = self.password_file.as_deref().map(crate::password_of).transpose()?;
        let mut connection = Connection::open(&self.target, self.user.as_deref(), password.as_deref())?;
        let (mut before, mut due) = (connection.sample()?, Instant::now());
        loop {
            due += interval;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let now = connection.sample()?;
            if !self.show(server::look(&self.target, &before, &now)) {
                return Ok(());
            }
            before = now;
        }
    }

    /// Prints a look; whether a further one is wanted.
    fn show(&self, look: Look) -> bool {
        let mut out = std::io::stdout().lock();
        let is_live = !self.json && !self.once && out.is_terminal();
        // The cursor goes to the top, and what is below the text is cleared.
        let (before, behind) = if is_live { ("\x1b[H", "\x1b[J") } else { ("", "") };
        let shown = match self.json {
            true => format!("{}\n", look.json),
            // Each line ends with the rest of the line that it replaces.
            false if is_live => look.text.replace('\n', "\x1b[K\n"),
            false => look.text,
        };
        // A reader that has left wants no further look.
        let is_written = write!(out, "{before}{shown}{behind}").and_then(|()| out.flush()).is_ok();
        is_written && !self.once
    }
}

/// A text of a server or a pool without what a terminal would obey.
fn plain(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).collect()
}

/// A part of a whole in percent.
fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_a_sensible_number_and_shown_text_is_plain() {
        assert_eq!(seconds("0.5"), Ok(0.5));
        for text in ["0", "-1", "nan", "inf", "x", "1e9"] {
            assert!(seconds(text).is_err(), "{text}");
        }
        assert_eq!(plain("a\x1b[31mb\r\n\u{9b}c"), "a[31mbc");
        assert_eq!((percent(1.0, 4.0), percent(1.0, 0.0)), (25.0, 0.0));
    }
}
