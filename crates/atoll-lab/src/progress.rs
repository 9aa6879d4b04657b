//! A progress bar on the terminal for what takes longer than two seconds.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Work that is done within this time shows no bar.
const PATIENCE: Duration = Duration::from_secs(2);

/// The bar. Threads may share it.
pub(crate) struct Progress {
    bar: ProgressBar,
    since: Instant,
    /// Whether the bar is drawn or never will be.
    decided: AtomicBool,
}

impl Progress {
    /// A bar of `total` steps, hidden at first, and for ever unless standard error is a terminal.
    pub(crate) fn new(total: u64, what: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        let template = "{msg} {wide_bar} {percent:>3} %, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what);
        Self { bar, since: Instant::now(), decided: AtomicBool::new(!std::io::stderr().is_terminal()) }
    }

    fn decide(&self) {
        if self.since.elapsed() >= PATIENCE && !self.decided.swap(true, Ordering::Relaxed) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    /// `done` steps are done.
    pub(crate) fn set(&self, done: u64) {
        if !self.decided.load(Ordering::Relaxed) {
            self.decide();
        }
        self.bar.set_position(done);
    }

    /// `steps` more are done.
    pub(crate) fn advance(&self, steps: u64) {
        if !self.decided.load(Ordering::Relaxed) {
            self.decide();
        }
        self.bar.inc(steps);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
