//! The scheduling of threads whose work can wait.

/// Lets the calling thread run only where a processor has nothing else to do, so that it takes no
/// time from other threads. Returns whether the system permits that. Where it does not, the thread
/// is scheduled as before.
pub fn run_at_idle_priority() -> bool {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: all bytes zero are a valid value, and the only priority of this policy.
        let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
        // SAFETY: 0 is the calling thread, and `parameters` outlives the call.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameters) == 0 }
    }
    #[cfg(not(target_os = "linux"))]
    false
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_of_its_own_changes_its_own_scheduling_alone() {
        let policy = std::thread::spawn(|| {
            // SAFETY: 0 is the calling thread.
            super::run_at_idle_priority().then(|| unsafe { libc::sched_getscheduler(0) })
        });
        assert!(policy.join().unwrap().is_none_or(|policy| policy == libc::SCHED_IDLE));
        // SAFETY: 0 is the calling thread.
        assert_ne!(unsafe { libc::sched_getscheduler(0) }, libc::SCHED_IDLE);
    }
}
