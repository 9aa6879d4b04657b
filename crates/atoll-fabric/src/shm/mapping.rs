//! A file, mapped shared, or anonymous memory.
//!
//! A file has its length from the start, and no pages. Pages are provided span by span
//! ([`Mapping::provide`]). So a full `/dev/shm` is an error at that call, and never a signal later.
//! The mapping starts at a multiple of 2 MiB. Each piece of 2 MiB becomes a huge page where
//! possible, which only makes it faster.

use super::names::{FileId, id_of, path_of};
use crate::FabricError;
use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

/// Bytes of a page.
pub(super) const PAGE_BYTES: u64 = 4096;
/// Bytes of a huge page: pages are provided in pieces of this many.
pub(super) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The smallest region, one page.
const BYTES_MIN: u64 = 4096;

/// A shared mapping, unmapped when dropped.
pub(super) struct Mapping {
    /// Aligned to 2 MiB; `bytes` and `tail` from it are mapped readable and writable until drop.
    base: NonNull<u8>,
    bytes: usize,
    /// Bytes behind those that verbs reach.
    tail: usize,
    /// The file behind it; `None` for anonymous memory.
    file: Option<File>,
}

// SAFETY: the mapping is plain memory, valid from every thread; all access goes through `Words`,
// atomically.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Anonymous memory of this process alone, without pages, and a tail behind it.
    pub(super) fn anonymous(bytes: u64, tail: u64) -> Result<Self, FabricError> {
        Self::map("an anonymous region", None, bytes, tail)
    }

    /// A new file of `bytes` and a tail, without pages.
    pub(super) fn create(name: &str, bytes: u64, tail: u64) -> Result<(Self, FileId), FabricError> {
        use std::os::unix::fs::OpenOptionsExt;
        let path = path_of(name)?;
        check_size(name, bytes)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => FabricError::Exists(name.to_owned()),
            _ => system(name, "create the file", error),
        })?;
        let made = || {
            file.set_len(bytes + tail).map_err(|error| system(name, "size the file", error))?;
            let id = id_of(&file).map_err(|error| system(name, "look at the file", error))?;
            Ok((Self::map(name, Some(file), bytes, tail)?, id))
        };
        // A region that could not be made leaves no file behind.
        made().inspect_err(|_| drop(std::fs::remove_file(&path)))
    }

    /// An existing file, of which the last `tail` bytes are the tail.
    pub(super) fn open(name: &str, tail: u64) -> Result<(Self, FileId), FabricError> {
        let path = path_of(name)?;
        let file = OpenOptions::new().read(true).write(true).open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => FabricError::Absent(name.to_owned()),
            _ => system(name, "open the file", error),
        })?;
        let bytes = file.metadata().map_err(|error| system(name, "size the file", error))?.len().saturating_sub(tail);
        check_size(name, bytes)?;
        let id = id_of(&file).map_err(|error| system(name, "look at the file", error))?;
        Ok((Self::map(name, Some(file), bytes, tail)?, id))
    }

    /// Whether it is no file's.
    pub(super) fn is_anonymous(&self) -> bool {
        self.file.is_none()
    }

    /// First byte of the mapping.
    #[inline]
    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Length of the mapping, without its tail.
    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Bytes behind those that verbs reach.
    #[inline]
    pub(super) fn tail_bytes(&self) -> u64 {
        self.tail as u64
    }

    /// Makes sure that the page of the tail is there; `false` if the host has none left.
    pub(super) fn provide_tail(&self) -> bool {
        self.tail == 0 || self.provide(self.bytes(), self.tail_bytes())
    }

    /// Bytes of whole pages that are mapped.
    fn mapped_bytes(&self) -> u64 {
        (self.bytes + self.tail).next_multiple_of(PAGE_BYTES as usize) as u64
    }

    fn map(name: &str, file: Option<File>, bytes: u64, tail: u64) -> Result<Self, FabricError> {
        check_size(name, bytes)?;
        let too_large = || system(name, "map", io::ErrorKind::OutOfMemory.into());
        let (bytes, tail) = (usize::try_from(bytes).map_err(|_| too_large())?, tail as usize);
        let all = bytes.checked_add(tail).ok_or_else(too_large)?;
        let reserved = all.checked_add(HUGE_PAGE_BYTES).ok_or_else(too_large)?;
        let (flags, fd) = match &file {
            Some(file) => (libc::MAP_SHARED, file.as_raw_fd()),
            None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
        };
        // SAFETY: asks the kernel for fresh address space; no existing mapping is touched.
        let start = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            libc::mmap(std::ptr::null_mut(), reserved, libc::PROT_NONE, flags, -1, 0)
        };
        if start == libc::MAP_FAILED {
            return Err(system(name, "find address space", io::Error::last_os_error()));
        }
        let lead = (start as usize).next_multiple_of(HUGE_PAGE_BYTES) - start as usize;
        let base = start.cast::<u8>().wrapping_add(lead);
        let mapped_bytes = all.next_multiple_of(PAGE_BYTES as usize);
        // SAFETY: `base .. base + mapped_bytes` lies inside the address space reserved above, which
        // no other code knows of.
        let mapped = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(base.cast(), all, protection, flags | libc::MAP_FIXED, fd, 0)
        };
        // SAFETY: gives back the reserved address space before and behind the mapping, which is
        // PROT_NONE and ours.
        unsafe {
            if mapped == libc::MAP_FAILED {
                let error = io::Error::last_os_error();
                libc::munmap(start, reserved);
                return Err(system(name, "map", error));
            }
            if lead > 0 {
                libc::munmap(start, lead);
            }
            let behind = reserved - lead - mapped_bytes;
            if behind > 0 {
                libc::munmap(base.wrapping_add(mapped_bytes).cast(), behind);
            }
        }
        let base = NonNull::new(base).expect("a mapping is not at address zero");
        let mapping = Self { base, bytes, tail, file };
        // Asked for before the first touch, so that pages of anonymous memory are huge from the
        // start.
        let _ = mapping.advise_span(0, mapped_bytes as u64, libc::MADV_HUGEPAGE);
        Ok(mapping)
    }

    /// Brings what was written to the file's disk.
    pub(super) fn sync(&self, name: &str) -> Result<(), FabricError> {
        // SAFETY: the span is our own mapping; the call reads it and changes nothing.
        let rc = unsafe { libc::msync(self.base.as_ptr().cast::<c_void>(), self.bytes, libc::MS_SYNC) };
        if rc == 0 { Ok(()) } else { Err(system(name, "bring it to the disk", io::Error::last_os_error())) }
    }

    /// Gives the pages that lie whole in a span back to the host, as far as the kernel and the file
    /// system can; how many bytes. They read as zeros from then on.
    pub(super) fn discard(&self, start: u64, bytes: u64) -> u64 {
        let first = start.next_multiple_of(PAGE_BYTES);
        let last = start.saturating_add(bytes).min(self.bytes()) / PAGE_BYTES * PAGE_BYTES;
        if first >= last {
            return 0;
        }
        // Of a file its pages go, which all who have it mapped share; of anonymous memory this
        // process's own.
        let gone = |advice| self.advise_span(first, last - first, advice).is_ok();
        if gone(libc::MADV_REMOVE) || self.is_anonymous() && gone(libc::MADV_DONTNEED) { last - first } else { 0 }
    }

    /// Makes sure that all pages of a span are there; `false` if the host has none left. Nothing
    /// changes where they are.
    pub(super) fn provide(&self, start: u64, bytes: u64) -> bool {
        const PIECE: u64 = HUGE_PAGE_BYTES as u64;
        let mut next = start / PAGE_BYTES * PAGE_BYTES;
        let end = start.saturating_add(bytes).next_multiple_of(PAGE_BYTES).min(self.mapped_bytes());
        while next < end {
            let piece_end = (next / PIECE + 1) * PIECE;
            let bytes = end.min(piece_end) - next;
            if !self.provide_piece(next, bytes) {
                return false;
            }
            if bytes == PIECE && self.file.is_some() {
                // Piece by piece, right behind its pages: the kernel takes several times as long
                // for all at once. Best effort: small pages work as well.
                const MADV_COLLAPSE: i32 = 25;
                let _ = self.advise_span(next, bytes, MADV_COLLAPSE);
            }
            next += bytes;
        }
        true
    }

    /// Whether all pages of a span are there, as far as the file system can tell. A file system
    /// that cannot tell says so of every page.
    pub(super) fn is_there(&self, start: u64, end: u64) -> bool {
        let Some(file) = &self.file else { return false };
        let first = start / PAGE_BYTES * PAGE_BYTES;
        // SAFETY: the descriptor is open for as long as `file` lives; no other code relies on its
        // position.
        let hole = unsafe { libc::lseek(file.as_raw_fd(), first as libc::off_t, libc::SEEK_HOLE) };
        u64::try_from(hole).is_ok_and(|hole| hole >= end)
    }

    fn provide_piece(&self, start: u64, bytes: u64) -> bool {
        let populated = || self.advise_span(start, bytes, libc::MADV_POPULATE_WRITE).is_ok();
        let Some(file) = &self.file else { return populated() };
        loop {
            let [offset, length] = [start, bytes].map(|number| number as libc::off_t);
            // SAFETY: the descriptor is open for as long as `file` lives. The call adds pages to
            // the file, of which it changes no byte.
            let rc = unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, offset, length) };
            if rc == 0 {
                return true;
            }
            match io::Error::last_os_error().raw_os_error() {
                Some(libc::EINTR) => {}
                // A file system that does not reserve.
                Some(libc::EOPNOTSUPP | libc::ENOSYS) => return populated(),
                _ => return false,
            }
        }
    }

    /// For a span of whole pages that lies in the mapping.
    fn advise_span(&self, start: u64, bytes: u64, advice: i32) -> io::Result<()> {
        debug_assert!(start.is_multiple_of(PAGE_BYTES) && start + bytes <= self.mapped_bytes());
        // SAFETY: the span lies in our own mapping. Advice that discards its contents makes zeros
        // of them, which for memory that is only ever read and written as atomic words is a store
        // like any other.
        let rc = unsafe {
            libc::madvise(self.base.as_ptr().wrapping_add(start as usize).cast::<c_void>(), bytes as usize, advice)
        };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `map` mapped; every `Words` borrows a region that keeps this
        // value alive.
        unsafe { libc::munmap(self.base.as_ptr().cast::<c_void>(), self.mapped_bytes() as usize) };
    }
}

fn check_size(name: &str, bytes: u64) -> Result<(), FabricError> {
    if bytes < BYTES_MIN || !bytes.is_multiple_of(8) {
        return Err(FabricError::BadSize { name: name.to_owned(), bytes, least: BYTES_MIN });
    }
    Ok(())
}

fn system(name: &str, what: &'static str, source: io::Error) -> FabricError {
    FabricError::System { name: name.to_owned(), what, source }
}
