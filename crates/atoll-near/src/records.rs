//! The copies of a compute node: an index of one-word slots, and segments of records.
//!
//! ```text
//! slot    fingerprint 16 | segment 16 | place 16, of 16 bytes each | generation 16      0: empty
//! record  address | length | invalidations | own changes | losses | generation | bytes
//! ```
//!
//! A client owns the segment that it fills; the owner word names the client before its first
//! record. A full segment has no owner. Segments are filled again in the order of their numbers:
//! the node evicts what it copied first. A new owner adds 1 to the segment's generation before it
//! writes. Records never change once a slot names them.
//!
//! | a reader | finds |
//! |---|---|
//! | READs the bucket, and a record that a slot with the fingerprint names | the object's address and length, or the slot names another object |
//! | then READs the stripe's words, `losses` and the segment's generation | all are as the record has them, or the copy is not valid any more |
//!
//! The second step follows the first, so it also shows that the bytes did not change while they
//! were copied. The slot has the generation, too: so an older slot does not lead to a record that
//! its client has not written to its end. A reader needs no lock. A client that dies at any point
//! leaves a segment with its name at most. Another client takes that over once the owner is dead.

use crate::error::NearError;
use crate::hole::Hole;
use crate::near::Near;
use crate::node::Layout;
use crate::object::Object;
use crate::stripe::Validity;
use crate::verbs::{add, swap};
use atoll_fabric::{Address, Batch, Buffer, Endpoint, Identity, VerbError};
use atoll_pool::fields::Fields;
use std::cell::{Cell, RefCell};
use std::ops::Range;

const SLOT: Fields<4> = Fields::new([16, 16, 16, 16]);
const PLACE_BYTES: u64 = 16;
pub(crate) const HEADER_WORDS: usize = 6;
/// Bytes of a record before those of its object.
pub(crate) const HEADER_BYTES: usize = 8 * HEADER_WORDS;
/// Segments that a client tries before it does without a copy.
const SEGMENT_TRIES: u32 = 8;
/// The slots of a bucket.
pub(crate) const BUCKET_SLOTS: usize = 8;

/// The segment that a client fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filling {
    /// None.
    Nothing,
    /// An operation of the client is getting one.
    Getting,
    /// This one.
    Segment { segment: u64, generation: u64, used: u64 },
}

/// Room for a record.
#[derive(Clone, Copy, Debug)]
struct Room {
    segment: u64,
    generation: u64,
    offset: u64,
}

/// What a slot names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Named {
    segment: u64,
    offset: u64,
}

/// A bucket of the index, as a client has READ it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    number: u64,
    slots: [u64; BUCKET_SLOTS],
}

/// What must not have changed since a record's bytes were READ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) validity: Validity,
    pub(crate) losses: u64,
}

/// The result of a look-up.
pub(crate) enum Found {
    /// The bytes of a valid copy.
    Copy(Buffer),
    /// None; the buffer comes back, with the bucket.
    Nothing(Buffer, Bucket),
}

fn fingerprint(hash: u64) -> u64 {
    (hash >> 48).max(1)
}

impl<E: Endpoint> Near<E> {
    fn bucket_number(&self, hash: u64) -> u64 {
        // The lower bits choose the stripe.
        hash.rotate_right(24) & (self.layout.buckets - 1)
    }

    /// Where a slot points to, unless the place is outside.
    fn named(&self, slot: u64, bytes: u64) -> Option<Named> {
        let [_, segment, place, _] = SLOT.unpack(slot);
        let offset = place * PLACE_BYTES;
        let is_inside = segment < self.layout.segments && offset + bytes <= self.layout.segment_bytes;
        is_inside.then_some(Named { segment, offset })
    }

    /// READs the bucket of an object.
    pub(crate) async fn read_bucket(&self, hash: u64) -> Result<Bucket, VerbError> {
        let number = self.bucket_number(hash);
        let line = self.endpoint.read(self.layout.bucket_at(number), self.spare(8 * BUCKET_SLOTS)).await?;
        let mut slots = [0; BUCKET_SLOTS];
        slots.copy_from_slice(line.words());
        self.give_back(line);
        Ok(Bucket { number, slots })
    }

