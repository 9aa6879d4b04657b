//! Agents that do not answer.
//!
//! | an agent | a connection to it | its memory nodes |
//! |---|---|---|
//! | answers | is tried | |
//! | refuses: no agent is there | is tried | are gone, if this process knows that they had the memory of the agent's process |
//! | does not answer | fails at once | may be there |
//! | has refused, or not answered, for [`TcpOptions::forsake_after`](super::TcpOptions::forsake_after) | as before | are [silent](crate::Endpoint::silent): the pool may go on without them |
//!
//! A thread of the process asks such an agent until it answers. So no other thread waits for it
//! again and again.

use super::TcpOptions;
use super::control::Control;
use crate::FabricError;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Between two questions.
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// A thread that has not asked for so long is gone: this process is a fork. A host's name may take
/// long to look up.
const ASKED_MAX_MS: u64 = 60_000;

/// What this process knows of one agent.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// Since when it has not answered, in milliseconds of the host's time; 0 if it answers.
    since_ms: AtomicU64,
    /// When it was last asked.
    asked_ms: AtomicU64,
    /// Whether it refused then.
    refuses: AtomicBool,
}

/// Milliseconds of a clock that counts while the host sleeps.
pub(super) fn host_ms() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the time alone.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    (time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000).max(1)
}

impl Silence {
    /// For how long the agent has not answered. `None` if it answers, or no thread asks it.
    pub(super) fn lasts(&self) -> Option<Duration> {
        let (since_ms, now_ms) = (self.since_ms.load(Relaxed), host_ms());
        let is_asked = now_ms.saturating_sub(self.asked_ms.load(Relaxed)) < ASKED_MAX_MS;
        (since_ms > 0 && is_asked).then(|| Duration::from_millis(now_ms.saturating_sub(since_ms)))
    }

    /// Whether it refused when it was last asked.
    pub(super) fn refuses(&self) -> bool {
        self.refuses.load(Relaxed)
    }

    /// The agent did not answer, or `refuses`. From now on a thread asks it, as long as `silence`
    /// is there.
    pub(super) fn begin(silence: &Arc<Self>, refuses: bool, address: &str, options: &TcpOptions) {
        if silence.lasts().is_some() {
            return;
        }
        let now_ms = host_ms();
        silence.asked_ms.store(now_ms, Relaxed);
        silence.refuses.store(refuses, Relaxed);
        silence.since_ms.store(now_ms, Relaxed);
        let (silence, address) = (Arc::downgrade(silence), address.to_owned());
        let options = TcpOptions { connect_timeout: ANSWER_TIMEOUT, ..options.clone() };
        let asking = std::thread::Builder::new().name("atoll-asking".to_owned());
        // Without a thread the next connection is tried.
        let _ = asking.spawn(move || ask(&silence, &address, &options));
    }
}

fn ask(silence: &Weak<Silence>, address: &str, options: &TcpOptions) {
    loop {
        std::thread::sleep(ASK_AGAIN);
        let Some(silence) = silence.upgrade() else { return };
        silence.asked_ms.store(host_ms(), Relaxed);
        match Control::connect(address, options) {
            Err(error) if is_silence(&error) || is_refusal(&error) => {
                silence.refuses.store(is_refusal(&error), Relaxed);
            }
            _ => return silence.since_ms.store(0, Relaxed),
        }
    }
}

/// Whether a connection failed because nothing answered.
pub(super) fn is_silence(error: &FabricError) -> bool {
    use io::ErrorKind::{HostUnreachable, NetworkUnreachable, TimedOut, WouldBlock};
    let FabricError::System { source, .. } = error else { return false };
    // A host name that cannot be resolved has no kind. The resolver's errors have no number either.
    let is_unresolved = source.raw_os_error().is_none() && source.to_string().contains("lookup");
    matches!(source.kind(), TimedOut | WouldBlock | HostUnreachable | NetworkUnreachable) || is_unresolved
}

/// Whether a connection failed because no agent is there.
pub(super) fn is_refusal(error: &FabricError) -> bool {
    matches!(error, FabricError::System { source, .. } if source.kind() == io::ErrorKind::ConnectionRefused)
}
