//! A child process for tests of forks. Programs do not use it: see
//! [`VerbError::Forked`](crate::VerbError::Forked).

use std::io::{Error, Result};

/// Runs `child` in a fork of this process, which ends with what it gives as its exit status, and
/// waits for that. A child that panics or is killed is an error.
///
/// Of this process's threads the fork has the calling one only, so `child` must not wait for
/// another.
pub fn in_fork(child: impl FnOnce() -> u8) -> Result<u8> {
    // SAFETY: the child runs `child` alone and leaves by `_exit`; of what other threads may have
    // locked it needs the allocator only, which the C library hands over whole.
    let process = unsafe { libc::fork() };
    if process == 0 {
        let status =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).map_or(libc::EXIT_FAILURE, i32::from);
        // SAFETY: ends the child without running what belongs to the parent.
        unsafe { libc::_exit(status) };
    }
    if process < 0 {
        return Err(Error::last_os_error());
    }
    let mut status = 0;
    // SAFETY: waits for the child forked above; `status` is a valid place for its status.
    if unsafe { libc::waitpid(process, &mut status, 0) } != process {
        return Err(Error::last_os_error());
    }
    match libc::WIFEXITED(status) {
        true => Ok(libc::WEXITSTATUS(status) as u8),
        false => Err(Error::other("the fork was killed")),
    }
}

/// Runs `child` in a fork of this process, which ends then, and does not wait for it.
pub fn leave_fork(child: impl FnOnce()) {
    // SAFETY: as in `in_fork`.
    if unsafe { libc::fork() } == 0 {
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
        // SAFETY: ends the child without running what belongs to the parent.
        unsafe { libc::_exit(libc::EXIT_SUCCESS) };
    }
}
