//! Regions that endpoints export, as compute nodes.
//!
//! | of | named | found by |
//! |---|---|---|
//! | a home with a name | `HOME+cN.R`, a file beside the home's | its name, while compute node `N` lives |
//! | anonymous memory | | a table of the process, in the home's region |
//!
//! A compute node's number is lent as an identity is. The kernel holds a lock of the home's file
//! for it, and releases the lock when the process has ended (`lock`). **Only the holder of the
//! number's lock touches names of that number**, and a process that removes the pool. So a process
//! that acquires a number removes what a dead holder left. A process that finds the number free
//! does the same. A region whose name was removed lives on in existing mappings; no new mapping is
//! made.
//!
//! **Who removes a name marks the region as ended first**, behind its bytes. From the mark on, no
//! verb to it succeeds, and no endpoint reaches it anew, although its name is still there. So a
//! client that is told that there is no such region knows that processes which follow it answer
//! for it no more (`follow`).

use super::endpoint::ShmEndpoint;
use super::lock::RegionLock;
use super::names::{Place, REGIONS_MAX, export_name, is_place, path_of};
use super::region::ShmRegion;
use crate::{
    Address, COMPUTE_NODES_MAX, Domain, FabricError, Kind, Lifetime, Region, RegionAttributes, Sharing, VerbError,
};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// Ends the regions of a compute node whose lock this process has.
fn end_regions(home: &str, node: u16) -> Result<(), FabricError> {
    // They are created in order, and removed from the last on: the first that is absent is the end.
    let made = (0..REGIONS_MAX).take_while(|region| ShmRegion::exists(&export_name(home, (node, *region)))).count();
    (0..made as u8).rev().try_for_each(|region| ShmRegion::end_exported(&export_name(home, (node, region))))
}

/// Ends the regions of all compute nodes of a pool whose home is about to be removed.
pub(super) fn remove_all_names(home: &str) -> Result<(), FabricError> {
    let path = path_of(home)?;
    let (Some(directory), Some(file)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let beginning = format!("{}+c", file.to_string_lossy());
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_export = name.to_str().and_then(|name| name.strip_prefix(&beginning)).is_some_and(is_place);
        if let Some(path) = entry.path().to_str().filter(|_| is_export) {
            ShmRegion::end_exported(path)?;
        }
    }
    Ok(())
}

fn place_of(at: Address) -> Place {
    (at.compute_node().unwrap_or(COMPUTE_NODES_MAX), at.region())
}

impl ShmEndpoint {
    fn home(&self) -> &ShmRegion {
        &self.regions[0]
    }

    /// The home's name, if the home still has it. Otherwise the names beside it belong to another
    /// pool.
    fn home_name(&self) -> Option<&str> {
        self.home().name.as_deref().filter(|name| self.home().presence.is_named(name))
    }

    /// This endpoint's number; the first call acquires it. `None` if all are taken, or cannot be
    /// locked.
    fn compute_node(&self) -> Result<Option<u16>, FabricError> {
        if self.exports.node.get().is_none() {
            let Some(node) = self.home().presence.lend_node() else { return Ok(None) };
            let ended = self.home_name().map_or(Ok(()), |home| end_regions(home, node));
            if let Err(error) = ended {
                self.home().presence.release_node(node);
                return Err(error);
            }
            self.exports.node.set(Some(node));
        }
        Ok(self.exports.node.get())
    }

    /// See [`Endpoint::export`](crate::Endpoint::export).
    pub(super) fn export_region(&self, wanted: RegionAttributes) -> Result<Address, FabricError> {
        let refused = |why| FabricError::NoExport { wanted, why };
        if self.is_fork() {
            return Err(refused("this process is a fork of the one that opened the pool"));
        }
        if wanted.kind != Kind::Host || wanted.domain != Domain::Cpu {
            return Err(refused("a host has ordinary memory, whose atomics are the processors'"));
        }
        if wanted.lifetime != Lifetime::Process {
            return Err(refused("it goes with its owner"));
        }
        let region = self.exports.count.get();
        if region >= REGIONS_MAX {
            return Err(refused("an endpoint exports 64 regions at most"));
        }
        let _hold = match &self.home().name {
            // No process removes the pool meanwhile.
            Some(home) => Some(RegionLock::take(home, Sharing::Shared)?),
            None => None,
        };
        if self.home().name.is_some() && self.home_name().is_none() {
            return Err(refused("the pool was removed"));
        }
        let node =
            self.compute_node()?.ok_or(refused("all numbers of compute nodes are taken, or cannot be locked"))?;
        let name = self.home().name.as_ref().map(|home| export_name(home, (node, region)));
        let exported = Arc::new(ShmRegion::create_exported(name.as_deref(), wanted.bytes)?);
        if name.is_none() {
            self.table().insert((node, region), exported.clone());
        }
        self.exports.count.set(region + 1);
        self.exports.insert((node, region), exported);
        Ok(Address::on_compute(node, region, 0))
    }

