//! Progress of work that lasts longer than two seconds: a bar on a terminal, a line now and then in
//! a log.

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Work that is done within this time shows nothing.
const PATIENCE: Duration = Duration::from_secs(2);
/// A log gets a line after every such time.
const LINE_AFTER: Duration = Duration::from_secs(30);
/// Instead of a time: nothing is due any more.
const NEVER: u64 = u64::MAX;

/// The bar. Threads may share it.
pub struct Progress {
    bar: ProgressBar,
    what: &'static str,
    since: Instant,
    /// Whether standard error is a terminal, on which the bar is drawn.
    terminal: bool,
    /// Milliseconds after the beginning at which the bar appears or the next line is due.
    due_ms: AtomicU64,
}

impl Progress {
    /// A bar of `total` steps, hidden at first; where standard error is no terminal there are lines
    /// instead.
    pub fn new(total: u64, what: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        let template = "{msg} {wide_bar} {percent:>3} %, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what);
        let terminal = std::io::stderr().is_terminal();
        let due = if terminal { PATIENCE } else { LINE_AFTER };
        Self { bar, what, since: Instant::now(), terminal, due_ms: AtomicU64::new(due.as_millis() as u64) }
    }

    /// Shows the bar, or writes a line, if it is time; one of the threads does it.
    fn show(&self) {
        let (now_ms, due_ms) = (self.since.elapsed().as_millis() as u64, self.due_ms.load(Ordering::Relaxed));
        let next_ms = if self.terminal { NEVER } else { now_ms + LINE_AFTER.as_millis() as u64 };
        let order = Ordering::Relaxed;
        if now_ms < due_ms || self.due_ms.compare_exchange(due_ms, next_ms, order, order).is_err() {
            return;
        }
        match self.terminal {
            true => self.bar.set_draw_target(ProgressDrawTarget::stderr()),
            false => {
                let (done, total) = (self.bar.position(), self.bar.length().unwrap_or_default().max(1));
                let left = HumanDuration(self.left(done, total));
                eprintln!("{}: {} %, about {left:#} left", self.what, done.min(total) * 100 / total);
            }
        }
    }

    /// How long the rest takes at the same pace.
    fn left(&self, done: u64, total: u64) -> Duration {
        self.since.elapsed().mul_f64(total.saturating_sub(done) as f64 / done.max(1) as f64)
    }

    /// `done` steps are done.
    pub fn set(&self, done: u64) {
        self.bar.set_position(done);
        self.show();
    }

    /// `steps` more are done.
    pub fn advance(&self, steps: u64) {
        self.bar.inc(steps);
        self.show();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
