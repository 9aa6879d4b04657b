//! The regions of an agent, by the numbers of their memory nodes.
//!
//! An agent with a name keeps its regions under names of this host: processes of the host open the
//! same regions by `shm:`, and an agent that is started again finds them. Without a name they are
//! memory of the agent's process.
//!
//! | of a region | connections | other processes of this host |
//! |---|---|---|
//! | open | counted here, and each session that is attached | the kernel's lock of presence, which the agent has shared |
//! | open alone | one, and no session | excluded: the agent has that lock alone |
//! | held | counted here | excluded by a lock of the holder's own |
//!
//! Invariant: an entry that is not named any more is kept only while a connection has it open.

use crate::fabric::BEGINNING_WORDS;
use crate::shm::lock::RegionLock;
use crate::shm::process::random_word;
use crate::shm::{ShmEndpoint, ShmFabric, ShmNodes, ShmRegion};
use crate::tcp::call::Answer;
use crate::{Address, Batch, Clock, Fabric, FabricError, Lifetime, Region, Sharing, run_ready};
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

/// Most connections in one answer.
const USERS_MAX: usize = 64;

struct Entry {
    node: u8,
    region: Arc<ShmRegion>,
    /// No other region has it while the host runs.
    id: u64,
    is_named: bool,
    /// The peers of the connections that have it open.
    opened: Vec<SocketAddr>,
    /// Whether one of them has it alone.
    is_alone: bool,
    /// Connections that hold it.
    held: usize,
    is_held_alone: bool,
    /// Whether a thread provides its memory, or has done so.
    is_provided: bool,
}

impl Entry {
    fn answer(&self) -> Answer {
        let attributes = self.region.attributes();
        Answer::Opened {
            region: self.id,
            size: attributes.bytes,
            lifetime: (attributes.lifetime == Lifetime::Host).into(),
            there: self.region.present_bytes(),
            is_volatile: self.region.is_volatile().into(),
        }
    }

    /// Whether a connection, a session or another process has it open.
    fn is_open(&self) -> bool {
        if !self.opened.is_empty() || Arc::strong_count(&self.region) > 1 {
            return true;
        }
        let is_alone = self.region.try_alone();
        let _ = self.region.share();
        !is_alone
    }
}

/// The regions of an agent.
pub(super) struct Regions {
    /// `None` for memory of this process.
    fabric: Option<ShmFabric>,
    /// The most bytes of all regions.
    capacity_bytes: u64,
    entries: Vec<Entry>,
}

/// What a call gets that is refused.
type Refused = Answer;

impl Regions {
    pub(super) fn new(fabric: Option<ShmFabric>, capacity_bytes: u64) -> Self {
        Self { fabric, capacity_bytes, entries: Vec::new() }
    }

    /// The region of a node, which may have been created by another process.
    fn named(&mut self, node: u8) -> Result<&mut Entry, Refused> {
        for entry in &mut self.entries {
            // Another process may have removed the name.
            entry.is_named &= entry.region.is_named();
        }
        self.forget();
        let absent = || Answer::Absent { why: Vec::new() };
        let found = self.entries.iter().position(|entry| entry.is_named && entry.node == node);
        let at = match found {
            Some(at) => at,
            None => {
                let region = self.fabric.as_ref().ok_or_else(absent)?.open(node).map_err(refused)?;
                self.add(node, region)
            }
        };
        Ok(&mut self.entries[at])
    }

    fn add(&mut self, node: u8, region: Arc<ShmRegion>) -> usize {
        let id = region.file_number().unwrap_or_else(random_word);
        self.entries.push(Entry {
            node,
            region,
            id,
            is_named: true,
            opened: Vec::new(),
            is_alone: false,
            held: 0,
            is_held_alone: false,
            is_provided: false,
        });
        self.entries.len() - 1
    }

    /// Forgets regions that have no name and no connection any more.
    fn forget(&mut self) {
        self.entries.retain(|entry| entry.is_named || !entry.opened.is_empty());
    }

