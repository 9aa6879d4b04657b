//! Who a process is, whether another one is dead, and whether this one is a fork.
//!
//! A process is its pid, its start time (a pid is reused), its pid namespace (a pid means something only there) and the boot of its host.
//! On one host a process that is dead has no verb in flight, so that its observed death is the fence of this fabric:
//!
//! | the other process | fenced |
//! |---|---|
//! | of another boot | yes |
//! | of another pid namespace | no: nobody here can see it |
//! | no process has its pid, or one that started at another time | yes |
//! | a zombie without threads | yes: its memory is unmapped |
//! | anything else, a stopped one among them | no |

use crate::Identity;
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// What can be seen of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// It is there, and runs or sleeps.
    Running,
    /// It was stopped (by SIGSTOP, from a terminal, by a debugger) and may be resumed.
    Stopped,
    /// It will never do anything again: what it could write may be reused.
    Dead,
    /// Of another pid namespace, or hidden from this user: nobody here can tell.
    NotVisible,
}

/// This process.
pub(super) fn own() -> Identity {
    let pid = std::process::id();
    let (_, _, start_time) = stat("self").unwrap_or_default();
    Identity([u64::from(pid), start_time, namespace(), boot()])
}

/// Whether no verb of `who` can take effect any more.
pub(super) fn is_dead(who: Identity) -> bool {
    let Identity([pid, start_time, of_namespace, of_boot]) = who;
    if of_boot != boot() {
        return true;
    }
    let Some(pid) = libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 0) else { return false };
    if of_namespace != namespace() {
        return false;
    }
    // SAFETY: signal 0 is sent to nobody; the call only asks whether the process is there.
    let asked = unsafe { libc::kill(pid, 0) };
    if asked != 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH) {
        return true;
    }
    // Processes of other users may be hidden: then there is one, and nobody knows since when.
    let Some((state, threads, started)) = stat(&pid.to_string()) else { return false };
    started != start_time || matches!(state, b'Z' | b'X') && threads <= 1
}

/// What can be seen of `who`.
pub(super) fn state(who: Identity) -> ProcessState {
    if is_dead(who) {
        return ProcessState::Dead;
    }
    let Identity([pid, _, of_namespace, _]) = who;
    let found = if of_namespace == namespace() { stat(&pid.to_string()) } else { None };
    match found {
        Some((b'T' | b't', _, _)) => ProcessState::Stopped,
        Some(_) => ProcessState::Running,
        None => ProcessState::NotVisible,
    }
}

/// Kills the process `who`, if it is of this namespace and boot and still itself. Whether the signal was sent; death follows soon.
pub(super) fn kill(who: Identity) -> bool {
    let Identity([pid, start_time, of_namespace, of_boot]) = who;
    let itself = of_boot == boot()
        && of_namespace == namespace()
        && pid != u64::from(std::process::id())
        && stat(&pid.to_string()).is_some_and(|(_, _, started)| started == start_time);
    let Some(pid) = libc::pid_t::try_from(pid).ok().filter(|pid| itself && *pid > 0) else { return false };
    // SAFETY: sends a signal to another process; no memory of this one is involved.
    unsafe { libc::kill(pid, libc::SIGKILL) == 0 }
}

/// State, number of threads and start time from `/proc/PID/stat`.
fn stat(pid: &str) -> Option<(u8, u64, u64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse().ok();
    Some((*fields.first()?.as_bytes().first()?, number(17)?, number(19)?))
}

/// The pid namespace's number; 0 where there is no `/proc`.
fn namespace() -> u64 {
    let link = std::fs::read_link("/proc/self/ns/pid").ok();
    let digits =
        |link: std::path::PathBuf| link.to_string_lossy().trim_matches(|c: char| !c.is_ascii_digit()).parse().ok();
    link.and_then(digits).unwrap_or(0)
}

/// The boot id of the host, as a number; 0 where there is none.
pub fn boot() -> u64 {
    static BOOT: OnceLock<u64> = OnceLock::new();
    *BOOT.get_or_init(|| {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let digits: String = id.chars().filter(char::is_ascii_hexdigit).collect();
        // 128 random bits; either half tells boots apart.
        digits.get(..16).and_then(|half| u64::from_str_radix(half, 16).ok()).unwrap_or(0)
    })
}

/// A number that this process has and a fork of it does not: a word on a page that the kernel wipes in a child.
pub(super) struct ForkGuard(&'static AtomicU64);

impl ForkGuard {
    /// The guard of this process, which is given a number if it has none: at its first use, and after a fork.
    pub(super) fn new() -> (Self, u64) {
        static PAGE: OnceLock<&'static AtomicU64> = OnceLock::new();
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let word = *PAGE.get_or_init(|| wiped_on_fork().unwrap_or_else(|| Box::leak(Box::new(AtomicU64::new(0)))));
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let number = match word.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => number,
            Err(present) => present,
        };
        (Self(word), number)
    }

    /// This process's number; 0 in a fork that has not asked for one.
    #[inline(always)]
    pub(super) fn number(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A word on a page of its own, zero, and zero again in every fork.
fn wiped_on_fork() -> Option<&'static AtomicU64> {
    const PAGE_BYTES: usize = 4096;
    // SAFETY: asks the kernel for a fresh page; no existing mapping is touched.
    let page = unsafe {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        libc::mmap(std::ptr::null_mut(), PAGE_BYTES, protection, flags, -1, 0)
    };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the page was mapped above and nobody else knows of it.
    let advised = unsafe { libc::madvise(page.cast::<c_void>(), PAGE_BYTES, libc::MADV_WIPEONFORK) };
    // SAFETY: the page is mapped for as long as the process lives, aligned, zero, and reached only as this atomic.
    (advised == 0).then(|| unsafe { &*page.cast::<AtomicU64>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_one_that_started_at_another_time_does_not() {
        let me = own();
        assert!(!is_dead(me));
        let Identity([pid, start_time, namespace, boot]) = me;
        assert!(is_dead(Identity([pid, start_time + 1, namespace, boot])), "the pid was reused");
        assert!(is_dead(Identity([pid, start_time, namespace, boot ^ 1])), "the host was restarted");
        let foreign = Identity([pid, start_time, namespace ^ 1, boot]);
        assert!(!is_dead(foreign), "nobody here can see it");
        assert_eq!((state(foreign), state(me)), (ProcessState::NotVisible, ProcessState::Running));
        assert!(!is_dead(Identity([0, 0, namespace, boot])), "no process at all");
    }

    #[test]
    fn a_child_that_was_killed_is_dead_before_and_after_it_is_reaped_and_a_stopped_one_is_not() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let (_, _, started) = stat(&child.id().to_string()).unwrap();
        let who = Identity([u64::from(child.id()), started, namespace(), boot()]);
        assert!(!is_dead(who));
        // SAFETY: stops the child spawned above, which nobody has reaped.
        unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGSTOP) };
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while state(who) != ProcessState::Stopped && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_eq!(state(who), ProcessState::Stopped);
        assert!(!is_dead(who), "stopped");
        assert!(kill(who));
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while !is_dead(who) && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert!(is_dead(who), "a zombie");
        child.wait().unwrap();
        assert!(is_dead(who), "gone");
        assert_eq!(state(who), ProcessState::Dead);
        assert!(!kill(who));
    }
}
