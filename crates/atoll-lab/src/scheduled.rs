//! What the kernel's scheduler counts of a thread.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// What the scheduler counts of the thread that made this: `/proc/thread-self/schedstat`, kept
/// open.
pub struct Scheduled(Option<File>);

impl Scheduled {
    /// Of the thread that calls this.
    pub fn this_thread() -> Self {
        Self(File::open("/proc/thread-self/schedstat").ok())
    }

    /// Of no thread: counts stay 0.
    pub fn nothing() -> Self {
        Self(None)
    }

    /// Nanoseconds on a core, and ready without one; 0 where the kernel does not count.
    pub fn ns(&self) -> (u64, u64) {
        let mut text = [0; 64];
        let read = self.0.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
        let mut fields = std::str::from_utf8(&text[..read]).unwrap_or_default().split_whitespace();
        let mut field = || fields.next().and_then(|field| field.parse().ok()).unwrap_or(0);
        (field(), field())
    }
}
