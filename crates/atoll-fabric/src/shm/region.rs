//! A region of shared memory: created, opened, shared and removed by its name.
//!
//! Module `provision` knows which of its pages are present.

use super::host::Room;
use super::lock::Presence;
use super::mapping::Mapping;
use super::names::{Place, path_of};
use super::pages::Pages;
use super::process;
#[cfg(feature = "tcp")]
use super::watched::Watched;
use crate::{Domain, FabricError, Identity, Kind, Lifetime, PeerState, Peers, Region, RegionAttributes};
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Bytes behind an exported region: a word, zero until the region has ended.
const MARK_BYTES: u64 = 8;

/// The mark behind an exported region.
#[inline]
fn mark_of(mapping: &Mapping) -> &AtomicU64 {
    assert_eq!(mapping.tail_bytes(), MARK_BYTES, "an exported region");
    // SAFETY: the tail is mapped, and its pages are there, for as long as the mapping; it is
    // aligned as the region's bytes are a multiple of eight, and is only accessed atomically.
    unsafe { mapping.base().add(mapping.bytes() as usize).cast::<AtomicU64>().as_ref() }
}

/// A region of shared memory that this process has mapped, and has locked as in use.
pub struct ShmRegion {
    pub(super) mapping: Mapping,
    pub(super) name: Option<String>,
    pub(super) presence: Presence,
    pub(super) pages: Pages,
    /// Bytes that may be provided before the host's limits are looked at again.
    pub(super) allowance: AtomicI64,
    /// When the host last had no memory left.
    pub(super) short: Mutex<Option<Instant>>,
    /// Of a home without a name: what endpoints of this process export.
    pub(super) exports: Mutex<HashMap<Place, Arc<ShmRegion>>>,
    /// Of an exported region that an agent keeps: who is told of its changes.
    #[cfg(feature = "tcp")]
    pub(super) watched: Watched,
}

impl ShmRegion {
    /// Anonymous memory, all pages reserved, for one process and its threads.
    pub fn anonymous(bytes: u64) -> Result<Self, FabricError> {
        Self::anonymous_sparse(bytes, bytes)
    }

    /// Anonymous memory of which the first `there` bytes have their pages. Verbs may touch the
    /// others, too; whether the host has memory for them is only known once they are
    /// [reserved](ShmRegion::reserve).
    pub fn anonymous_sparse(bytes: u64, there: u64) -> Result<Self, FabricError> {
        let name = "an anonymous region";
        let region = Room::check(name, None, bytes).and_then(|()| Mapping::anonymous(bytes, 0))?;
        Self::new(region, None, Presence::anonymous(), 0).with_pages(name, there)
    }

    /// Memory that an endpoint exports, all pages reserved: a new file of this name, or anonymous
    /// memory. Behind it is the mark that it [has ended](ShmRegion::has_ended).
    pub(super) fn create_exported(name: Option<&str>, bytes: u64) -> Result<Self, FabricError> {
        match name {
            Some(name) => Self::create_with(name, bytes, MARK_BYTES, bytes),
            None => {
                let name = "an anonymous region";
                let region = Room::check(name, None, bytes).and_then(|()| Mapping::anonymous(bytes, MARK_BYTES))?;
                Self::new(region, None, Presence::anonymous(), 0).with_pages(name, bytes)
            }
        }
    }

    /// Opens what [`ShmRegion::create_exported`] made.
    pub(super) fn open_exported(name: &str) -> Result<Self, FabricError> {
        Self::open_there(name, MARK_BYTES, u64::MAX)
    }

    /// Opens what [`ShmRegion::create_exported`] made, marks it as ended, and removes its name.
    pub(super) fn end_exported(name: &str) -> Result<(), FabricError> {
        match Mapping::open(name, MARK_BYTES) {
            // No process follows a region that was not made to its end.
            Err(FabricError::BadSize { .. }) => {}
            Err(FabricError::Absent(_)) => return Ok(()),
            Err(error) => return Err(error),
            // Its owner may have been killed before all pages were there.
            Ok((mapping, _)) if mapping.provide_tail() => mark_of(&mapping).store(1, Ordering::SeqCst),
            Ok(_) => {
                let why = "the host has no memory left".to_owned();
                return Err(FabricError::NoRoom { name: name.to_owned(), bytes: MARK_BYTES, why });
            }
        }
        Self::remove(name)
    }

