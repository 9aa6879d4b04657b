//! Memory that the processes of a host share without a fabric: near caches are kept in it.
//!
//! It has a name that all its users can compute: the first process makes it, the others find it,
//! and the last one removes it. What processes that were killed have left is removed by the next
//! process that makes such memory.
//!
//! ```text
//! file   /dev/shm/atoll-KIND-NAME-CLOCKS    magic | 7 words | the words of its users
//! ```
//!
//! | only a file | |
//! |---|---|
//! | of this user, which no other may read or write | is opened, and removed |
//! | in the same time namespace | is found, so that times that are kept in it can be compared |
//! | that begins with the magic word | is opened; it has its name from then on |
//!
//! The file of memory that is being made has a name of its own, which ends in `.new`.

use super::mapping::PAGE_BYTES;
use super::process::ForkGuard;
use super::region::ShmRegion;
use super::words::Words;
use crate::{FabricError, Identity, Region};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Where such memory is: a file system in memory.
const DIRECTORY: &str = "/dev/shm";
/// The first word of its file.
const MAGIC: u64 = u64::from_le_bytes(*b"atollmem");
/// Words of the file before those of its users: a line.
const HEAD_WORDS: usize = 8;
/// How often a process tries to open what others make and remove at the same time, and how long it
/// waits each time.
const TRIES: u32 = 2000;
const PAUSE: Duration = Duration::from_millis(1);

/// Memory that processes of a host share, as words. All of it is zero at first. Its first words
/// have their pages; those behind them are [provided](HostMemory::provide) before they are used.
pub struct HostMemory {
    region: ShmRegion,
    /// Of memory that other processes can find. Dropped behind the region.
    file: Option<LeftFile>,
}

impl HostMemory {
    /// Memory of this process alone, of which so many words are there.
    ///
    /// # Errors
    /// [`FabricError::NoRoom`] if the host lacks it.
    pub fn of_process(words: usize, there: usize) -> Result<Self, FabricError> {
        Ok(Self { region: ShmRegion::anonymous_sparse(file_bytes(words), file_bytes(there))?, file: None })
    }

    /// The memory that the processes of this user on this host have by a name of this kind. All of
    /// them give the same sizes. It is made if there is none.
    ///
    /// # Errors
    /// [`FabricError::NoRoom`] if the host lacks it; [`FabricError::BadSize`] if another process
    /// made it with another size; [`FabricError::BadName`] if such a file is something else;
    /// [`FabricError::System`] if there can be none; [`FabricError::Absent`] if a process that
    /// removes it stands still.
    pub fn of_host(kind: &str, name: &str, words: usize, there: usize) -> Result<Self, FabricError> {
        let (path, bytes) = (path_of_kind(kind, name), file_bytes(words));
        Self::remove_left(kind);
        for _ in 0..TRIES {
            match Self::open(&path, file_bytes(there))? {
                Opened::Memory(found) if found.region.attributes().bytes == bytes => return Ok(*found),
                Opened::Memory(_) => return Err(FabricError::BadSize { name: path, bytes, least: bytes }),
                Opened::Busy => std::thread::sleep(PAUSE),
                Opened::Absent => {
                    if let Some(made) = Self::make(&path, words, there, |new| std::fs::hard_link(new, &path))? {
                        return Ok(made);
                    }
                }
            }
        }
        Err(FabricError::Absent(path))
    }

    /// New memory by a name of this kind, all of it there, in place of what a process may have by
    /// it, which keeps that for itself.
    ///
    /// # Errors
    /// As [`HostMemory::of_host`].
    #[cfg(feature = "tcp")]
    pub(crate) fn of_host_anew(kind: &str, name: &str, words: usize) -> Result<Self, FabricError> {
        let path = path_of_kind(kind, name);
        Self::remove_left(kind);
        for _ in 0..TRIES {
            if let Some(made) = Self::make(&path, words, words, |new| std::fs::rename(new, &path))? {
                return Ok(made);
            }
        }
        Err(FabricError::Absent(path))
    }

    /// The memory of this name and kind, all of it there, if a process has made it.
    ///
    /// # Errors
    /// As [`HostMemory::of_host`].
    pub fn find(kind: &str, name: &str) -> Result<Option<Self>, FabricError> {
        match Self::open(&path_of_kind(kind, name), u64::MAX)? {
            Opened::Memory(found) => Ok(Some(*found)),
            Opened::Absent | Opened::Busy => Ok(None),
        }
    }

    /// Whether processes of this user have memory of this name and kind.
    pub fn is_there(kind: &str, name: &str) -> bool {
        is_own(Path::new(&path_of_kind(kind, name))).is_ok()
    }

