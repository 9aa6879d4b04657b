//! Memory that the processes of a host share without a fabric: near caches are kept in it.
//!
//! It has a name that all its users can compute: the first process makes it, the others find it,
//! and the last one removes it. Processes in different time namespaces find different memory, so
//! that they can compare times that are kept in it. What processes that were killed have left is removed by whoever
//! makes such memory next. The first word of its file tells it from every other file.
//!
//! A user of it has an [identity](HostUser) that the others see end: the kernel's locks prove it,
//! as those of endpoints.

use super::mapping::PAGE_BYTES;
use super::region::ShmRegion;
use super::words::Words;
use crate::{FabricError, Identity, Region};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where such memory is: a file system in memory.
const DIRECTORY: &str = "/dev/shm";
/// The first word of its file.
const MAGIC: u64 = u64::from_le_bytes(*b"atollmem");
/// Words of the file before those of its users: a line.
const HEAD_WORDS: usize = 8;
/// How often a process tries to open what others make and remove at the same time.
const TRIES: u32 = 16;

/// Memory that processes of a host share, as words. All of it is zero at first. Its first words have
/// their pages; those behind them are [provided](HostMemory::provide) before they are used.
pub struct HostMemory {
    region: Arc<ShmRegion>,
    /// The path of its file, if other processes can find it.
    path: Option<String>,
}

impl HostMemory {
    /// Memory of this process alone, of which so many words are there.
    ///
    /// # Errors
    /// [`FabricError::NoRoom`] if the host lacks it.
    pub fn of_process(words: usize, there: usize) -> Result<Self, FabricError> {
        let region = ShmRegion::anonymous_sparse(file_bytes(words), file_bytes(there))?;
        Ok(Self { region: Arc::new(region), path: None })
    }

    /// The memory that the processes of this user on this host have by a name of this kind. All of
    /// them give the same sizes. It is made if there is none.
    ///
    /// # Errors
    /// [`FabricError::NoRoom`] if the host lacks it; [`FabricError::BadSize`] if another process
    /// made it with another size; [`FabricError::BadName`] if such a file is something else;
    /// [`FabricError::System`] if there can be none.
    pub fn of_host(kind: &str, name: &str, words: usize, there: usize) -> Result<Self, FabricError> {
        let (path, bytes, there) = (path_of_kind(kind, name), file_bytes(words), file_bytes(there));
        remove_left(kind, &path);
        let mut failed = FabricError::Absent(path.clone());
        for _ in 0..TRIES {
            match Self::open(&path, there) {
                Ok(found) if found.region.attributes().bytes == bytes => return Ok(found),
                Ok(_) => return Err(FabricError::BadSize { name: path, bytes, least: bytes }),
                Err(FabricError::Absent(_)) => {}
                // An empty file is being made.
                Err(error @ FabricError::BadSize { bytes: 0, .. }) => {
                    failed = error;
                    std::thread::yield_now();
                    continue;
                }
                Err(error) => return Err(error),
            }
            match ShmRegion::create_sparse(&path, bytes, there) {
                Ok(region) if region.presence.is_named(&path) => return Self::begun(region, path),
                // A process that removes what was left took it for that.
                Ok(_) => {}
                Err(error @ (FabricError::Exists(_) | FabricError::Absent(_))) => failed = error,
                Err(error) => return Err(error),
            }
        }
        Err(failed)
    }

    /// New memory by a name of this kind, all of it there, in place of what a process may have by
    /// it, which keeps that for itself.
    ///
    /// # Errors
    /// As [`HostMemory::of_host`].
    #[cfg(feature = "tcp")]
    pub(crate) fn of_host_anew(kind: &str, name: &str, words: usize) -> Result<Self, FabricError> {
        let path = path_of_kind(kind, name);
        match Self::open(&path, 0) {
            Ok(_) => ShmRegion::remove(&path)?,
            Err(FabricError::Absent(_)) => {}
            Err(error) => return Err(error),
        }
        Self::of_host(kind, name, words, words)
    }