    /// The word at an offset. Its page is there.
    #[inline]
    pub(super) fn word_at(&self, offset: u64) -> Option<&AtomicU64> {
        let is_word = offset.is_multiple_of(8) && offset.checked_add(8)? <= self.mapping.bytes();
        // SAFETY: the word lies in the mapping, which lives as long as `self`, and its page is
        // there; it is aligned, and every access to a mapping in this crate is atomic.
        is_word.then(|| unsafe { self.mapping.base().add(offset as usize).cast::<AtomicU64>().as_ref() })
    }

    /// Marks what this endpoint exports as ended.
    pub(super) fn mark_ended(&self) {
        self.mark().store(1, Ordering::SeqCst);
    }

    /// Whether an exported region has ended. Until then, a change that another endpoint has made
    /// was seen here.
    #[inline]
    pub(super) fn has_ended(&self) -> bool {
        self.mark().load(Ordering::Acquire) != 0
    }

    /// The mark behind an exported region: not 0 once it has ended.
    pub(super) fn mark(&self) -> &AtomicU64 {
        mark_of(&self.mapping)
    }

    /// Creates the region `name` (`shm:/NAME` or a path) of `bytes` zero bytes, all pages reserved.
    pub fn create(name: &str, bytes: u64) -> Result<Self, FabricError> {
        Self::create_sparse(name, bytes, bytes)
    }

    /// Creates a region of which the first `there` bytes have their pages. What a verb touches
    /// beyond that is reserved first; if the host has no memory for it, the verb ends in
    /// [`VerbError::NoMemory`](crate::VerbError::NoMemory).
    pub fn create_sparse(name: &str, bytes: u64, there: u64) -> Result<Self, FabricError> {
        Self::create_with(name, bytes, 0, there)
    }

    fn create_with(name: &str, bytes: u64, tail: u64, there: u64) -> Result<Self, FabricError> {
        let directory = path_of(name)?;
        Room::check(name, directory.parent(), bytes)?;
        let (mapping, file) = Mapping::create(name, bytes, tail)?;
        let presence = Presence::shared(name)?;
        // Another process may have removed it already, and made one of this name.
        if !presence.is_of(file) {
            return Err(FabricError::Absent(name.to_owned()));
        }
        let region = Self::new(mapping, Some(name.to_owned()), presence, 0);
        // A region that could not be made whole leaves no file behind.
        region.with_pages(name, there).inspect_err(|_| drop(std::fs::remove_file(&directory)))
    }

    /// Opens a region that exists, and that has all its pages, once no process makes it anew.
    pub fn open(name: &str) -> Result<Self, FabricError> {
        Self::open_there(name, 0, u64::MAX)
    }

    /// Opens a region that exists and of whose pages nothing is known: see
    /// [`ShmRegion::create_sparse`].
    pub fn open_sparse(name: &str) -> Result<Self, FabricError> {
        Self::open_there(name, 0, 0)
    }

    fn open_there(name: &str, tail: u64, there: u64) -> Result<Self, FabricError> {
        loop {
            let presence = Presence::shared(name)?;
            if let Some(opened) = Self::open_with(name, presence, tail, there)? {
                return Ok(opened);
            }
        }
    }

    /// Opens a region of whose pages nothing is known; `None` if a process just now formats or
    /// removes it.
    pub(super) fn try_open_sparse(name: &str) -> Result<Option<Self>, FabricError> {
        match Presence::try_shared(name)? {
            Some(presence) => Self::open_with(name, presence, 0, 0),
            None => Ok(None),
        }
    }

    /// Opens a region that no other process has open, as [`ShmRegion::open_sparse`], and keeps it
    /// so until [`ShmRegion::share`]; `None` if one has it open.
    pub fn open_alone(name: &str) -> Result<Option<Self>, FabricError> {
        match Presence::alone(name)? {
            Some(presence) => Self::open_with(name, presence, 0, 0),
            None => Ok(None),
        }
    }

    /// `None` if the file that has the name is not the one that was locked any more.
    fn open_with(name: &str, presence: Presence, tail: u64, there: u64) -> Result<Option<Self>, FabricError> {
        let (mapping, file) = Mapping::open(name, tail)?;
        Ok(presence.is_of(file).then(|| Self::new(mapping, Some(name.to_owned()), presence, there)))
    }

    fn new(mapping: Mapping, name: Option<String>, presence: Presence, there: u64) -> Self {
        let pages = Pages::new(mapping.bytes(), there.min(mapping.bytes()));
        Self {
            mapping,
            name,
            presence,
            pages,
            allowance: AtomicI64::new(0),
            short: Mutex::new(None),
            exports: Mutex::default(),
            #[cfg(feature = "tcp")]
            watched: Watched::default(),
        }
    }

