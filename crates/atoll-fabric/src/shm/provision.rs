//! The pages of a region: how the host provides them, and how it gets them back.
//!
//! A page is requested from the kernel before a verb touches it. A verb that touches a page which
//! the host cannot provide would kill its process. A host without free memory is asked again only
//! after [`ASK_AGAIN`].

use super::host::Room;
use super::mapping::PAGE_BYTES;
use super::region::ShmRegion;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Bytes that are provided at most between two looks at the host's limits.
const ALLOWANCE_BYTES_MAX: u64 = 256 << 20;
/// How long a host that had no memory left is not asked again.
const ASK_AGAIN: Duration = Duration::from_millis(100);

impl ShmRegion {
    /// What the host has left for this region's pages.
    pub(super) fn room(&self) -> Option<Room> {
        Room::of_region(self.name.as_deref())
    }

    /// Whether the host's limits leave room for this many bytes. Pages that are there already count
    /// again, since this process cannot tell which those are.
    fn may_take(&self, bytes: u64) -> bool {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        if self.allowance.fetch_sub(bytes, Ordering::Relaxed) >= bytes {
            return true;
        }
        // A file system that is full says so itself.
        let room = Room::of_memory_of_region(self.name.as_deref());
        let usable = room.map_or(u64::MAX, |room| room.usable_bytes());
        let usable = i64::try_from(usable).unwrap_or(i64::MAX);
        let allowance = (usable / 4).min(ALLOWANCE_BYTES_MAX as i64).min(usable.saturating_sub(bytes));
        self.allowance.store(allowance.max(0), Ordering::Relaxed);
        usable >= bytes
    }

    /// Gives the memory of a span back to the host, as far as it can be: whole pages, where the
    /// file system can make holes. Gives how many bytes. They read as zeros from then on, in every
    /// process. A process that writes there gets memory again if the host has some, and is killed
    /// if it has none: see [`ShmRegion::reserve`].
    pub fn discard(&self, offset: u64, bytes: u64) -> u64 {
        self.mapping.discard(offset, bytes)
    }

    /// Makes sure that a span has all its pages; `false` if the host has no memory left for them,
    /// or none that it could give without killing a process. Such a host is asked again only after
    /// 100 ms.
    pub fn reserve(&self, offset: u64, bytes: u64) -> bool {
        let end = offset.saturating_add(bytes).min(self.mapping.bytes());
        if self.was_short() {
            return end <= offset || self.mapping.is_there(offset, end);
        }
        if end > self.pages.there() {
            // No page beyond was given back: whole pieces are quicker.
            let (first, last) = self.pages.around(offset, end);
            if self.provide(first, last) {
                return true;
            }
        }
        let is_there = end <= offset || self.provide(offset, end);
        if !is_there {
            *self.short.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
        is_there
    }

    /// Whether the host had no memory left a moment ago.
    fn was_short(&self) -> bool {
        let short = *self.short.lock().unwrap_or_else(PoisonError::into_inner);
        short.is_some_and(|since| since.elapsed() < ASK_AGAIN)
    }

    fn provide(&self, start: u64, end: u64) -> bool {
        let is_there = self.may_take(end - start) && self.mapping.provide(start, end - start);
        if is_there {
            self.pages.note(start, end);
        }
        is_there
    }

    /// Makes sure that a verb can touch the bytes from `start` to `end`. What is there already is
    /// asked for in whole pieces, since each question is a call of the kernel. What is missing is
    /// provided by the page, since around it may be pages that were given back.
    pub(super) fn touch(&self, start: u64, end: u64) -> bool {
        // The pages of anonymous memory come by themselves.
        if self.pages.has(start, end) || self.mapping.is_anonymous() {
            return true;
        }
        let (first, last) =
            (start / PAGE_BYTES * PAGE_BYTES, end.next_multiple_of(PAGE_BYTES).min(self.mapping.bytes()));
        for (first, last) in [self.pages.around(start, end), (first, last)] {
            if self.mapping.is_there(first, last) {
                self.pages.note(first, last);
                return true;
            }
        }
        self.provide(first, last)
    }
}