    /// Removes what processes that were killed have left of a kind.
    pub fn remove_left(kind: &str) {
        let prefix = format!("atoll-{kind}-");
        for entry in std::fs::read_dir(DIRECTORY).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_of_kind = entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix));
            if let Some(path) = path.to_str().filter(|_| is_of_kind) {
                let _ = remove_if_left(path);
            }
        }
    }

    fn open(path: &str, there: u64) -> Result<Opened, FabricError> {
        let number = match is_own(Path::new(path)) {
            Ok(number) => number,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Opened::Absent),
            Err(_) => return Err(FabricError::BadName(path.to_owned())),
        };
        let region = match ShmRegion::try_open_sparse(path) {
            Ok(Some(region)) if region.presence.file_id() == Some(number) => region,
            Ok(_) => return Ok(Opened::Busy),
            Err(FabricError::Absent(_)) => return Ok(Opened::Absent),
            Err(error) => return Err(error),
        };
        if !has_magic(&region) {
            return Err(FabricError::BadName(path.to_owned()));
        }
        let bytes = there.max(PAGE_BYTES).min(region.attributes().bytes);
        if !region.reserve(0, bytes) {
            let why = "the host has no memory left".to_owned();
            return Err(FabricError::NoRoom { name: path.to_owned(), bytes, why });
        }
        Ok(Opened::Memory(Box::new(Self { region, file: Some(LeftFile(path.to_owned())) })))
    }

    /// Makes memory in a file that `name` gives its name; `None` if it has one already.
    fn make(
        path: &str,
        words: usize,
        there: usize,
        name: impl FnOnce(&str) -> std::io::Result<()>,
    ) -> Result<Option<Self>, FabricError> {
        let new = format!("{path}.{:016x}.new", super::process::random_word());
        let region = match ShmRegion::create_sparse(&new, file_bytes(words), file_bytes(there)) {
            Ok(region) => region,
            // A process that removes what was left took it for that.
            Err(FabricError::Absent(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        region.word_at(0).expect("a file has a page").store(MAGIC, Ordering::Release);
        let named = name(&new);
        // It may have been renamed.
        let _ = std::fs::remove_file(&new);
        match named {
            Ok(()) => Ok(Some(Self { region, file: Some(LeftFile(path.to_owned())) })),
            Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => Ok(None),
            Err(source) => Err(FabricError::System { name: path.to_owned(), what: "name the file", source }),
        }
    }

    /// Makes sure that so many words from one on are there; `false` if the host has no memory left
    /// for them.
    ///
    /// # Panics
    /// If the memory does not have them.
    pub fn provide(&self, first: usize, count: usize) -> bool {
        assert!(first.checked_add(count).is_some_and(|end| end <= self.len()), "words of the memory");
        self.region.reserve(8 * (HEAD_WORDS + first) as u64, 8 * count as u64)
    }

    /// Its words.
    pub fn len(&self) -> usize {
        (self.region.attributes().bytes / 8) as usize - HEAD_WORDS
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether other processes of the host can find it.
    pub fn is_of_host(&self) -> bool {
        self.file.is_some()
    }

    fn words(&self, first: usize, count: usize) -> Words {
        let first = first.checked_add(HEAD_WORDS).expect("a word of the memory");
        let end = first.checked_add(count).and_then(|end| end.checked_mul(8));
        assert!(end.is_some_and(|end| end as u64 <= self.region.mapping.bytes()), "words of the memory");
        // SAFETY: the span lies in the mapping, which lives as long as `self`, and its pages are
        // there; its first byte is that of a word; every access to a mapping in this crate is
        // atomic, and those from outside are of atomic words.
        unsafe { Words::new(self.region.mapping.base().add(8 * first), count) }
    }

    /// The word with this number, which is there.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub fn word(&self, number: usize) -> &AtomicU64 {
        let offset = number.checked_add(HEAD_WORDS).and_then(|number| number.checked_mul(8));
        offset.and_then(|offset| self.region.word_at(offset as u64)).expect("a word of the memory")
    }

    /// Loads words from one on, in no promised order against other words. They are there.
    ///
    /// # Panics
    /// If the memory does not have them.
    #[inline]
    pub fn load(&self, first: usize, into: &mut [u64]) {
        self.words(first, into.len()).load_into(into);
    }

    /// Loads bytes from the beginning of a word on, in the same way.
    ///
    /// # Panics
    /// If the memory does not have them.
    #[inline]
    pub fn load_bytes(&self, first: usize, into: &mut [u8]) {
        self.words(first, into.len().div_ceil(8)).load_bytes(0, into);
    }

    /// Stores words from one on, in no promised order against other words. They are there.
    ///
    /// # Panics
    /// If the memory does not have them.
    pub fn store(&self, first: usize, from: &[u64]) {
        self.words(first, from.len()).store_from(from);
    }

    /// Stores bytes from the beginning of a word on, in the same way; zeros behind them, to the end
    /// of a word.
    ///
    /// # Panics
    /// If the memory does not have them.
    pub fn store_bytes(&self, first: usize, from: &[u8]) {
        self.words(first, from.len().div_ceil(8)).store_bytes(from);
    }

    /// Whether no user has this identity any more. An unknown state counts as alive.
    pub fn is_dead(&self, who: Identity) -> bool {
        self.region.presence.is_dead(who)
    }
}

impl std::fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostMemory").field("words", &self.len()).field("file", &self.file).finish()
    }
}