    /// Looks for a valid copy of a part of the object. `count` is a word to add to once a copy is
    /// found, valid or not, and the addend. Returns the sum, or 0 if nothing was added.
    pub(crate) async fn find(
        &self,
        object: &Object,
        part: &Range<u32>,
        hash: u64,
        stripe_at: Address,
        count: Option<(Address, u64)>,
        mut buffer: Buffer,
    ) -> Result<(Found, u64), NearError> {
        let bucket = self.read_bucket(hash).await?;
        let slots = bucket.slots;
        let record_bytes = HEADER_BYTES as u64 + u64::from(object.bytes());
        let mut counted = 0;
        let may_be =
            |slot: &u64| SLOT.unpack(*slot)[0] == fingerprint(hash) || self.open.lacks(Hole::RecordNamesObject);
        for slot in slots.iter().copied().filter(|slot| *slot != 0 && may_be(slot)) {
            let Some(named) = self.named(slot, record_bytes) else { continue };
            let record_at = self.layout.segment_at(named.segment).add(named.offset);
            let header = if part.start == 0 {
                buffer.narrow(0, HEADER_BYTES + part.end as usize);
                buffer = self.endpoint.read(record_at, buffer).await?;
                Header::of(&buffer.words()[..HEADER_WORDS])
            } else {
                buffer.narrow(HEADER_BYTES, part.len());
                let mut batch = Batch::new();
                let first = batch.read(record_at, self.spare(HEADER_BYTES));
                let rest = batch.read(record_at.add(HEADER_BYTES as u64 + u64::from(part.start)), buffer);
                self.endpoint.post(&mut batch).await?;
                let first = batch.take(first);
                let header = Header::of(first.words());
                self.give_back(first);
                buffer = batch.take(rest);
                header
            };
            let names_object = self.open.lacks(Hole::RecordNamesObject) || header.at == object.at().to_bits();
            if !names_object || header.bytes != u64::from(object.bytes()) {
                continue;
            }
            let mut batch = Batch::new();
            let invalidations = batch.read_word(stripe_at);
            let own_changes = batch.read_word(stripe_at.add(8));
            let losses = batch.read_word(Layout::losses_on(self.layout.base));
            let generation = batch.read_word(self.layout.generation_at(named.segment));
            let counting = count.filter(|_| counted == 0).map(|(at, addend)| batch.fetch_and_add(at, addend));
            self.endpoint.post(&mut batch).await?;
            if let Some(counting) = counting {
                counted = batch.word(counting).wrapping_add(count.map_or(0, |(_, addend)| addend));
            }
            let present = Sample {
                validity: Validity { invalidations: batch.word(invalidations), own_changes: batch.word(own_changes) },
                losses: batch.word(losses),
            };
            // An older slot may point to a record that is being written.
            let is_kept = header.generation == batch.word(generation)
                && header.generation & SLOT.max(3) == SLOT.unpack(slot)[3]
                || self.open.lacks(Hole::SegmentGeneration);
            if self.open.lacks(Hole::LookOfHits) || header.sample == present && is_kept {
                buffer.narrow(HEADER_BYTES, part.len());
                return Ok((Found::Copy(buffer), counted));
            }
        }
        Ok((Found::Nothing(buffer, bucket), counted))
    }

    /// Makes a copy of an object. `buffer` has its bytes behind room for the header. Without room
    /// in the near cache no copy is made.
    pub(crate) async fn publish(
        &self,
        object: &Object,
        hash: u64,
        bucket: &Bucket,
        sample: Sample,
        mut buffer: Buffer,
    ) -> Result<Buffer, NearError> {
        let bytes = HEADER_BYTES as u64 + u64::from(object.bytes());
        let Some(room) = self.room(bytes).await? else { return Ok(buffer) };
        buffer.narrow(0, bytes as usize);
        let header =
            Header { at: object.at().to_bits(), bytes: object.bytes().into(), sample, generation: room.generation };
        header.write(&mut buffer.words_mut()[..HEADER_WORDS]);
        let mut batch = Batch::new();
        let written = batch.write(self.layout.segment_at(room.segment).add(room.offset), buffer);
        let publishing = Publishing::begin(self);
        self.endpoint.post(&mut batch).await?;
        publishing.end();
        let buffer = batch.take(written);
        let place = room.offset / PLACE_BYTES;
        let slot = SLOT.pack([fingerprint(hash), room.segment, place, room.generation & SLOT.max(3)]);
        let index = self.slot_for(hash, bucket);
        let at = self.layout.bucket_at(bucket.number).add(8 * index as u64);
        // Another client may have used the slot since. Then this copy is lost, and nothing else.
        if swap(&self.endpoint, at, bucket.slots[index], slot).await?.is_ok() {
            self.counting.add(|counts| counts.copies += 1);
        }
        Ok(buffer)
    }

