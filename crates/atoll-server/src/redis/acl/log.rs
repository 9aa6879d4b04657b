//! What was refused: ACL LOG, and the counts of INFO.
//!
//! An entry like one of the last ten within a minute is counted with it. The log keeps the newest
//! `acllog-max-len` entries, 128 at first, each of at most [`OBJECT_BYTES_MAX`] bytes of what was
//! refused and [`CLIENT_BYTES_MAX`] of the connection's line.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// The most bytes of what was refused.
const OBJECT_BYTES_MAX: usize = 256;
/// The most bytes of the line of a connection.
const CLIENT_BYTES_MAX: usize = 1024;
/// How many entries a new one is compared with.
const COMPARED: usize = 10;
/// Entries that are further apart are not counted together.
const APART_MAX: Duration = Duration::from_secs(60);
/// Entries at first.
const ENTRIES_MAX: u64 = 128;

/// Why something was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Name and password do not belong together.
    Auth,
    /// The command.
    Command,
    /// A key.
    Key,
    /// A channel.
    Channel,
}

impl Reason {
    /// All of them, with their names in INFO.
    pub(crate) const ALL: [(Self, &'static str); 4] =
        [(Self::Auth, "auth"), (Self::Command, "cmd"), (Self::Key, "key"), (Self::Channel, "channel")];

    /// Its name in the log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::Command => "command",
            Self::Key => "key",
            Self::Channel => "channel",
        }
    }
}

/// Where something was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    /// When a command arrived.
    Arriving,
    /// When a command arrived that would wait for EXEC.
    Queueing,
    /// When EXEC ran a command.
    Executing,
    /// When a script called a command.
    InScript,
}

impl Happened {
    /// Its name in the log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Arriving => "toplevel",
            Self::Queueing | Self::Executing => "multi",
            Self::InScript => "lua",
        }
    }
}

/// An entry of the log.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Its number, by the order in which entries were made.
    pub(crate) id: u64,
    /// How often it was refused.
    pub(crate) count: u64,
    pub(crate) reason: Reason,
    pub(crate) happened: Happened,
    /// The command, the key or the channel.
    pub(crate) object: Vec<u8>,
    pub(crate) user: Arc<[u8]>,
    /// The first time.
    pub(crate) first: SystemTime,
    /// The last time.
    pub(crate) at: Instant,
    /// The line of the last connection.
    pub(crate) client: String,
}

impl Entry {
    /// Something was refused now, for the first time.
    pub(crate) fn new(reason: Reason, happened: Happened, object: &[u8], user: &[u8], mut client: String) -> Self {
        let object = object[..object.len().min(OBJECT_BYTES_MAX)].to_vec();
        let user = user[..user.len().min(super::NAME_BYTES_MAX)].into();
        let end = (0..=CLIENT_BYTES_MAX.min(client.len())).rev().find(|end| client.is_char_boundary(*end));
        client.truncate(end.unwrap_or(0));
        client.shrink_to_fit();
        let (first, at) = (SystemTime::now(), Instant::now());
        Self { id: 0, count: 1, reason, happened, object, user, first, at, client }
    }

    fn is_like(&self, other: &Self) -> bool {
        self.reason == other.reason
            && self.happened.name() == other.happened.name()
            && other.at.duration_since(self.at) <= APART_MAX
            && self.object == other.object
            && self.user == other.user
    }
}

/// The log of a server.
#[derive(Debug)]
pub(crate) struct Log {
    /// The newest first.
    entries: Mutex<VecDeque<Entry>>,
    /// The most entries.
    pub(crate) entries_max: AtomicU64,
    /// Entries that were made so far.
    made: AtomicU64,
    denied: [AtomicU64; Reason::ALL.len()],
}

impl Default for Log {
    fn default() -> Self {
        Self {
            entries: Mutex::default(),
            entries_max: AtomicU64::new(ENTRIES_MAX),
            made: AtomicU64::new(0),
            denied: Default::default(),
        }
    }
}

impl Log {
    fn entries(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something was refused.
    pub(crate) fn add(&self, mut new: Entry) {
        self.denied[new.reason as usize].fetch_add(1, Relaxed);
        let mut entries = self.entries();
        if let Some(place) = entries.iter().take(COMPARED).position(|present| present.is_like(&new)) {
            let present = entries.remove(place).expect("it was found there");
            new.count += present.count;
            (new.id, new.first) = (present.id, present.first);
        } else {
            new.id = self.made.fetch_add(1, Relaxed);
        }
        entries.push_front(new);
        entries.truncate(usize::try_from(self.entries_max.load(Relaxed)).unwrap_or(usize::MAX));
    }

    /// The newest entries.
    pub(crate) fn newest(&self, most: usize) -> Vec<Entry> {
        self.entries().iter().take(most).cloned().collect()
    }

    /// Forgets the entries.
    pub(crate) fn clear(&self) {
        self.entries().clear();
    }

    /// How often something was refused for that reason.
    pub(crate) fn denied(&self, reason: Reason) -> u64 {
        self.denied[reason as usize].load(Relaxed)
    }

    /// Counts from 0 again.
    pub(crate) fn forget_counts(&self) {
        self.denied.iter().for_each(|count| count.store(0, Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(object: &str) -> Entry {
        Entry::new(Reason::Key, Happened::Arriving, object.as_bytes(), b"user", "id=1".to_owned())
    }

    #[test]
    fn like_entries_are_counted_together_and_the_oldest_are_forgotten() {
        let log = Log::default();
        log.add(entry("a"));
        log.add(entry("b"));
        log.add(entry("a"));
        let kept = |log: &Log| -> Vec<(Vec<u8>, u64)> {
            log.newest(usize::MAX).into_iter().map(|entry| (entry.object, entry.count)).collect()
        };
        assert_eq!(kept(&log), [(b"a".to_vec(), 2), (b"b".to_vec(), 1)]);
        (0..200).for_each(|number| log.add(entry(&number.to_string())));
        assert_eq!(kept(&log).len(), 128);
        assert_eq!(log.denied(Reason::Key), 203);
        log.entries_max.store(3, Relaxed);
        log.add(entry("c"));
        assert_eq!(kept(&log).len(), 3);
        log.clear();
        assert!(kept(&log).is_empty());
    }

    #[test]
    fn entries_far_apart_are_not_counted_together() {
        let (log, mut old) = (Log::default(), entry("a"));
        old.at = Instant::now().checked_sub(APART_MAX + Duration::from_secs(1)).unwrap();
        log.add(old);
        log.add(entry("a"));
        assert_eq!(log.newest(10).len(), 2);
    }

    #[test]
    fn an_entry_is_bounded() {
        let client = "é".repeat(CLIENT_BYTES_MAX);
        let entry = Entry::new(Reason::Key, Happened::Arriving, &[b'k'; 10_000], &[b'u'; 10_000], client);
        assert_eq!((entry.object.len(), entry.user.len()), (OBJECT_BYTES_MAX, crate::redis::acl::NAME_BYTES_MAX));
        assert_eq!(entry.client.len(), CLIENT_BYTES_MAX);
    }
}
