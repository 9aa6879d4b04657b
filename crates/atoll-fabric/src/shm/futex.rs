//! Sleeping until a word of shared memory changes.
//!
//! The word may lie in a file that several processes have mapped. So the kernel finds sleepers by
//! the file's page. A futex is 32 bits: the lower half of the word.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// The lower half of a word, whichever end of it comes first.
fn lower_half(word: &AtomicU64) -> *const u32 {
    let half = std::ptr::from_ref(word).cast::<u32>();
    if cfg!(target_endian = "big") { half.wrapping_add(1) } else { half }
}

/// Sleeps while the lower half of the word is `expected`, for at most `patience`. May wake up
/// earlier.
pub(super) fn sleep_while(word: &AtomicU64, expected: u32, patience: Duration) {
    let patience =
        libc::timespec { tv_sec: patience.as_secs() as libc::time_t, tv_nsec: patience.subsec_nanos().into() };
    // SAFETY: the futex lies in `word`, which is mapped for the time of the call; the kernel reads
    // it atomically, and reads the time.
    unsafe { libc::syscall(libc::SYS_futex, lower_half(word), libc::FUTEX_WAIT, expected, &raw const patience) };
}

/// Wakes who sleeps on the word.
pub(super) fn wake(word: &AtomicU64) {
    // SAFETY: the futex lies in `word`, which is mapped for the time of the call; the kernel
    // changes no memory.
    unsafe { libc::syscall(libc::SYS_futex, lower_half(word), libc::FUTEX_WAKE, i32::MAX) };
}
