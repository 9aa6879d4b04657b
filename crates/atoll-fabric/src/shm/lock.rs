//! Locks on a region's file, which the kernel releases when their process has ended. They show
//! which processes have the region open, and which endpoints live.
//!
//! Which byte of the file is locked for what: [`lock_bytes`](super::lock_bytes).
//!
//! They are locks of an open file description (`F_OFD_SETLK`) that has no other use. A mapping
//! keeps its own description while any process has it, forks included. Locks of that description
//! would outlive their owner. This description is closed in every fork (`descriptor`). The kernel
//! closes a process's files after its last thread has left its memory. So a free lock proves that
//! its owner writes nothing any more. This holds across pid namespaces, mount namespaces and
//! containers.
//!
//! Locks of one description do not exclude each other. So a process keeps its own endpoints'
//! identities in a table.

use super::descriptor::Descriptor;
use super::lock_bytes::{COMPUTE_NODES, OPENING, PRESENCE, byte_of, byte_of_node};
use super::names::{FileId, file_at, path_of};
use super::process::{peers_of, random_word};
use crate::{COMPUTE_NODES_MAX, FabricError, Hold, Identity, Peers, Sharing};
use std::collections::{BTreeSet, HashSet};
use std::hash::Hash;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Identities that a new endpoint tries. With a thousand living endpoints, each is in use with a
/// chance of one in a million.
const TRIES: u32 = 64;

const TMPFS_MAGIC: i64 = 0x0102_1994;
const RAMFS_MAGIC: i64 = 0x8584_58f6;
const HUGETLBFS_MAGIC: i64 = 0x9584_58f6;

/// What is locked how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lock {
    Shared = libc::F_RDLCK as isize,
    Alone = libc::F_WRLCK as isize,
    Free = libc::F_UNLCK as isize,
}

impl Lock {
    fn of(sharing: Sharing) -> Self {
        match sharing {
            Sharing::Shared => Self::Shared,
            Sharing::Alone => Self::Alone,
        }
    }
}

/// An open file description that is used for locks only.
#[derive(Debug)]
struct LockFile(Descriptor);

