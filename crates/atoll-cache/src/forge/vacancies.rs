//! Records in the places of dead ones: a client that replaces an object writes the next object that
//! it replaces in the place of the last one. So overwriting what is stored makes no dead memory,
//! and needs no cleaning.
//!
//! A **vacancy** is the place of a record that this client has replaced, in a queued group. The
//! client keeps the protection of its chunk, under which it replaced the record. It may use a
//! vacancy for a record of the same length that replaces another one:
//!
//! | verb of the batch | why it is in this place |
//! |---|---|
//! | WRITE the entry of the group's map | in front of the swap: an evictor that owns the group after the swap finds the object |
//! | WRITE the record | in front of the swap that publishes it |
//! | CAS slot | |
//! | READ the descriptor of the group | behind the swap: if its word is still the one that the client knows, no evictor has owned the group since, and READ its map too early |
//! | READ the descriptor of the replaced record's group | its place is the next vacancy, if the group is queued |
//!
//! | what could go wrong | excluded by |
//! |---|---|
//! | the chunk is reused before the record is written | the protection, which the client has kept since it replaced the record before |
//! | a lookup that found the place by an old word reads a record that is not published yet | the **edition**: high bits of the tag, which go up with each record of a place. A place with the last edition is no vacancy |
//! | an owner of the group has READ the map before the entry was written, and frees the chunk | the READ of the descriptor: the record is an *orphan*, and the client copies it to a group of its own (`copy_orphan`), while its protection keeps the chunk |
//! | the client dies with an orphaned record | before an owner reuses an emptied chunk that no client protects, it READs the map once more, and evicts what has been published since it READ the slots (`unlink_late`) |
//! | the same, and an owner queues the group again with the map that it READ before | an owner queues a group with another map only if no client protects the chunk, and it READs the map again (`remake_map`) |
//! | the operation is dropped, or fails | the protection stays until the client leaves the pool as if it had died |
//! | an owner of the group takes the slot's word from the map | the map's entry says that its place was used anew: such slots are READ |
//! | a repairer makes a new map from the records | it knows a record of any edition, and writes no map while a client protects the chunk |
//!
//! A client keeps as many vacancies as it has operations under way, at most 16. It gives them up
//! if it finds no room, if it wants to reuse their chunk, and when it tends if they are old: an
//! evictor that meets a protected chunk lets it wait. The protections of a client that does nothing
//! count until other clients take it for dead. Objects that expire get new places, because their
//! group's descriptor says when they do.

use super::group::MapEntry;
use super::layout::Queue;
use super::nodes::Earlier;
use super::open_groups::{Fate, Place};
use super::operation::Operation;
use super::slot::{GHOST_MORE_MAX, KeyHash, RecordLength, Slot, UNIT_BYTES};
use super::technique::Technique;
use super::update::Try;
use super::{Forge, Hole, Rule};
use crate::CacheError;
use crate::index::copies;
use crate::index::{Index, SlotWord};
use crate::record::{self, Header};
use crate::removals::Cause;
use atoll_fabric::{Address, Batch, Endpoint, Ticket};
use atoll_pool::registry::{PROTECTIONS, Protection};
use atoll_pool::{Chunk, ChunkId, ChunkState};
use std::cell::{Cell, RefCell};

/// A client that tends gives up the vacancies that it has kept for longer: nothing has used them.
const KEPT_NS_MAX: u64 = 1_000_000;
/// Most vacancies that a client keeps.
const KEPT_MAX: usize = 16;
/// With so many vacancies in operations, some of which were dropped or failed, a client uses no
/// more.
const IN_USE_MAX: u32 = 32;

const _: () = assert!(KEPT_MAX as u32 + IN_USE_MAX <= PROTECTIONS / 2, "operations have the other half");

/// A place whose record this client has replaced.
#[derive(Debug)]
pub(crate) struct Vacancy {
    place: Place,
    pub(super) queue: Queue,
    record_bytes: u64,
    /// The word of its group's descriptor.
    queued: u64,
    protection: Protection,
    /// Since when the client keeps it.
    since_ns: u64,
    /// The slot and word of the record that it got, once that is an orphan.
    orphan: Option<(u64, Slot)>,
}