    fn left_bytes(&self) -> u64 {
        let used = self.entries.iter().map(|entry| entry.region.attributes().bytes).sum();
        self.capacity_bytes.saturating_sub(used)
    }

    pub(super) fn room(&self) -> Answer {
        Answer::Room { left: self.left_bytes(), capacity: self.capacity_bytes }
    }

    /// Creates the region of a node, and opens it.
    pub(super) fn create(
        &mut self,
        node: u8,
        bytes: u64,
        there: u64,
        peer: SocketAddr,
    ) -> Result<(u64, Answer), Refused> {
        if self.named(node).is_ok() {
            return Err(Answer::Exists {});
        }
        if bytes > self.left_bytes() {
            let why = format!(
                "the memory node has {} of its {} bytes left (--capacity)",
                self.left_bytes(),
                self.capacity_bytes
            );
            return Err(Answer::NoRoom { size: bytes, why: why.into_bytes() });
        }
        let region = match &self.fabric {
            Some(fabric) => fabric.create(node, bytes, there),
            None => ShmRegion::anonymous_sparse(bytes, there).map(Arc::new),
        };
        let at = self.add(node, region.map_err(refused)?);
        Ok(self.opened(at, peer))
    }

    fn opened(&mut self, at: usize, peer: SocketAddr) -> (u64, Answer) {
        let entry = &mut self.entries[at];
        entry.opened.push(peer);
        (entry.id, entry.answer())
    }

    /// Opens the region of a node.
    pub(super) fn open(&mut self, node: u8, peer: SocketAddr) -> Result<(u64, Answer), Refused> {
        let entry = self.named(node)?;
        if entry.is_alone {
            return Err(Answer::Busy {});
        }
        entry.opened.push(peer);
        Ok((entry.id, entry.answer()))
    }

    /// Opens the region of a node that no other connection, session or process has open.
    pub(super) fn open_alone(&mut self, node: u8, peer: SocketAddr) -> Result<(u64, Answer), Refused> {
        let entry = self.named(node)?;
        if !entry.opened.is_empty() || Arc::strong_count(&entry.region) > 1 || !entry.region.try_alone() {
            return Err(Answer::Busy {});
        }
        (entry.opened, entry.is_alone) = (vec![peer], true);
        Ok((entry.id, entry.answer()))
    }