    fn with_pages(self, name: &str, there: u64) -> Result<Self, FabricError> {
        let there = there.min(self.mapping.bytes());
        if self.reserve(0, there) && self.mapping.provide_tail() {
            return Ok(self);
        }
        let why = self.room().map_or_else(|| "the host has no memory left".to_owned(), |room| room.to_string());
        Err(FabricError::NoRoom { name: name.to_owned(), bytes: self.mapping.bytes(), why })
    }

    /// The first words of the file of that name, zero behind its end, and how many bytes it has. It
    /// need not be a region.
    pub fn beginning(name: &str) -> Result<([u64; 32], u64), FabricError> {
        let path = path_of(name)?;
        let system = |source| FabricError::System { name: name.to_owned(), what: "look at the file", source };
        if !std::fs::metadata(&path).map_err(system)?.is_file() {
            return Err(FabricError::BadName(name.to_owned()));
        }
        let mut bytes = Vec::new();
        let file = std::fs::File::open(&path).map_err(system)?;
        std::io::Read::read_to_end(&mut std::io::Read::take(&file, 256), &mut bytes).map_err(system)?;
        bytes.resize(256, 0);
        let (words, _) = bytes.as_chunks::<8>();
        let words = std::array::from_fn(|index| u64::from_le_bytes(words[index]));
        Ok((words, file.metadata().map_err(system)?.len()))
    }

    /// Whether no other process has it open, from now on until it is [shared](Region::share).
    #[cfg(feature = "tcp")]
    pub(crate) fn try_alone(&self) -> bool {
        self.presence.try_alone().unwrap_or(false)
    }

    /// The number of its file, which no other file has until the host reboots. `None` for anonymous
    /// memory.
    #[cfg(feature = "tcp")]
    pub(crate) fn file_number(&self) -> Option<u64> {
        self.presence.file_id().map(|(device, file)| device.rotate_left(40) ^ file)
    }

    /// Whether its name, if it has one, still is its own.
    #[cfg(feature = "tcp")]
    pub(crate) fn is_named(&self) -> bool {
        self.name.as_deref().is_none_or(|name| self.presence.is_named(name))
    }

    /// The compute nodes whose endpoints live, in order.
    #[cfg(feature = "tcp")]
    pub(crate) fn compute_nodes(&self) -> Vec<u16> {
        self.presence.living_nodes()
    }

    /// Bytes from the start that are known to be present.
    #[cfg(feature = "tcp")]
    pub(crate) fn present_bytes(&self) -> u64 {
        self.pages.there()
    }

    /// Whether there is a file of that name.
    pub(super) fn exists(name: &str) -> bool {
        path_of(name).is_ok_and(|path| path.exists())
    }

    /// Removes the region's name. Processes that have it open keep its memory until they close it.
    pub fn remove(name: &str) -> Result<(), FabricError> {
        std::fs::remove_file(path_of(name)?).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => FabricError::Absent(name.to_owned()),
            _ => FabricError::System { name: name.to_owned(), what: "remove the file", source },
        })
    }
}

impl Region for ShmRegion {
    fn attributes(&self) -> RegionAttributes {
        RegionAttributes {
            bytes: self.mapping.bytes(),
            kind: Kind::Host,
            domain: Domain::Cpu,
            lifetime: if self.name.is_some() { Lifetime::Host } else { Lifetime::Process },
        }
    }

    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether the region lives in memory, which a restart of the host empties.
    fn is_volatile(&self) -> bool {
        self.presence.is_volatile()
    }

    fn sync(&self) -> Result<(), FabricError> {
        match &self.name {
            Some(name) => self.mapping.sync(name),
            None => Ok(()),
        }
    }

    fn share(&self) -> Result<(), FabricError> {
        let name = self.name.clone().unwrap_or_default();
        self.presence.share().map_err(|source| FabricError::System { name, what: "share the file", source })
    }

    fn peers(&self) -> Peers {
        // A region of this process alone has no other one to look for.
        if self.name.is_some() { process::peers_of(self.presence.descriptor()) } else { Peers::default() }
    }

    fn peer_state(&self, who: Identity, peers: &Peers) -> PeerState {
        if self.presence.is_dead(who) { PeerState::Dead } else { process::state_of(who, peers) }
    }

    fn kill(&self, who: Identity, peers: &Peers) -> bool {
        peers.pid(who).is_some_and(|pid| process::kill(self.presence.descriptor(), pid, who))
    }
}

impl std::fmt::Debug for ShmRegion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShmRegion").field("name", &self.name).field("bytes", &self.mapping.bytes()).finish()
    }
}