/// The vacancies of a client.
#[derive(Debug, Default)]
pub(super) struct Vacancies {
    kept: RefCell<Vec<Vacancy>>,
    /// How many operations have one, or had one and did not end.
    in_use: Cell<u32>,
}

impl Vacancies {
    /// Whether operations have some.
    pub(super) fn are_in_use(&self) -> bool {
        self.in_use.get() > 0
    }
}

/// Where a record is written.
pub(super) struct Placement {
    pub(super) place: Place,
    used: Option<Vacancy>,
}

/// What a client looks at behind the swap that replaces a record.
pub(super) struct Checks {
    /// The descriptor of the replaced record's group, if its place may be a vacancy.
    replaced: Option<Ticket>,
    /// The descriptor of the group of the vacancy that was used.
    used: Option<Ticket>,
}

/// An orphaned record, which its client copies to a group of its own. The record is the operation's
/// `outgoing`.
#[derive(Debug)]
pub(crate) struct Orphan {
    vacancy: Vacancy,
    slot: u64,
    word: Slot,
    entry: (u64, KeyHash),
    header: Header,
}

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// Whether clients of this pool use vacancies. The paper's engine has none.
    pub(super) fn has_vacancies(&self) -> bool {
        self.shared.settings.options.rule != Rule::Paper && self.technique.reuses_places()
    }

    /// Whether places of this chunk may be vacancies. The verbs of a batch with the place, a slot
    /// and the descriptor must take effect in order. So all three are on the home.
    pub(super) fn has_vacancies_in(&self, chunk: ChunkId) -> bool {
        let layout = &self.client.pool.layout;
        self.has_vacancies() && self.is_in_order(layout.chunk(chunk), layout.descriptor(chunk))
    }

    /// Whether a place of this chunk may become a vacancy, or be one, for the record of a slot.
    fn is_usable(&self, chunk: ChunkId, slot: Address) -> bool {
        self.has_vacancies_in(chunk) && self.is_in_order(slot, self.client.pool.layout.descriptor(chunk))
    }

    /// Whether there is a vacancy for a record with this header, whose slot is at `slot`.
    pub(super) fn has_vacancy(&self, header: &Header, slot: Address) -> bool {
        self.vacancy_for(header, slot).is_some()
    }

    /// Takes a vacancy for a record with this header, whose slot is at `slot`.
    pub(super) fn take_vacancy(&self, header: &Header, slot: Address) -> Option<Vacancy> {
        let index = self.vacancy_for(header, slot)?;
        self.vacancies.in_use.set(self.vacancies.in_use.get() + 1);
        Some(self.vacancies.kept.borrow_mut().swap_remove(index))
    }

    fn vacancy_for(&self, header: &Header, slot: Address) -> Option<usize> {
        if header.large || header.expiry_ms.is_some() || self.vacancies.in_use.get() >= IN_USE_MAX {
            return None;
        }
        let fits = |vacancy: &Vacancy| {
            vacancy.record_bytes == header.record_bytes() && self.is_usable(vacancy.place.chunk, slot)
        };
        self.vacancies.kept.borrow().iter().position(fits)
    }

    /// A place for a record: the vacancy, or the next one in the group that is filled for `queue`.
    #[inline]
    pub(super) fn take_placement(
        &self,
        vacancy: Option<Vacancy>,
        (queue, carry): (Queue, u8),
        entry: (u64, KeyHash),
        header: &Header,
    ) -> Option<Placement> {
        match vacancy {
            Some(vacancy) => Some(Placement { place: vacancy.place, used: Some(vacancy) }),
            None => self.take_place(queue, entry, carry, header).map(Placement::from),
        }
    }

    /// Adds the WRITE of the map's entry, if the place is a vacancy.
    #[inline]
    pub(super) fn add_entry(&self, batch: &mut Batch, placement: &Placement, (slot, hash): (u64, KeyHash), carry: u8) {
        let Some(Vacancy { place, .. }) = &placement.used else { return };
        let layout = &self.client.pool.layout;
        let (offset_units, more) = ((place.offset_bytes / UNIT_BYTES) as u16, hash.more & GHOST_MORE_MAX);
        let fingerprint = hash.fingerprint;
        let entry = MapEntry { slot, offset_units, carry, large: false, fingerprint, reused: true, more };
        let at = layout.chunk(place.chunk).add(layout.chunk_bytes - 8 * (u64::from(place.number) + 1));
        batch.write_word(at, entry.word());
    }

    /// Adds the READs behind the swap of `slot` that replaces a record of the chunk `replaced`.
    #[inline]
    pub(super) fn add_checks(
        &self,
        batch: &mut Batch,
        placement: &Placement,
        (slot, replaced): (Address, ChunkId),
    ) -> Checks {
        let layout = &self.client.pool.layout;
        let check = |batch: &mut Batch, chunk| batch.read_word(layout.descriptor(chunk));
        let used = placement.used.as_ref().map(|vacancy| check(batch, vacancy.place.chunk));
        let replaced = self.is_usable(replaced, slot).then(|| check(batch, replaced));
        Checks { used, replaced }
    }

    /// The record in a place was published, in the slot of this number: notes whether it is an
    /// orphan.
    #[inline]
    pub(super) fn note_checks(
        &self,
        placement: &mut Placement,
        checks: &Checks,
        batch: &Batch,
        published: (u64, Slot),
    ) {
        let (Some(vacancy), Some(used)) = (&mut placement.used, checks.used) else { return };
        let is_left = batch.word(used) != vacancy.queued;
        vacancy.orphan = (is_left && !self.is_open(Hole::UncheckedVacancy)).then_some(published);
    }

    /// Settles a place. An orphaned record is left to the operation.
    #[inline]
    pub(super) fn settle_placement(
        &self,
        op: &mut Operation,
        placement: Placement,
        entry: (u64, KeyHash),
        header: &Header,
        fate: Fate,
    ) {
        let Placement { place, used } = placement;
        match (used, fate) {
            (None, fate) => self.settle_place(&place, header, fate),
            (Some(vacancy), Fate::Withdrawn) => {
                self.vacancies.in_use.set(self.vacancies.in_use.get() - 1);
                self.vacancies.kept.borrow_mut().push(vacancy);
            }
            (Some(vacancy), Fate::Published { .. }) => match vacancy.orphan {
                None => {
                    self.stats.places_reused.add(1);
                    self.end_use(vacancy);
                }
                Some((slot, word)) => {
                    self.stats.orphans.add(1);
                    op.notes.orphan = Some(Box::new(Orphan { vacancy, slot, word, entry, header: *header }));
                }
            },
        }
    }

    /// Keeps the place of a record that this operation has replaced, and the protection of its
    /// chunk. The slot had `word`. `false` if the place is no vacancy: its record is dead.
    #[inline]
    pub(super) fn keep_vacancy(
        &self,
        op: &mut Operation,
        (checks, batch): (&Checks, &Batch),
        word: Slot,
        header: &Header,
    ) -> bool {
        let Some(replaced) = checks.replaced.filter(|_| op.notes.protection.is_held()) else { return false };
        if header.large || header.expiry_ms.is_some() || self.vacancies.in_use.get() >= IN_USE_MAX {
            return false;
        }
        let (format, queued) = (&self.shared.format, batch.word(replaced));
        let is_queued = Chunk::from_word(queued)
            .is_some_and(|found| found.state == ChunkState::Queued && format.has_generation(word, found.generation));
        let span = self.record_span(word).filter(|_| is_queued);
        let last = format.tag_of(word);
        let next = if self.is_open(Hole::SameEdition) { Some(last) } else { format.next_edition(last) };
        let (Some((at, bytes, chunk)), Some(tag)) = (span, next) else { return false };
        let (record_bytes, settings) = (header.record_bytes(), &self.client.pool.settings);
        let offset_bytes = at.offset() - self.client.pool.layout.chunk(chunk).offset();
        // Something else than a client may have written its length and number.
        let entries_bytes = 8 * (u64::from(header.number) + 1);
        if RecordLength::of(record_bytes).bytes() != bytes as u64
            || u32::from(header.number) >= settings.group_objects_max
            || offset_bytes + record_bytes + entries_bytes > settings.chunk_bytes.into()
        {
            return false;
        }
        let mut protection = std::mem::take(&mut op.notes.protection);
        if self.is_open(Hole::HastyVacancy) {
            self.client.member().unprotect(&self.client.endpoint, &mut protection);
        }
        let since_ns = self.client.endpoint.now_ns();
        let place = Place { chunk, tag, offset_bytes, number: header.number };
        let queue = if header.main { Queue::Main } else { Queue::Small };
        let kept_max = (self.client.in_flight().count() as usize).clamp(1, KEPT_MAX);
        let oldest = {
            let mut kept = self.vacancies.kept.borrow_mut();
            kept.push(Vacancy { place, queue, record_bytes, queued, protection, since_ns, orphan: None });
            let surplus = kept.len().saturating_sub(kept_max);
            kept.drain(..surplus).collect::<Vec<_>>()
        };
        oldest.into_iter().for_each(|vacancy| self.give_up(vacancy));
        true
    }

    /// The place of a vacancy is dead memory from now on.
    fn give_up(&self, mut vacancy: Vacancy) {
        self.count_dead(vacancy.place.chunk, vacancy.record_bytes);
        self.client.member().unprotect(&self.client.endpoint, &mut vacancy.protection);
    }

    /// Gives up all vacancies that no operation uses.
    pub(super) fn give_up_vacancies(&self) {
        for vacancy in self.vacancies.kept.take() {
            self.give_up(vacancy);
        }
    }

    /// Gives up the vacancies in a chunk that this client owns.
    pub(super) fn give_up_vacancies_in(&self, chunk: ChunkId) {
        let is_there = |vacancy: &mut Vacancy| vacancy.place.chunk == chunk;
        let there: Vec<_> = self.vacancies.kept.borrow_mut().extract_if(.., is_there).collect();
        for mut vacancy in there {
            // The owner has looked at what is alive, and the descriptor counts for the next group.
            self.note_died(vacancy.record_bytes);
            self.client.member().unprotect(&self.client.endpoint, &mut vacancy.protection);
        }
    }

    /// Gives up the vacancies that this client has kept for long.
    pub(super) fn give_up_old_vacancies(&self) {
        if self.vacancies.kept.borrow().is_empty() {
            return;
        }
        let now_ns = self.client.endpoint.now_ns();
        let is_old = |vacancy: &mut Vacancy| now_ns.wrapping_sub(vacancy.since_ns) > KEPT_NS_MAX;
        let old: Vec<_> = self.vacancies.kept.borrow_mut().extract_if(.., is_old).collect();
        old.into_iter().for_each(|vacancy| self.give_up(vacancy));
    }

    /// The place of a vacancy has a record that others know of.
    fn end_use(&self, mut vacancy: Vacancy) {
        self.vacancies.in_use.set(self.vacancies.in_use.get() - 1);
        self.client.member().unprotect(&self.client.endpoint, &mut vacancy.protection);
    }

    /// Copies an orphaned record to a group of this client. If no slot points to it any more,
    /// another client has replaced, moved or removed the object.
    #[cold]
    pub(super) async fn copy_orphan(&self, op: &mut Operation) -> Result<Try, CacheError> {
        let mut orphan = op.notes.orphan.take().expect("the operation has an orphaned record");
        let Orphan { slot, word, entry, header, .. } = *orphan;
        let (queue, carry) = (orphan.vacancy.queue, 1);
        let mut placed = None;
        if self.draw_stock(op, usize::from(!self.has_room(queue, header.record_bytes()))) {
            placed = self.take_place(queue, entry, carry, &header);
            if placed.is_none() {
                placed = self.open_place(op, (queue, carry), entry, &header).await?;
            }
        }
        let Some(place) = placed else {
            op.notes.orphan = Some(orphan);
            op.notes.short_of = Some((queue, header.record_bytes()));
            return Ok(Try::Short(1));
        };
        let layout = &self.client.pool.layout;
        let header = Header { number: place.number, generation: self.sealed_tag(place.tag), ..header };
        let mut copy = self.spares.take(0);
        record::append_copy(&mut copy, &op.outgoing, &self.shared.hasher, &header);
        let heap_offset = u64::from(place.chunk.0) * layout.chunk_bytes + place.offset_bytes;
        let length = RecordLength::of(header.record_bytes());
        let to = self.shared.format.live(word.fingerprint(), length, heap_offset, place.tag);
        // Copies of the object stay right.
        let to = to.in_place_of(word).shared_as(word.sharing());
        let (at, slot) = (layout.chunk(place.chunk).add(place.offset_bytes), self.slot_at(slot));
        let is_in_order = self.is_in_order(at, slot);
        let copy = if is_in_order { copy } else { self.write_first(at, copy).await? };
        let mut batch = Batch::new();
        let written = Earlier::add(&mut batch, at, copy, is_in_order);
        let swap = batch.compare_and_swap(slot, word.0, to.0);
        self.client.endpoint.post(&mut batch).await?;
        self.spares.keep(written.take(&mut batch));
        let fate = if batch.swapped(swap) { Fate::Published { extent_bytes: 0 } } else { Fate::Withdrawn };
        self.settle_place(&place, &header, fate);
        if fate == Fate::Withdrawn
            && let Some((slot, word)) = self.slot_of_orphan(op, &orphan).await?
        {
            // Its bucket was split, or the state of its copies has changed.
            (orphan.slot, orphan.word) = (slot, word);
            op.notes.orphan = Some(orphan);
            return Ok(Try::Anew);
        }
        // The client that replaced the record instead has counted it as dead.
        if fate != Fate::Withdrawn {
            self.count_dead(orphan.vacancy.place.chunk, header.record_bytes());
        }
        self.end_use(orphan.vacancy);
        Ok(Try::Done(Some(header.token)))
    }

    /// The slot that points to an orphaned record, and its word.
    async fn slot_of_orphan(&self, op: &mut Operation, orphan: &Orphan) -> Result<Option<(u64, Slot)>, CacheError> {
        let (format, (_, hash)) = (self.shared.format, orphan.entry);
        self.read_bucket(op, hash).await?;
        let is_its = |word: Slot| {
            word.is_live()
                && format.heap_offset(word) == format.heap_offset(orphan.word)
                && format.tag_of(word) == format.tag_of(orphan.word)
        };
        let seen = op.candidates(hash).map(|place| op.seen(place)).find(|(word, _)| is_its(*word));
        Ok(seen.map(|(word, slot)| (slot, word)))
    }

    /// An operation ends with an orphaned record for which it has found no room: evicts it.
    #[cold]
    pub(super) async fn evict_orphan(&self, op: &mut Operation, orphan: Orphan) -> Result<(), CacheError> {
        while let Some((slot, word)) = self.slot_of_orphan(op, &orphan).await? {
            let noted = self.removal_in(word, &op.outgoing, Cause::Evicted).await?;
            if copies::take_out(self, slot, word).await? {
                self.removals.note_read(noted);
                self.stats.evictions.add(1);
                self.count_dead(orphan.vacancy.place.chunk, orphan.header.record_bytes());
                self.count_removed(1).await?;
            }
        }
        self.end_use(orphan.vacancy);
        Ok(())
    }
}

impl Orphan {
    /// The token of its object.
    pub(super) fn token(&self) -> u64 {
        self.header.token
    }
}

impl From<Place> for Placement {
    fn from(place: Place) -> Self {
        Self { place, used: None }
    }
}