    fn by_id(&mut self, id: u64) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.id == id)
    }

    /// Lets others open what a connection has alone.
    pub(super) fn share(&mut self, id: u64) {
        if let Some(entry) = self.by_id(id).filter(|entry| entry.is_alone) {
            entry.is_alone = false;
            let _ = entry.region.share();
        }
    }

    /// A connection that had the region open has ended.
    pub(super) fn close(&mut self, id: u64, peer: SocketAddr) {
        self.share(id);
        if let Some(entry) = self.by_id(id)
            && let Some(at) = entry.opened.iter().position(|of| *of == peer)
        {
            entry.opened.swap_remove(at);
        }
        self.forget();
    }

    /// The region that a client has opened, for its sessions.
    pub(super) fn region(&mut self, id: u64) -> Option<(Arc<ShmRegion>, Answer)> {
        let found = self.by_id(id).filter(|entry| !entry.is_alone).map(|entry| (entry.region.clone(), entry.answer()));
        // An agent that was started again knows its regions by their nodes.
        found.or_else(|| {
            self.fabric.as_ref()?;
            (0..crate::shm::NODES_MAX as u8).find(|node| self.named(*node).is_ok_and(|entry| entry.id == id))?;
            self.by_id(id).map(|entry| (entry.region.clone(), entry.answer()))
        })
    }

    /// The same for a connection that has it open.
    pub(super) fn opened_region(&mut self, id: u64) -> Option<Arc<ShmRegion>> {
        self.by_id(id).map(|entry| entry.region.clone())
    }

    /// Holds the region of a node; gives the lock that excludes other processes.
    pub(super) fn hold(&mut self, node: u8, sharing: Sharing) -> Result<Option<RegionLock>, Refused> {
        let name = self.fabric.as_ref().and_then(|fabric| fabric.region_address(node));
        let entry = self.named(node)?;
        let is_alone = sharing == Sharing::Alone;
        if entry.is_held_alone || is_alone && entry.held > 0 {
            return Err(Answer::Busy {});
        }
        let lock = match name {
            Some(name) => Some(RegionLock::try_take(&name, sharing).map_err(refused)?.ok_or(Answer::Busy {})?),
            None => None,
        };
        entry.held += 1;
        entry.is_held_alone = is_alone;
        Ok(lock)
    }

    /// A connection that held the region has ended.
    pub(super) fn release(&mut self, node: u8) {
        let mut held = self.entries.iter_mut().filter(|entry| entry.node == node && entry.held > 0);
        if let Some(entry) = held.next() {
            entry.held -= 1;
            entry.is_held_alone = false;
        }
    }

    pub(super) fn in_use(&mut self, node: u8) -> Answer {
        match self.named(node) {
            Ok(entry) => Answer::Number { number: entry.is_open().into() },
            Err(refused) => refused,
        }
    }

    /// The peers of the connections that have a region open, but for this one.
    pub(super) fn users(&mut self, id: u64, but: SocketAddr) -> Answer {
        let opened = self.by_id(id).map_or(&[][..], |entry| &entry.opened);
        let others = opened.iter().filter(|peer| **peer != but).take(USERS_MAX);
        let shown: Vec<String> = others.map(SocketAddr::to_string).collect();
        Answer::Users { addresses: shown.join(" ").into_bytes() }
    }

    /// A region whose memory is to be provided; once for each region.
    pub(super) fn take_unprovided(&mut self, id: u64) -> Option<Weak<ShmRegion>> {
        let entry = self.by_id(id).filter(|entry| !entry.is_provided)?;
        entry.is_provided = true;
        Some(Arc::downgrade(&entry.region))
    }

    /// The number of the region of a node.
    pub(super) fn id(&mut self, node: u8) -> Option<u64> {
        self.named(node).ok().map(|entry| entry.id)
    }

    pub(super) fn beginning(&mut self, node: u8) -> Result<Answer, Refused> {
        let region = self.named(node)?.region.clone();
        let bytes = region.attributes().bytes;
        let endpoint = ShmEndpoint::with_regions(vec![region], Clock::host()).with_nodes(Arc::new(ShmNodes::none()));
        let mut batch = Batch::new();
        let words = BEGINNING_WORDS.min((bytes / 8) as usize);
        let read = batch.read(Address::new(0, 0, 0), crate::Buffer::sized(8 * words));
        run_ready(crate::Endpoint::post(&endpoint, &mut batch)).map_err(|_| Answer::Absent { why: Vec::new() })?;
        Ok(Answer::Beginning { size: bytes, words: batch.take(read).bytes().to_vec() })
    }

    /// Removes the region of a node, if it is this one. Connections do not keep it.
    pub(super) fn forsake(&mut self, node: u8, id: u64) -> Result<Answer, Refused> {
        if self.named(node)?.id != id {
            return Ok(Answer::Number { number: 0 });
        }
        let removed = self.remove(node)?;
        self.entries.retain(|entry| entry.id != id);
        Ok(removed)
    }

    pub(super) fn remove(&mut self, node: u8) -> Result<Answer, Refused> {
        let id = self.named(node)?.id;
        if let Some(fabric) = &self.fabric {
            fabric.remove(node).map_err(refused)?;
        }
        self.by_id(id).into_iter().for_each(|entry| entry.is_named = false);
        self.forget();
        Ok(Answer::Number { number: 1 })
    }
}

/// What became of a call, from the error of this host's fabric.
pub(super) fn refused(error: FabricError) -> Answer {
    match error {
        FabricError::Absent(_) => Answer::Absent { why: Vec::new() },
        FabricError::Exists(_) => Answer::Exists {},
        FabricError::NoRoom { bytes, why, .. } => Answer::NoRoom { size: bytes, why: why.into_bytes() },
        FabricError::NoExport { why, .. } => Answer::NoExport { why: why.as_bytes().to_vec() },
        other => Answer::Refused { why: other.to_string().into_bytes() },
    }
}
