//! The server's pause: commands wait until it ends.
//!
//! | `CLIENT PAUSE` | what waits |
//! |---|---|
//! | `ALL` | every command |
//! | `WRITE` | commands that may change keys, scripts that may, messages to subscribers |
//!
//! As in Redis a script that says `no-writes` in its first line, or that EVAL_RO runs, does not
//! wait for the end of `WRITE`. It sends no messages either.
//!
//! A second pause extends the first: what either makes wait waits until the later end. As in Redis
//! `CLIENT UNPAUSE` waits too while all commands do. A command that waits ends its batch
//! ([`Ended::Waits`](crate::serve::protocol::Ended)), so that it holds no lock and no buffer. Keys
//! expire and are evicted during a pause, for other processes of the pool do not wait.

use super::command::{Id, writes_or_tells};
use super::resp::Args;
use super::script::Scripts;
use super::session::Session;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// What waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pausing {
    Writes,
    All,
}

/// The pause of a server.
#[derive(Default)]
pub(crate) struct Pause {
    /// What waits, and until when.
    state: Mutex<Option<(Pausing, Instant)>>,
    /// Whether `state` is something. What looks at it without the lock may be late.
    is_set: AtomicBool,
    changed: Notify,
}

/// A pause has no longer end than this.
const LENGTH_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);

impl Pause {
    fn state(&self) -> MutexGuard<'_, Option<(Pausing, Instant)>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets commands wait.
    pub(crate) fn begin(&self, pausing: Pausing, length: Duration) {
        let ends = Instant::now() + length.min(LENGTH_MAX);
        let mut state = self.state();
        let present = state.filter(|(_, ends)| *ends > Instant::now());
        *state = Some(present.map_or((pausing, ends), |(was, until)| (was.max(pausing), until.max(ends))));
        self.is_set.store(true, Relaxed);
    }

    /// Lets them go on.
    pub(crate) fn end(&self) {
        *self.state() = None;
        self.is_set.store(false, Relaxed);
        self.changed.notify_waiters();
    }

    /// Whether some commands wait.
    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Relaxed)
    }

    /// What waits now.
    fn present(&self) -> Option<Pausing> {
        let mut state = self.state();
        if state.is_some_and(|(_, ends)| ends <= Instant::now()) {
            *state = None;
            self.is_set.store(false, Relaxed);
        }
        state.map(|(pausing, _)| pausing)
    }

    /// Whether this command of a connection must wait now.
    #[cold]
    pub(crate) fn concerns(&self, (id, args): (Id, Args<'_>), session: &Session, scripts: &Scripts) -> bool {
        match (self.present(), id, &session.queue) {
            (None, ..) => false,
            (Some(Pausing::All), ..) => true,
            (Some(Pausing::Writes), Id::Exec, Some(queue)) => {
                queue.commands().any(|(id, args)| may_write(id, args, scripts))
            }
            (Some(Pausing::Writes), ..) => may_write(id, args, scripts),
        }
    }

    /// Waits until it ends, or earlier.
    pub(crate) async fn wait(&self) {
        let mut changed = pin!(self.changed.notified());
        changed.as_mut().enable();
        let ends = self.state().map(|(_, ends)| ends);
        if let Some(ends) = ends {
            let _ = tokio::time::timeout_at(ends.into(), changed).await;
        }
    }
}

/// Whether a command may change keys, or sends a message.
fn may_write(id: Id, args: Args<'_>, scripts: &Scripts) -> bool {
    match id {
        Id::Eval | Id::Evalsha => !scripts.says_no_writes(id, args),
        _ => writes_or_tells(id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_pause_extends_the_first() {
        let pause = Pause::default();
        pause.begin(Pausing::All, Duration::from_secs(50));
        pause.begin(Pausing::Writes, Duration::from_secs(100));
        let (pausing, ends) = pause.state().unwrap();
        assert_eq!(pausing, Pausing::All);
        assert!(ends > Instant::now() + Duration::from_secs(90));
        pause.begin(Pausing::All, Duration::from_millis(u64::MAX));
        pause.end();
        assert!(!pause.is_set());
        pause.begin(Pausing::All, Duration::ZERO);
        pause.begin(Pausing::Writes, Duration::from_secs(100));
        assert_eq!(pause.state().unwrap().0, Pausing::Writes, "the first has ended");
    }
}