    /// See [`Endpoint::reach_export`](crate::Endpoint::reach_export).
    pub(super) fn reach_exported(&self, at: Address) -> Result<RegionAttributes, VerbError> {
        Ok(self.reach_now(at, self.present_export(at)?))
    }

    /// See [`Endpoint::reach_export_if`](crate::Endpoint::reach_export_if).
    pub(super) fn reach_exported_if(&self, at: Address, word: u64) -> Result<bool, VerbError> {
        self.export_if(at, word).map(|found| found.is_some())
    }

    /// The same; the attributes of what is reached.
    pub(crate) fn export_if(&self, at: Address, word: u64) -> Result<Option<RegionAttributes>, VerbError> {
        let (exported, place) = (self.present_export(at)?, place_of(at));
        let found = exported.word_at(at.offset()).map(|found| found.load(Ordering::Acquire));
        let found = found.ok_or_else(|| VerbError::export_absent(place.0, place.1, "it has no such word"))?;
        Ok((found == word).then(|| self.reach_now(at, exported)))
    }

    fn reach_now(&self, at: Address, exported: Arc<ShmRegion>) -> RegionAttributes {
        let attributes = RegionAttributes { lifetime: Lifetime::Process, ..exported.attributes() };
        self.exports.insert(place_of(at), exported);
        attributes
    }

    /// The region that has an address now. If it is proven that there is none, no verb reaches what
    /// was there: what could not be opened anew is reached as before, and its mark says when it has
    /// ended.
    fn present_export(&self, at: Address) -> Result<Arc<ShmRegion>, VerbError> {
        let (place, found) = (place_of(at), self.find_export(place_of(at)));
        if matches!(found, Err(VerbError::ExportAbsent(_))) && self.exports.node.get() != Some(place.0) {
            self.exports.remove(place);
        }
        found
    }

    fn find_export(&self, place: Place) -> Result<Arc<ShmRegion>, VerbError> {
        let absent = |why: &str| VerbError::export_absent(place.0, place.1, why);
        if self.is_fork() {
            return Err(VerbError::Forked);
        }
        if place.0 >= COMPUTE_NODES_MAX {
            return Err(absent("it is the address of a memory node"));
        }
        let exported = if self.exports.node.get() == Some(place.0) {
            self.exports.region(place.0, place.1).ok_or(absent("its owner exports no such region"))?
        } else {
            self.open_export(place)?
        };
        #[cfg(feature = "tcp")]
        if exported.is_given_up() {
            return Err(absent("its process followed it, and did not answer in time"));
        }
        // Its name is about to be removed.
        if exported.has_ended() { Err(absent("it has ended")) } else { Ok(exported) }
    }

    /// Opens another endpoint's export. Only what is proven to have ended is absent: this process
    /// may have too many files open.
    fn open_export(&self, place: Place) -> Result<Arc<ShmRegion>, VerbError> {
        let absent = |why: &str| VerbError::export_absent(place.0, place.1, why);
        let unopened = |error: FabricError| VerbError::export_unopened(place.0, place.1, error.to_string());
        let presence = &self.home().presence;
        if !presence.is_node_alive(place.0) {
            // A killed process left the region. It is ended only under the number's lock.
            let ended = || self.home_name().map_or(Ok(()), |home| end_regions(home, place.0));
            match presence.with_node(place.0, ended) {
                Some(Ok(())) => return Err(absent("no endpoint that lives has this number")),
                Some(Err(error)) => return Err(unopened(error)),
                // Another process has found it dead. Until it has ended the region, it is there.
                None => {}
            }
        }
        match &self.home().name {
            Some(_) if self.home_name().is_none() => Err(absent("the pool was removed")),
            Some(home) => match ShmRegion::open_exported(&export_name(home, place)) {
                Ok(region) => Ok(Arc::new(region)),
                // An empty file is a region that its owner makes just now, or was killed over.
                Err(FabricError::Absent(_) | FabricError::BadSize { bytes: 0, .. }) => {
                    Err(absent("its owner exports no such region"))
                }
                Err(error) => Err(unopened(error)),
            },
            None => self.table().get(&place).cloned().ok_or(absent("its owner exports no such region")),
        }
    }

    fn table(&self) -> std::sync::MutexGuard<'_, HashMap<Place, Arc<ShmRegion>>> {
        self.home().exports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the endpoint's part: its regions are removed, then its number is free.
    pub(super) fn end_exports(&self) {
        let Some(node) = self.exports.node.get().filter(|_| !self.is_fork()) else { return };
        (0..self.exports.count.get())
            .filter_map(|region| self.exports.region(node, region))
            .for_each(|region| region.mark_ended());
        match &self.home().name {
            // What cannot be removed now is removed by a client that finds the number free.
            Some(_) => drop(self.home_name().map(|home| end_regions(home, node))),
            None => self.table().retain(|place, _| place.0 != node),
        }
        self.home().presence.release_node(node);
    }
}