    /// The memory of this name and kind, all of it there, if a process has made it.
    ///
    /// # Errors
    /// As [`HostMemory::of_host`].
    pub fn find(kind: &str, name: &str) -> Result<Option<Self>, FabricError> {
        match Self::open(&path_of_kind(kind, name), u64::MAX) {
            Ok(found) => Ok(Some(found)),
            Err(FabricError::Absent(_) | FabricError::BadSize { bytes: 0, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn open(path: &str, there: u64) -> Result<Self, FabricError> {
        let region = ShmRegion::open_sparse(path)?;
        // Its maker reserves its pages, and may not have come so far.
        let bytes = there.max(PAGE_BYTES).min(region.attributes().bytes);
        if !region.reserve(0, bytes) {
            let why = "the host has no memory left".to_owned();
            return Err(FabricError::NoRoom { name: path.to_owned(), bytes, why });
        }
        Self::begun(region, path.to_owned())
    }

    fn begun(region: ShmRegion, path: String) -> Result<Self, FabricError> {
        let head = region.word_at(0).map(|word| word.compare_exchange(0, MAGIC, Ordering::Relaxed, Ordering::Relaxed));
        match head {
            Some(Ok(_) | Err(MAGIC)) => Ok(Self { region: Arc::new(region), path: Some(path) }),
            _ => Err(FabricError::BadName(path)),
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
        self.path.is_some()
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

    /// Loads words from one on, in no promised order against other words.
    ///
    /// # Panics
    /// If not all of them are there.
    #[inline]
    pub fn load(&self, first: usize, into: &mut [u64]) {
        self.words(first, into.len()).load_into(into);
    }

    /// Loads bytes from the beginning of a word on, in the same way.
    ///
    /// # Panics
    /// If not all of them are there.
    #[inline]
    pub fn load_bytes(&self, first: usize, into: &mut [u8]) {
        self.words(first, into.len().div_ceil(8)).load_bytes(0, into);
    }

    /// Stores words from one on, in no promised order against other words.
    ///
    /// # Panics
    /// If not all of them are there.
    pub fn store(&self, first: usize, from: &[u64]) {
        self.words(first, from.len()).store_from(from);
    }

    /// Stores bytes from the beginning of a word on, in the same way; zeros behind them, to the end
    /// of a word.
    ///
    /// # Panics
    /// If not all of them are there.
    pub fn store_bytes(&self, first: usize, from: &[u8]) {
        self.words(first, from.len().div_ceil(8)).store_bytes(from);
    }

    /// Whether no user has this identity any more. An unknown state counts as alive.
    pub fn is_dead(&self, who: Identity) -> bool {
        self.region.presence.is_dead(who)
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if let Some(path) = &self.path
            && self.region.is_last_of(path)
        {
            let _ = ShmRegion::remove(path);
        }
    }
}

impl std::fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostMemory").field("words", &self.len()).field("path", &self.path).finish()
    }
}

/// A user of such memory, with an identity that no other living user has.
#[derive(Debug)]
pub struct HostUser {
    memory: Arc<HostMemory>,
    identity: Identity,
}

impl HostUser {
    /// A user of this memory. In a fork, or where the file system locks nothing, its identity is
    /// [`Identity::NOBODY`].
    pub fn new(memory: Arc<HostMemory>) -> Self {
        let identity = memory.region.presence.lend();
        Self { memory, identity }
    }

    /// The memory.
    #[inline]
    pub fn memory(&self) -> &Arc<HostMemory> {
        &self.memory
    }

    /// Its identity.
    #[inline]
    pub fn identity(&self) -> Identity {
        self.identity
    }
}

impl Drop for HostUser {
    fn drop(&mut self) {
        if self.identity != Identity::NOBODY {
            self.memory.region.presence.release(self.identity);
        }
    }
}

fn file_bytes(words: usize) -> u64 {
    (8 * (HEAD_WORDS + words) as u64).max(PAGE_BYTES)
}

pub(super) fn path_of_kind(kind: &str, name: &str) -> String {
    // Processes whose clocks differ do not find each other's.
    let clocks = std::fs::read_link("/proc/self/ns/time").ok();
    let clocks = clocks.and_then(|link| Some(link.to_str()?.chars().filter(char::is_ascii_digit).collect::<String>()));
    format!("{DIRECTORY}/atoll-{kind}-{name}-{}", clocks.unwrap_or_default())
}

/// Removes what processes that were killed have left of a kind, except `path`.
fn remove_left(kind: &str, path: &str) {
    let prefix = format!("atoll-{kind}-");
    for entry in std::fs::read_dir(DIRECTORY).into_iter().flatten().flatten() {
        let found = entry.path();
        let is_of_kind = entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix));
        if let Some(found) = found.to_str().filter(|found| is_of_kind && *found != path) {
            // A file of another user cannot be opened.
            let _ = remove_if_left(found);
        }
    }
}

/// Removes memory that no process has open.
fn remove_if_left(path: &str) -> Result<(), FabricError> {
    if let Some(alone) = ShmRegion::open_alone(path)?
        && alone.word_at(0).is_some_and(|word| word.load(Ordering::Relaxed) == MAGIC)
        && alone.is_last_of(path)
    {
        ShmRegion::remove(path)?;
    }
    Ok(())
}
