//! Descriptors that a fork does not keep.
//!
//! A lock of an open file description lasts until the last descriptor of it is closed. A child that
//! kept one would keep its dead parent's locks. `O_CLOEXEC` closes it in a child that runs another
//! program; a handler of `fork` closes it in a child that does not.
//!
//! ```text
//! an entry    use 32 | descriptor 32    0: free; never freed: the handler may walk the list
//! ```
//!
//! A process that forks without its C library does not learn of it. Its children keep the locks
//! until they end, which delays a repair and harms nothing.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// A place for one descriptor.
struct Entry {
    word: AtomicU64,
    /// Does not change once the entry is in the list.
    next: *const Entry,
}

static FIRST: AtomicPtr<Entry> = AtomicPtr::new(ptr::null_mut());
/// Uses of entries so far: a fork may use an entry again, with the same number of a descriptor.
static USES: AtomicU64 = AtomicU64::new(1);
/// Held while a descriptor is opened or closed, and across every fork: no fork sees a descriptor
/// that is not in the list.
static LOCKED: AtomicBool = AtomicBool::new(false);

fn lock() {
    while LOCKED.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
        std::thread::yield_now();
    }
}

fn unlock() {
    LOCKED.store(false, Ordering::Release);
}

extern "C" fn before_fork() {
    lock();
}

extern "C" fn after_fork_in_parent() {
    unlock();
}

extern "C" fn after_fork_in_child() {
    let mut entry: *const Entry = FIRST.load(Ordering::Acquire);
    // SAFETY: entries are leaked, so that every pointer of the list is valid for ever.
    while let Some(here) = unsafe { entry.as_ref() } {
        let word = here.word.swap(0, Ordering::Relaxed);
        if word != 0 {
            // SAFETY: the descriptor is this process's copy of one that the list alone owns.
            unsafe { libc::close(word as u32 as i32) };
        }
        entry = here.next;
    }
    unlock();
}

/// A descriptor of a file, open for reading and writing, with an open file description of its own.
#[derive(Debug)]
pub(super) struct Descriptor {
    entry: &'static AtomicU64,
    word: u64,
}

impl Descriptor {
    /// Opens an existing file.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        static HANDLERS: Once = Once::new();
        HANDLERS.call_once(|| {
            // SAFETY: the handlers are functions of the program and touch nothing but atomics and
            // descriptors of the list.
            let rc = unsafe {
                libc::pthread_atfork(Some(before_fork), Some(after_fork_in_parent), Some(after_fork_in_child))
            };
            assert_eq!(rc, 0, "there is memory for three pointers");
        });
        let path = CString::new(path.as_os_str().as_bytes())?;
        lock();
        // SAFETY: the path is a string that ends in zero; the call touches no memory of this
        // process.
        let descriptor = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
        let opened = if descriptor < 0 { Err(io::Error::last_os_error()) } else { Ok(Self::add(descriptor)) };
        unlock();
        opened
    }

    /// Puts a descriptor into the list. The caller holds the lock.
    fn add(descriptor: i32) -> Self {
        let word = USES.fetch_add(1, Ordering::Relaxed) << 32 | u64::from(descriptor as u32);
        let mut entry: *const Entry = FIRST.load(Ordering::Acquire);
        // SAFETY: as in the handler.
        while let Some(here) = unsafe { entry.as_ref() } {
            if here.word.load(Ordering::Relaxed) == 0 {
                here.word.store(word, Ordering::Relaxed);
                return Self { entry: &here.word, word };
            }
            entry = here.next;
        }
        let next = FIRST.load(Ordering::Acquire);
        let entry = Box::leak(Box::new(Entry { word: AtomicU64::new(word), next }));
        FIRST.store(entry, Ordering::Release);
        Self { entry: &entry.word, word }
    }

    /// The descriptor, unless this process is a fork of the one that opened it.
    #[inline]
    pub(super) fn number(&self) -> Option<i32> {
        (self.entry.load(Ordering::Relaxed) == self.word).then_some(self.word as u32 as i32)
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        lock();
        if let Some(descriptor) = self.number() {
            self.entry.store(0, Ordering::Relaxed);
            // SAFETY: the descriptor is open, and nothing but this value uses it.
            unsafe { libc::close(descriptor) };
        }
        unlock();
    }
}
