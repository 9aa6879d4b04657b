//! What a process is, for display and for signals, and whether this process is a fork.
//!
//! Nothing here proves that a process is dead: a pid, a start time or an entry of `/proc` may
//! belong to another process. Only the locks of `lock` prove a death. `/proc/PID/fdinfo` shows
//! whose locks they are, as far as `/proc` shows other processes.

use super::lock_bytes::locked_span;
use crate::{Identity, Origin, PeerState, Peers};
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// This process, as it sees itself.
pub(crate) fn origin() -> Origin {
    Origin { pid: std::process::id(), namespace: namespace() }
}

/// The processes that have the region open whose locks this process sets by a descriptor of its
/// own, as `/proc` shows them here.
pub(super) fn peers_of(descriptor: Option<i32>) -> Peers {
    let mut peers = Peers::default();
    let Some(file) = descriptor.and_then(locked_file) else { return peers };
    let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        add_locked(&mut peers, pid, &file);
    }
    peers
}

/// Adds what one process has locked.
fn add_locked(peers: &mut Peers, pid: u32, file: &str) {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    for info in descriptors.filter_map(|entry| std::fs::read_to_string(entry.path()).ok()) {
        for (of, first, last) in info.lines().filter_map(lock_of) {
            if of != file {
                continue;
            }
            let (identities, is_present) = locked_span(first, last);
            for bits in identities.into_iter().flatten() {
                peers.add_endpoint(Identity::from_bits(bits), pid);
            }
            if is_present {
                peers.add(pid);
            }
        }
    }
}

/// What can be seen of the process behind an endpoint that is alive.
pub(super) fn state_of(identity: Identity, peers: &Peers) -> PeerState {
    match peers.pid(identity).and_then(scheduler_state) {
        Some(b'T' | b't') => PeerState::Stopped,
        Some(_) => PeerState::Running,
        None => PeerState::NotVisible,
    }
}

/// Kills the process `pid` if it has the lock of `identity`; whether the signal was sent. Death
/// follows soon.
pub(super) fn kill(descriptor: Option<i32>, pid: u32, identity: Identity) -> bool {
    let Some(file) = descriptor.and_then(locked_file).filter(|_| pid != std::process::id()) else { return false };
    // SAFETY: the call touches no memory of this process.
    let process = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if process < 0 {
        return false;
    }
    // Looked at behind the pidfd: a pid that was another process's when the pidfd was made does not
    // have the lock, and a pid that is another's now makes the signal fail.
    let mut peers = Peers::default();
    add_locked(&mut peers, pid, &file);
    let is_holder = peers.pid(identity) == Some(pid);
    // SAFETY: sends a signal to another process; no memory of this one is involved.
    let sent = is_holder
        && unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process, libc::SIGKILL, std::ptr::null::<c_void>(), 0) }
            == 0;
    // SAFETY: the descriptor was opened above, and nothing else uses it.
    unsafe { libc::close(process as i32) };
    sent
}

/// What a line of `/proc/PID/fdinfo/FD` says of a lock of an open file description: file, first and
/// last byte.
///
/// ```text
/// lock: 1: OFDLCK ADVISORY  WRITE -1 00:1b:186 4611686022722355277 4611686022722355277
/// ```
fn lock_of(line: &str) -> Option<(&str, i64, i64)> {
    let mut words = line.strip_prefix("lock:")?.split_whitespace().skip(1);
    let is_description = words.next()? == "OFDLCK";
    let mut words = words.skip(3);
    let (file, first, last) = (words.next()?, words.next()?, words.next()?);
    is_description.then_some((file, first.parse().ok()?, last.parse().ok()?))
}

/// What `/proc` calls the file of this descriptor, on which this process has a lock.
fn locked_file(descriptor: i32) -> Option<String> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}")).ok()?;
    info.lines().find_map(lock_of).map(|(file, ..)| file.to_owned())
}

/// The scheduler's letter for a process: the third field of `/proc/PID/stat`.
fn scheduler_state(pid: u32) -> Option<u8> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    stat.rsplit(')').next()?.trim_start().bytes().next()
}

/// The pid namespace's number; 0 where there is no `/proc`.
fn namespace() -> u64 {
    let link = std::fs::read_link("/proc/self/ns/pid").ok();
    let digits =
        |link: std::path::PathBuf| link.to_string_lossy().trim_matches(|c: char| !c.is_ascii_digit()).parse().ok();
    link.and_then(digits).unwrap_or(0)
}

/// The boot id of the host, as a number; `None` where it cannot be read.
pub(crate) fn boot() -> Option<u64> {
    static BOOT: OnceLock<Option<u64>> = OnceLock::new();
    *BOOT.get_or_init(|| {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let digits: String = id.chars().filter(char::is_ascii_hexdigit).collect();
        // 128 random bits; either half tells boots apart. Zero stands for an id that is not known.
        u64::from_str_radix(digits.get(..16)?, 16).ok().filter(|boot| *boot != 0)
    })
}

/// The user that this process acts as.
pub(super) fn user() -> u32 {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { libc::geteuid() }
}

/// A word of the kernel's randomness: no other process gets the same, a fork neither.
pub(crate) fn random_word() -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: `bytes` is a valid place for this many bytes.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast::<c_void>(), bytes.len(), 0) };
    assert_eq!(got, 8, "the kernel has randomness: {}", std::io::Error::last_os_error());
    u64::from_le_bytes(bytes)
}

/// A number that this process has and a fork of it does not: a word on a page that the kernel wipes
/// in a child.
pub struct ForkGuard(&'static AtomicU64);

impl ForkGuard {
    /// The guard of this process, which is given a number if it has none: at its first use, and
    /// after a fork.
    pub fn new() -> (Self, u64) {
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
    pub fn number(&self) -> u64 {
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
    // SAFETY: the page was mapped above and no other code knows of it.
    let advised = unsafe { libc::madvise(page.cast::<c_void>(), PAGE_BYTES, libc::MADV_WIPEONFORK) };
    // SAFETY: the page is mapped for as long as the process lives, aligned, zero, and reached only
    // as this atomic.
    (advised == 0).then(|| unsafe { &*page.cast::<AtomicU64>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_fdinfo_tells_file_and_bytes_of_a_lock_of_a_description() {
        let line = "lock:\t1: OFDLCK ADVISORY  WRITE -1 00:1b:186 4611686022722355277 4611686022722355278";
        assert_eq!(lock_of(line), Some(("00:1b:186", 4_611_686_022_722_355_277, 4_611_686_022_722_355_278)));
        assert_eq!(lock_of("lock:\t1: POSIX  ADVISORY  WRITE 77 00:1b:186 0 EOF"), None);
        assert_eq!((lock_of("pos:\t0"), lock_of("lock:")), (None, None));
    }

    #[test]
    fn random_words_differ() {
        assert_ne!(random_word(), random_word());
    }
}