    /// The slot to replace: the object's own, an empty one, or one by turns.
    fn slot_for(&self, hash: u64, bucket: &Bucket) -> usize {
        let fingerprint = fingerprint(hash);
        let is_same = |slot: &u64| *slot != 0 && SLOT.unpack(*slot)[0] == fingerprint;
        let same = bucket.slots.iter().position(is_same);
        let empty = || bucket.slots.iter().position(|slot| *slot == 0);
        let turn = || {
            let turn = self.turn.get();
            self.turn.set(turn.wrapping_add(1));
            turn % BUCKET_SLOTS
        };
        same.or_else(empty).unwrap_or_else(turn)
    }

    /// Room for a record in the segment that this client fills, or in another one.
    async fn room(&self, bytes: u64) -> Result<Option<Room>, NearError> {
        if bytes > self.layout.segment_bytes {
            return Ok(None);
        }
        match self.filling.get() {
            Filling::Getting => return Ok(None),
            Filling::Segment { segment, generation, used } if used + bytes <= self.layout.segment_bytes => {
                let used_then = used + bytes.next_multiple_of(PLACE_BYTES);
                self.filling.set(Filling::Segment { segment, generation, used: used_then });
                return Ok(Some(Room { segment, generation, offset: used }));
            }
            // A segment is given up once all its records have landed.
            Filling::Segment { .. } if self.publishing.get() > 0 => return Ok(None),
            Filling::Segment { .. } | Filling::Nothing => {}
        }
        let full = self.filling.replace(Filling::Getting);
        let getting = Getting(&self.filling);
        let got = self.next_segment(full).await;
        drop(getting);
        let (room, filling) = match &got {
            Ok(Some((segment, generation))) => {
                let (segment, generation) = (*segment, *generation);
                let used = bytes.next_multiple_of(PLACE_BYTES);
                let filling = Filling::Segment { segment, generation, used };
                (Some(Room { segment, generation, offset: 0 }), filling)
            }
            _ => (None, Filling::Nothing),
        };
        self.filling.set(filling);
        got.map(|_| room)
    }

    /// Gives up a full segment, and becomes the owner of the one that was filled first.
    async fn next_segment(&self, full: Filling) -> Result<Option<(u64, u64)>, NearError> {
        self.release(full).await?;
        let own = u64::from(self.endpoint.identity().bits());
        for _ in 0..SEGMENT_TRIES {
            let segment = add(&self.endpoint, self.layout.cursor_at(), 1).await? % self.layout.segments;
            let owner_at = self.layout.owner_at(segment);
            let is_owned = match swap(&self.endpoint, owner_at, 0, own).await? {
                Ok(()) => true,
                // What a former client of this identity left, unless it is this one's own.
                Err(found) if found == own => !self.abandoned.borrow().contains(&segment),
                Err(found) => {
                    let owner = Identity::from_bits(found as u32);
                    self.endpoint.is_dead(owner).await? && swap(&self.endpoint, owner_at, found, own).await?.is_ok()
                }
            };
            if is_owned {
                let generation = add(&self.endpoint, self.layout.generation_at(segment), 1).await?.wrapping_add(1);
                if generation > 1 {
                    self.counting.add(|counts| counts.segments_evicted += 1);
                }
                return Ok(Some((segment, generation)));
            }
        }
        Ok(None)
    }

    /// Gives up the segment that this client fills.
    pub(crate) async fn release(&self, filling: Filling) -> Result<(), VerbError> {
        if let Filling::Segment { segment, .. } = filling {
            let own = u64::from(self.endpoint.identity().bits());
            let _ = swap(&self.endpoint, self.layout.owner_at(segment), own, 0).await?;
        }
        Ok(())
    }
}