impl LockFile {
    fn open(name: &str, path: &Path) -> Result<Self, FabricError> {
        match Descriptor::open(path) {
            Ok(descriptor) => Ok(Self(descriptor)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(FabricError::Absent(name.to_owned())),
            Err(source) => Err(FabricError::System { name: name.to_owned(), what: "open the file", source }),
        }
    }

    fn file_id(&self) -> io::Result<FileId> {
        let descriptor = self.0.number().ok_or_else(forked)?;
        // SAFETY: all bytes of a `stat` may be zero.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor is open; `stat` is a valid place for what the call writes.
        match unsafe { libc::fstat(descriptor, &mut stat) } {
            0 => Ok((stat.st_dev, stat.st_ino)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn is_volatile(&self) -> bool {
        let Some(descriptor) = self.0.number() else { return false };
        // SAFETY: all bytes of a `statfs` may be zero.
        let mut found: libc::statfs = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor is open; `found` is a valid place for what the call writes.
        let rc = unsafe { libc::fstatfs(descriptor, &mut found) };
        rc == 0 && matches!(found.f_type as i64, TMPFS_MAGIC | RAMFS_MAGIC | HUGETLBFS_MAGIC)
    }

    fn call(&self, command: i32, lock: Lock, byte: i64) -> io::Result<i32> {
        self.call_span(command, lock, byte, 1)
    }

    /// A span of 0 bytes has no end.
    fn call_span(&self, command: i32, lock: Lock, byte: i64, bytes: i64) -> io::Result<i32> {
        let descriptor = self.0.number().ok_or_else(forked)?;
        // SAFETY: all bytes of a `flock` may be zero.
        let mut wanted: libc::flock = unsafe { std::mem::zeroed() };
        (wanted.l_type, wanted.l_whence) = (lock as i16, libc::SEEK_SET as i16);
        (wanted.l_start, wanted.l_len) = (byte, bytes);
        loop {
            // SAFETY: the descriptor is open; `wanted` is a valid lock, which the call may
            // overwrite.
            if unsafe { libc::fcntl(descriptor, command, &mut wanted) } == 0 {
                return Ok(i32::from(wanted.l_type));
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    /// A span of bytes from `first` to before `end` of which another description has a lock, as far
    /// as that lock reaches; `None` if there is none, or that cannot be found out.
    fn locked_in(&self, first: i64, end: i64) -> Option<(i64, i64)> {
        let descriptor = self.0.number()?;
        // SAFETY: all bytes of a `flock` may be zero.
        let mut wanted: libc::flock = unsafe { std::mem::zeroed() };
        (wanted.l_type, wanted.l_whence) = (Lock::Alone as i16, libc::SEEK_SET as i16);
        (wanted.l_start, wanted.l_len) = (first, end - first);
        // SAFETY: the descriptor is open; `wanted` is a valid lock, which the call overwrites.
        let asked = unsafe { libc::fcntl(descriptor, libc::F_OFD_GETLK, &mut wanted) };
        let is_locked = asked == 0 && i32::from(wanted.l_type) != libc::F_UNLCK;
        is_locked.then(|| (wanted.l_start, if wanted.l_len == 0 { end } else { wanted.l_start + wanted.l_len }))
    }

    /// Waits for the lock.
    fn set(&self, lock: Lock, byte: i64) -> io::Result<()> {
        self.call(libc::F_OFD_SETLKW, lock, byte).map(drop)
    }

    /// Sets the lock if no other lock conflicts; returns whether it did.
    fn try_set(&self, lock: Lock, byte: i64) -> io::Result<bool> {
        match self.call(libc::F_OFD_SETLK, lock, byte) {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether another description has a lock of this byte.
    fn is_locked(&self, byte: i64) -> io::Result<bool> {
        Ok(self.call(libc::F_OFD_GETLK, Lock::Alone, byte)? != libc::F_UNLCK)
    }
}

impl Drop for LockFile {
    /// A child that another thread spawns has the descriptor, too, until it runs its program. So
    /// closing it here may not release the locks at once.
    fn drop(&mut self) {
        let _ = self.call_span(libc::F_OFD_SETLK, Lock::Free, OPENING, 0);
    }
}

fn forked() -> io::Error {
    io::Error::other("this process is a fork of the one that opened the region")
}

/// A hold: while it exists, the region cannot be removed or formatted anew. It is released when it
/// is dropped, or with the process.
#[derive(Debug)]
pub struct RegionLock {
    file: LockFile,
    name: String,
}

impl RegionLock {
    /// The hold, unless another process holds the region `name` in a way that excludes this.
    #[cfg(feature = "tcp")]
    pub(crate) fn try_take(name: &str, sharing: Sharing) -> Result<Option<Self>, FabricError> {
        let path = path_of(name)?;
        let lock = Lock::of(sharing);
        loop {
            let file = LockFile::open(name, &path)?;
            if !file.try_set(lock, OPENING).map_err(unlockable(name))? {
                return Ok(None);
            }
            if file.file_id().ok() == file_at(&path) {
                return Ok(Some(Self { file, name: name.to_owned() }));
            }
        }
    }

    /// Waits until no other process holds the region `name` in a way that excludes this.
    pub(super) fn take(name: &str, sharing: Sharing) -> Result<Self, FabricError> {
        let path = path_of(name)?;
        let lock = Lock::of(sharing);
        loop {
            let file = LockFile::open(name, &path)?;
            file.set(lock, OPENING).map_err(unlockable(name))?;
            // While it waited, the file may have been removed, and another file created under its
            // name.
            if file.file_id().ok() == file_at(&path) {
                return Ok(Self { file, name: name.to_owned() });
            }
        }
    }
}

impl Hold for RegionLock {
    fn is_in_use(&self) -> Result<bool, FabricError> {
        self.file.is_locked(PRESENCE).map_err(unlockable(&self.name))
    }

    fn peers(&self) -> Peers {
        peers_of(self.file.0.number())
    }
}

fn unlockable(name: &str) -> impl Fn(io::Error) -> FabricError {
    move |source| FabricError::System { name: name.to_owned(), what: "lock the file", source }
}

/// How a process has a region open, and its living endpoints. An anonymous region has no file and
/// no other process.
#[derive(Debug)]
pub(super) struct Presence {
    file: Option<LockFile>,
    identities: Lent<Identity>,
    nodes: Lent<u16>,
}

/// What living endpoints of this process hold exclusively, with a locked byte for each.
#[derive(Debug)]
struct Lent<N> {
    /// A fork must not touch it: another thread may have held the lock.
    own: Mutex<HashSet<N>>,
    byte_of: fn(N) -> i64,
}

impl<N: Copy + Eq + Hash> Lent<N> {
    fn new(byte_of: fn(N) -> i64) -> Self {
        Self { own: Mutex::default(), byte_of }
    }

    fn own(&self) -> MutexGuard<'_, HashSet<N>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lends `wanted` unless a living endpoint has it; returns whether it did.
    fn lend(&self, file: Option<&LockFile>, wanted: N) -> io::Result<bool> {
        let mut own = self.own();
        if own.contains(&wanted) || !file.map_or(Ok(true), |file| file.try_set(Lock::Alone, (self.byte_of)(wanted)))? {
            return Ok(false);
        }
        own.insert(wanted);
        Ok(true)
    }

    /// No endpoint has it any more.
    fn release(&self, file: Option<&LockFile>, lent: N) {
        let mut own = self.own();
        if own.remove(&lent)
            && let Some(file) = file
        {
            // A lock that stays, stays no longer than the process.
            let _ = file.set(Lock::Free, (self.byte_of)(lent));
        }
    }

    /// Whether a living endpoint has it. An unknown state counts as alive.
    fn is_alive(&self, file: Option<&LockFile>, lent: N) -> bool {
        let own = self.own();
        own.contains(&lent) || file.is_some_and(|file| file.is_locked((self.byte_of)(lent)).unwrap_or(true))
    }
}

impl Presence {
    fn of(file: Option<LockFile>) -> Self {
        Self { file, identities: Lent::new(byte_of), nodes: Lent::new(byte_of_node) }
    }

    /// The presence in an anonymous region, which no other process has.
    pub(super) fn anonymous() -> Self {
        Self::of(None)
    }

    /// Locks the region `name` as open, once no process formats it anew.
    pub(super) fn shared(name: &str) -> Result<Self, FabricError> {
        let file = LockFile::open(name, &path_of(name)?)?;
        file.set(Lock::Shared, PRESENCE).map_err(unlockable(name))?;
        Ok(Self::of(Some(file)))
    }

    /// Locks the region `name` as open; `None` if a process formats or removes it.
    pub(super) fn try_shared(name: &str) -> Result<Option<Self>, FabricError> {
        let file = LockFile::open(name, &path_of(name)?)?;
        let is_shared = file.try_set(Lock::Shared, PRESENCE).map_err(unlockable(name))?;
        Ok(is_shared.then(|| Self::of(Some(file))))
    }

    /// Locks the region `name` as open alone; `None` if another process has it open.
    pub(super) fn alone(name: &str) -> Result<Option<Self>, FabricError> {
        let file = LockFile::open(name, &path_of(name)?)?;
        let is_alone = file.try_set(Lock::Alone, PRESENCE).map_err(unlockable(name))?;
        Ok(is_alone.then(|| Self::of(Some(file))))
    }

    /// Lets other processes open the region, too.
    pub(super) fn share(&self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), |file| file.set(Lock::Shared, PRESENCE))
    }

    /// Whether no other process has it open, from now on until [`Presence::share`].
    #[cfg(feature = "tcp")]
    pub(super) fn try_alone(&self) -> io::Result<bool> {
        self.file.as_ref().map_or(Ok(true), |file| file.try_set(Lock::Alone, PRESENCE))
    }

    /// The file that is locked, if there is one.
    pub(super) fn file_id(&self) -> Option<FileId> {
        self.file.as_ref()?.file_id().ok()
    }

    /// Whether the name still belongs to the locked file: the file was not removed.
    pub(super) fn is_named(&self, name: &str) -> bool {
        path_of(name).ok().and_then(|path| file_at(&path)).is_some_and(|file| self.is_of(file))
    }

    /// Whether the locks are on this file.
    pub(super) fn is_of(&self, file: FileId) -> bool {
        self.file.as_ref().is_some_and(|own| own.file_id().is_ok_and(|id| id == file))
    }

    /// The descriptor of the locks, unless this process is a fork.
    pub(super) fn descriptor(&self) -> Option<i32> {
        self.file.as_ref()?.0.number()
    }

    /// Whether the file is on a file system of memory. A process's own memory is.
    pub(super) fn is_volatile(&self) -> bool {
        self.file.as_ref().is_none_or(LockFile::is_volatile)
    }

    fn is_fork(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.0.number().is_none())
    }

    /// An identity that no living endpoint of this region has, until [`Presence::release`] or the
    /// end of the process. In a fork, or if the file system locks nothing, it is the identity of no
    /// endpoint.
    pub(super) fn lend(&self) -> Identity {
        if self.is_fork() {
            return Identity::NOBODY;
        }
        for _ in 0..TRIES {
            let identity = Identity::from_bits(random_word() as u32);
            if identity == Identity::NOBODY {
                continue;
            }
            match self.identities.lend(self.file.as_ref(), identity) {
                Ok(true) => return identity,
                Ok(false) => {}
                Err(_) => break,
            }
        }
        Identity::NOBODY
    }

    /// The number of a compute node that no living endpoint of this region has, until
    /// [`Presence::release_node`] or the end of the process. `None` if all are in use, if the file
    /// system locks nothing, or in a fork.
    pub(super) fn lend_node(&self) -> Option<u16> {
        if self.is_fork() {
            return None;
        }
        for number in 0..COMPUTE_NODES_MAX {
            if self.nodes.lend(self.file.as_ref(), number).ok()? {
                return Some(number);
            }
        }
        None
    }

    /// The number is free from now on.
    pub(super) fn release_node(&self, number: u16) {
        if !self.is_fork() {
            self.nodes.release(self.file.as_ref(), number);
        }
    }

    /// Whether a living endpoint has the number. An unknown state counts as alive.
    pub(super) fn is_node_alive(&self, number: u16) -> bool {
        self.nodes.is_alive(self.file.as_ref(), number)
    }

    /// The numbers that living endpoints have, in order.
    pub(super) fn living_nodes(&self) -> Vec<u16> {
        let mut found = BTreeSet::new();
        if let Some(file) = &self.file {
            // Each call gives one lock. The kernel may give them in any order, so that a span
            // before what it gave is asked for again.
            let mut spans = vec![(0, i64::from(COMPUTE_NODES_MAX))];
            while let Some((first, end)) = spans.pop() {
                let Some((start, past)) = file.locked_in(COMPUTE_NODES + first, COMPUTE_NODES + end) else { continue };
                let (start, past) = ((start - COMPUTE_NODES).max(first), (past - COMPUTE_NODES).min(end));
                found.extend(start as u16..past as u16);
                spans.extend([(first, start), (past, end)].into_iter().filter(|(first, end)| first < end));
            }
        }
        found.extend(self.nodes.own().iter());
        found.into_iter().collect()
    }

    /// Runs `does` under the number's lock, if no endpoint has it; otherwise `None`.
    pub(super) fn with_node<R>(&self, number: u16, does: impl FnOnce() -> R) -> Option<R> {
        if self.is_fork() {
            return None;
        }
        let own = self.nodes.own();
        let try_lock = |file: &LockFile| file.try_set(Lock::Alone, byte_of_node(number));
        if own.contains(&number) || !self.file.as_ref().map_or(Ok(true), try_lock).unwrap_or(false) {
            return None;
        }
        let done = does();
        if let Some(file) = &self.file {
            let _ = file.set(Lock::Free, byte_of_node(number));
        }
        Some(done)
    }

    /// Releases the identity of an endpoint that has ended.
    pub(super) fn release(&self, identity: Identity) {
        if !self.is_fork() {
            self.identities.release(self.file.as_ref(), identity);
        }
    }

    /// Whether no endpoint has this identity any more. An unknown state counts as alive.
    pub(super) fn is_dead(&self, identity: Identity) -> bool {
        !self.is_fork() && !self.identities.is_alive(self.file.as_ref(), identity)
    }
}