/// What an attempt to open memory has found.
enum Opened {
    Memory(Box<HostMemory>),
    Absent,
    /// It is being removed, or was made anew meanwhile.
    Busy,
}

/// The path of a file that this process has had open. The last one that drops it removes the file.
#[derive(Debug)]
struct LeftFile(String);

impl Drop for LeftFile {
    fn drop(&mut self) {
        let _ = remove_if_left(&self.0);
    }
}

/// A user of such memory, with an identity that no other living user has.
pub struct HostUser {
    memory: Arc<HostMemory>,
    identity: Identity,
    guard: ForkGuard,
    process: u64,
}

impl HostUser {
    /// A user of this memory.
    pub fn new(memory: Arc<HostMemory>) -> Self {
        let identity = memory.region.presence.lend();
        let (guard, process) = ForkGuard::new();
        Self { memory, identity, guard, process }
    }

    fn is_fork(&self) -> bool {
        self.guard.number() != self.process
    }

    /// The memory.
    #[inline]
    pub fn memory(&self) -> &Arc<HostMemory> {
        &self.memory
    }

    /// Its identity: that of no user in a fork of its process, and where the file system locks
    /// nothing.
    #[inline]
    pub fn identity(&self) -> Identity {
        if self.is_fork() { Identity::NOBODY } else { self.identity }
    }
}

impl Drop for HostUser {
    fn drop(&mut self) {
        if self.identity() != Identity::NOBODY {
            self.memory.region.presence.release(self.identity);
        }
    }
}

impl std::fmt::Debug for HostUser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostUser").field("memory", &self.memory).field("identity", &self.identity).finish()
    }
}

fn file_bytes(words: usize) -> u64 {
    (8 * (HEAD_WORDS + words) as u64).max(PAGE_BYTES)
}

pub(super) fn path_of_kind(kind: &str, name: &str) -> String {
    let clocks = std::fs::read_link("/proc/self/ns/time").ok();
    let clocks = clocks.and_then(|link| Some(link.to_str()?.chars().filter(char::is_ascii_digit).collect::<String>()));
    format!("{DIRECTORY}/atoll-{kind}-{name}-{}", clocks.unwrap_or_default())
}

/// The number of a file that is this user's alone, and that of its file system.
fn is_own(path: &Path) -> std::io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    let is_own = found.is_file() && found.uid() == super::process::user() && found.mode() & 0o077 == 0;
    if is_own { Ok((found.dev(), found.ino())) } else { Err(ErrorKind::PermissionDenied.into()) }
}

fn has_magic(region: &ShmRegion) -> bool {
    // A file that is none of ours may have no page there.
    let is_there = region.mapping.is_there(0, PAGE_BYTES);
    is_there && region.word_at(0).is_some_and(|word| word.load(Ordering::Acquire) == MAGIC)
}

/// Removes memory that no process has open.
fn remove_if_left(path: &str) -> Result<(), FabricError> {
    if is_own(Path::new(path)).is_err() {
        return Ok(());
    }
    // Of a file that is being made, or of which a process was killed as it made it.
    let number = path.strip_suffix(".new").and_then(|path| path.rsplit_once('.')).map(|(_, number)| number);
    let is_new = number.is_some_and(|number| number.len() == 16 && number.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let alone = match ShmRegion::open_alone(path) {
        Ok(Some(alone)) => alone,
        Ok(None) => return Ok(()),
        Err(FabricError::BadSize { bytes: 0, .. }) if is_new => return ShmRegion::remove(path),
        Err(error) => return Err(error),
    };
    if alone.presence.is_named(path) && (is_new || has_magic(&alone)) {
        ShmRegion::remove(path)?;
    }
    Ok(())
}