/// An operation that gets a segment. If its future is dropped, another operation gets one.
struct Getting<'n>(&'n Cell<Filling>);

impl Drop for Getting<'_> {
    fn drop(&mut self) {
        self.0.set(Filling::Nothing);
    }
}

/// A WRITE of a record. If its future is dropped, the WRITE may still land: then the client goes on
/// with another segment, and keeps this one as long as it lives.
struct Publishing<'n> {
    publishing: &'n Cell<u32>,
    filling: &'n Cell<Filling>,
    abandoned: &'n RefCell<Vec<u64>>,
    has_landed: bool,
}

impl<'n> Publishing<'n> {
    fn begin<E>(near: &'n Near<E>) -> Self {
        near.publishing.update(|writes| writes + 1);
        let Near { publishing, filling, abandoned, .. } = near;
        Self { publishing, filling, abandoned, has_landed: false }
    }

    fn end(mut self) {
        self.has_landed = true;
    }
}

impl Drop for Publishing<'_> {
    fn drop(&mut self) {
        self.publishing.update(|writes| writes - 1);
        // A segment is filled until no WRITE to it is under way.
        if !self.has_landed
            && let Filling::Segment { segment, .. } = self.filling.get()
        {
            self.abandoned.borrow_mut().push(segment);
            self.filling.set(Filling::Nothing);
        }
    }
}

/// A record's words before the bytes of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    at: u64,
    bytes: u64,
    sample: Sample,
    generation: u64,
}

impl Header {
    fn of(words: &[u64]) -> Self {
        let validity = Validity { invalidations: words[2], own_changes: words[3] };
        Self { at: words[0], bytes: words[1], sample: Sample { validity, losses: words[4] }, generation: words[5] }
    }

    fn write(&self, words: &mut [u64]) {
        let Sample { validity, losses } = self.sample;
        let header = [self.at, self.bytes, validity.invalidations, validity.own_changes, losses, self.generation];
        words.copy_from_slice(&header);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::{Directory, DirectoryOptions};
    use crate::node::NodeOptions;
    use atoll_fabric::conformance::late::Late;
    use atoll_fabric::shm::{ShmEndpoint, ShmRegion};
    use atoll_fabric::{Clock, block_on};
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Waker};

    #[test]
    fn a_segment_to_which_a_dropped_write_may_be_under_way_is_not_filled_again() {
        let home = Arc::new(ShmRegion::anonymous(1 << 16).unwrap());
        let endpoint = || Late(ShmEndpoint::with_regions(vec![home.clone()], Clock::host()));
        let waiter = endpoint();
        let near = block_on(&waiter, async {
            let options = DirectoryOptions { stripes: 1, ..DirectoryOptions::default() };
            let tables = [Address::new(0, 0, 8192)];
            let directory = Directory::create(&endpoint(), Address::new(0, 0, 0), &tables, options).await.unwrap();
            let options = NodeOptions { bytes: 1 << 14, segment_bytes: 1024 };
            Near::join(endpoint(), directory, options).await.unwrap()
        });
        let object = Object::new(Address::new(0, 0, 1 << 15), 512);
        let bucket = Bucket { number: 0, slots: [0; BUCKET_SLOTS] };
        let sample = Sample { validity: Validity { invalidations: 0, own_changes: 0 }, losses: 0 };
        let publish = || near.publish(&object, 1, &bucket, sample, Buffer::sized(HEADER_BYTES + 512));
        let mut dropped = Box::pin(publish());
        while near.publishing.get() == 0 {
            assert!(pin!(&mut dropped).poll(&mut Context::from_waker(Waker::noop())).is_pending());
            waiter.wait();
        }
        let Filling::Segment { segment, .. } = near.filling.get() else { unreachable!("it fills one") };
        drop(dropped);
        let generation = || block_on(&waiter, near.endpoint.read(near.layout.generation_at(segment), Buffer::sized(8)));
        let before = generation().unwrap().words()[0];
        for _ in 0..3 * near.layout.segments {
            block_on(&waiter, publish()).unwrap();
        }
        assert!(near.counts().segments_evicted >= near.layout.segments, "others are filled again");
        assert_eq!(generation().unwrap().words()[0], before);
    }
}
