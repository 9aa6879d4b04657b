//! Reads.
//!
//! | the node believes | a read without a valid copy |
//! |---|---|
//! | On | READs the object, and makes a copy |
//! | Off, or Off for good | READs what is asked for |
//! | nothing, regular reads | READs the mode and what is asked for, in one round trip; makes no copy |
//! | nothing, linearizable reads | adds 0 to the mode and READs what is asked for, in one round trip; makes a copy of a whole object if the mode is On |
//!
//! Where everything is cached, a node believes On. Beside a central manager the manager READs, and
//! the reader makes a copy of what it is sent: see [`central`](crate::central).
//!
//! Two READs are in no order, so a read that READs the mode makes no copy. It costs no atomic:
//! after a switch, all clients that read a popular object ask for its mode at once. Writes of
//! linearizable objects end what nodes believe. So their readers ask often, and copy at once: a
//! READ is in order behind an atomic.
//!
//! **Why a copy is never old.** A copy carries the stripe's words as they were before its READ. The
//! node believed On by the same generation, so the mode was On, or in transition from On, until the
//! words change. (A node that was told nothing knows the first mode: `newcomer`.) A write in these
//! modes adds to the stripe of this node after it has landed. If it landed before the READ, the
//! copy has its bytes. If it landed later, the words differ once it is complete.

use crate::burial::MayBeDropped;
use crate::directory::Stripe;
use crate::error::NearError;
use crate::hole::Hole;
use crate::mode::ModeWord;
use crate::near::Near;
use crate::node::{LINE_BYTES, Layout};
use crate::object::Object;
use crate::owners::OwnersWord;
use crate::profit::Access;
use crate::protocol::Promise;
use crate::records::{Bucket, Found, HEADER_BYTES, Sample};
use crate::stripe::{self, Belief, StripeLine};
use crate::switch::{ONE_HIT, ONE_INVALID, ONE_OPERATION, ONE_READ};
use crate::verbs::swap;
use atoll_fabric::{BATCH_VERBS_MAX, Batch, Buffer, Endpoint, Messenger, Ticket};
use std::ops::Range;

/// What is needed to make a copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copying {
    hash: u64,
    bucket: Bucket,
    stripe: Stripe,
    line: StripeLine,
    losses: u64,
    way: Way,
    /// Whether the node has to become an owner first.
    becomes_owner: bool,
}

impl Copying {
    /// Whether the mode is unknown: it is asked for in the same batch.
    fn asks_mode(&self) -> bool {
        matches!(self.way, Way::AskByRead | Way::AskByAtomic)
    }
}

/// A read without a copy.
#[derive(Debug)]
pub(crate) struct Miss {
    pub(crate) object: Object,
    part: Range<u32>,
    /// `None` if the object may not be cached: then the read only READs.
    pub(crate) copying: Option<Copying>,
}

/// A miss whose verbs are in a batch.
struct Asked {
    read: Ticket,
    mode: Option<Ticket>,
    owner: Option<Ticket>,
}

enum Looked {
    Hit(Buffer),
    Miss(Miss, Buffer),
}

/// What a read without a valid copy does: a row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// It READs the object, and makes a copy.
    Copy,
    /// It READs what is asked for.
    Bypass,
    /// It READs the mode and what is asked for.
    AskByRead,
    /// It READs what is asked for behind an atomic on the mode.
    AskByAtomic,
}

impl Way {
    fn of(belief: Belief, promise: Promise) -> Self {
        match (belief, promise) {
            (Belief::On, _) => Self::Copy,
            (Belief::Off | Belief::Pinned, _) => Self::Bypass,
            (Belief::Nothing, Promise::Regular) => Self::AskByRead,
            (Belief::Nothing, Promise::Linearizable) => Self::AskByAtomic,
        }
    }
}

/// How often a reader tries to become an owner, before it does without a copy.
const OWNER_TRIES: u32 = 4;

/// A stripe whose mode is to be judged.
type Due = Option<(Stripe, u64)>;

impl<E: Endpoint + Messenger> Near<E> {
    /// Reads an object into the buffer, whose window then is the object's bytes.
    ///
    /// # Errors
    /// A verb's error.
    pub async fn read(&self, object: &Object, into: Buffer) -> Result<Buffer, NearError> {
        self.read_part(object, object.whole(), into).await
    }

    /// Reads a part of an object, in bytes from the object's first.
    ///
    /// # Errors
    /// A verb's error.
    ///
    /// # Panics
    /// If the part is empty, is not words, or reaches beyond the object.
    pub async fn read_part(&self, object: &Object, part: Range<u32>, into: Buffer) -> Result<Buffer, NearError> {
        self.or_ended(self.read_part_now(object, part, into).await).await
    }

    async fn read_part_now(&self, object: &Object, part: Range<u32>, into: Buffer) -> Result<Buffer, NearError> {
        object.check(&part);
        let begun = self.begun();
        let (looked, due) = self.look(object, &part, into).await?;
        let buffer = match looked {
            Looked::Hit(buffer) => {
                let buffer = self.read_uncached(object, &part, buffer).await?;
                self.timed(Access::Hit, begun);
                buffer
            }
            Looked::Miss(miss, buffer) if self.has_manager() && miss.copying.is_some() => {
                self.read_from_manager(&miss, buffer, begun).await?
            }
            Looked::Miss(miss, buffer) => {
                let mut batch = Batch::new();
                let asked = self.ask(&miss, buffer, &mut batch);
                self.endpoint.post(&mut batch).await?;
                self.settle(miss, &mut batch, &asked, begun).await?
            }
        };
        self.judge_due(due).await?;
        Ok(buffer)
    }

    /// Reads many objects. Those without a copy are READ together. `into` has a buffer for each,
    /// and the buffers come back in the same order.
    ///
    /// # Errors
    /// A verb's error.
    ///
    /// # Panics
    /// If there are not as many buffers as objects.
    pub async fn read_many(&self, objects: &[Object], into: Vec<Buffer>) -> Result<Vec<Buffer>, NearError> {
        self.or_ended(self.read_many_now(objects, into).await).await
    }

    async fn read_many_now(&self, objects: &[Object], into: Vec<Buffer>) -> Result<Vec<Buffer>, NearError> {
        assert_eq!(objects.len(), into.len(), "a buffer for each object");
        let (mut buffers, mut misses, mut dues) = (Vec::with_capacity(into.len()), Vec::new(), Vec::new());
        for (index, (object, buffer)) in objects.iter().zip(into).enumerate() {
            let (looked, due) = self.look(object, &object.whole(), buffer).await?;
            dues.extend(due);
            match looked {
                Looked::Hit(buffer) => buffers.push(self.read_uncached(object, &object.whole(), buffer).await?),
                Looked::Miss(miss, buffer) if self.has_manager() && miss.copying.is_some() => {
                    buffers.push(self.read_from_manager(&miss, buffer, self.begun()).await?);
                }
                Looked::Miss(miss, buffer) => {
                    buffers.push(Buffer::new());
                    misses.push((index, miss, buffer));
                }
            }
        }
        let mut left = misses.into_iter();
        loop {
            let (mut batch, mut asked) = (Batch::new(), Vec::new());
            let begun = self.begun();
            for (index, miss, buffer) in left.by_ref().take(BATCH_VERBS_MAX / 3) {
                asked.push((index, self.ask(&miss, buffer, &mut batch), miss));
            }
            if asked.is_empty() {
                break;
            }
            self.endpoint.post(&mut batch).await?;
            for (index, asked, miss) in asked {
                buffers[index] = self.settle(miss, &mut batch, &asked, begun).await?;
            }
        }
        for due in dues {
            self.judge_due(Some(due)).await?;
        }
        Ok(buffers)
    }
}

impl<E: Endpoint> Near<E> {
    /// Looks for a copy; without one, decides what the read does.
    async fn look(&self, object: &Object, part: &Range<u32>, into: Buffer) -> Result<(Looked, Due), NearError> {
        let bypass = |buffer| {
            let miss = Miss { object: *object, part: part.clone(), copying: None };
            (Looked::Miss(miss, buffer), None)
        };
        let found = self.stripe_in_use(object).await?;
        let Some((stripe, hash)) = found.filter(|_| !object.is_uncached(part)) else { return Ok(bypass(into)) };
        let is_adaptive = self.directory.options().protocol.is_adaptive();
        let stripe_at = self.layout.stripe_at(stripe);
        let count = is_adaptive.then(|| (stripe_at.add(stripe::COUNTS), ONE_OPERATION + ONE_READ + ONE_HIT));
        let (found, counted) = self.find(object, part, hash, stripe_at, count, into).await?;
        let (buffer, bucket) = match found {
            Found::Copy(buffer) => {
                self.counting.add(|counts| counts.hits += 1);
                return Ok((Looked::Hit(buffer), Some((stripe, counted))));
            }
            Found::Nothing(buffer, bucket) => (buffer, bucket),
        };
        let mut batch = Batch::new();
        let line = batch.read(stripe_at, self.spare(LINE_BYTES as usize));
        let losses = batch.read_word(Layout::losses_on(self.layout.base));
        let addend = if counted == 0 { ONE_OPERATION + ONE_READ } else { ONE_INVALID };
        let counting = is_adaptive.then(|| batch.fetch_and_add(stripe_at.add(stripe::COUNTS), addend));
        self.endpoint.post(&mut batch).await?;
        let counted = counting.map_or(0, |counting| batch.word(counting).wrapping_add(addend));
        let words = batch.take(line);
        let line = StripeLine::of(words.words(), self.directory.first_belief());
        self.give_back(words);
        let losses = batch.word(losses);
        let belief = if is_adaptive { line.belief } else { Belief::On };
        let is_coherent = self.directory.options().protocol.is_decentralized();
        let way = Way::of(belief, self.directory.options().promise);
        let is_tracked = is_coherent && way == Way::Copy && self.tracking(losses).await?.sets_bits();
        let becomes_owner = is_tracked && !line.is_owner() && !self.open.lacks(Hole::OwnerBits);
        let copying = Copying { hash, bucket, stripe, line, losses, way, becomes_owner };
        let miss = Miss { object: *object, part: part.clone(), copying: (way != Way::Bypass).then_some(copying) };
        Ok((Looked::Miss(miss, buffer), Some((stripe, counted))))
    }

    /// Adds the verbs of a miss. Its READ is in order behind the atomics.
    fn ask(&self, miss: &Miss, mut buffer: Buffer, batch: &mut Batch) -> Asked {
        let copying = miss.copying.as_ref();
        let asking = copying.filter(|copying| copying.asks_mode());
        let mode = asking.map(|copying| match copying.way {
            Way::AskByAtomic => batch.fetch_and_add(copying.stripe.mode_at, 0),
            _ => batch.read_word(copying.stripe.mode_at),
        });
        let owner = copying.filter(|copying| copying.becomes_owner);
        let owner = owner.map(|copying| self.add_owner(copying.stripe, OwnersWord::from_bits(0), batch));
        let part = match copying {
            // A copy is of the whole object.
            Some(copying) if !copying.asks_mode() => miss.object.whole(),
            _ => miss.part.clone(),
        };
        let start = if copying.is_some() { HEADER_BYTES } else { 0 };
        buffer.narrow(start, part.len());
        let read = batch.read(miss.object.at().add(part.start.into()), buffer);
        Asked { read, mode, owner }
    }

    /// Adds the swap that makes this node an owner, if the owners are still these.
    fn add_owner(&self, stripe: Stripe, owners: OwnersWord, batch: &mut Batch) -> Ticket {
        batch.compare_and_swap(stripe.owners_at(), owners.bits(), owners.with(self.place.get()).bits())
    }

    /// Uses what the verbs of a miss have brought.
    async fn settle(
        &self,
        miss: Miss,
        batch: &mut Batch,
        asked: &Asked,
        begun: Option<u64>,
    ) -> Result<Buffer, NearError> {
        let mut buffer = batch.take(asked.read);
        let Some(copying) = &miss.copying else {
            self.counting.add(|counts| counts.bypasses += 1);
            self.timed(Access::ReadBypassing, begun);
            return Ok(buffer);
        };
        if let Some(mode) = asked.mode {
            let mode = self.directory.mode_of(batch.word(mode));
            self.believe(copying.stripe, &copying.line, mode).await?;
            let is_in_order = copying.way == Way::AskByAtomic;
            if !is_in_order || !mode.admits_copies() || miss.part != miss.object.whole() {
                self.counting.add(|counts| counts.bypasses += 1);
                return Ok(buffer);
            }
        }
        let mut may_copy = true;
        match asked.owner {
            Some(owner) if !batch.swapped(owner) => {
                let found = OwnersWord::from_bits(batch.word(owner));
                (buffer, may_copy) = self.read_as_owner(&miss.object, copying, found, buffer).await?;
            }
            Some(_) => self.know_owner(copying).await?,
            None => {}
        }
        if may_copy {
            return self.keep(&miss, copying, buffer, begun).await;
        }
        Ok(self.end_miss(&miss, copying, buffer, begun))
    }

    /// Makes a copy of an object that was READ; what was asked for of it.
    pub(crate) async fn keep(
        &self,
        miss: &Miss,
        copying: &Copying,
        buffer: Buffer,
        begun: Option<u64>,
    ) -> Result<Buffer, NearError> {
        let buffer = self.copy(&miss.object, copying, buffer).await?;
        Ok(self.end_miss(miss, copying, buffer, begun))
    }

    /// What was asked for of an object that was READ.
    fn end_miss(&self, miss: &Miss, copying: &Copying, mut buffer: Buffer, begun: Option<u64>) -> Buffer {
        self.counting.add(|counts| counts.misses += 1);
        if !copying.asks_mode() {
            self.timed(Access::Miss, begun);
        }
        buffer.narrow(HEADER_BYTES + miss.part.start as usize, miss.part.len());
        buffer
    }

    /// Becomes an owner and READs the object, in one batch; whether it has become an owner.
    async fn read_as_owner(
        &self,
        object: &Object,
        copying: &Copying,
        mut owners: OwnersWord,
        mut buffer: Buffer,
    ) -> Result<(Buffer, bool), NearError> {
        for _ in 0..OWNER_TRIES {
            let mut batch = Batch::new();
            let owner = self.add_owner(copying.stripe, owners, &mut batch);
            let read = batch.read(object.at(), buffer);
            self.endpoint.post(&mut batch).await?;
            buffer = batch.take(read);
            if batch.swapped(owner) {
                self.know_owner(copying).await?;
                return Ok((buffer, true));
            }
            owners = OwnersWord::from_bits(batch.word(owner));
        }
        Ok((buffer, false))
    }

    /// Remembers that this node is an owner, until a writer tells it.
    async fn know_owner(&self, copying: &Copying) -> Result<(), NearError> {
        let at = self.layout.stripe_at(copying.stripe).add(stripe::OWNER);
        let known = copying.line.validity.invalidations.wrapping_add(1);
        let _ = swap(&self.endpoint, at, copying.line.owner, known).await?;
        Ok(())
    }

    async fn copy(&self, object: &Object, copying: &Copying, buffer: Buffer) -> Result<Buffer, NearError> {
        let mut sample = Sample { validity: copying.line.validity, losses: copying.losses };
        if self.open.lacks(Hole::SampleFirst) {
            sample.validity = self.read_line(copying.stripe).await?.0.validity;
        }
        self.publish(object, copying.hash, &copying.bucket, sample, buffer).await
    }

    /// Remembers a mode that was READ after the line.
    pub(crate) async fn believe(&self, stripe: Stripe, line: &StripeLine, mode: ModeWord) -> Result<(), NearError> {
        let belief = Belief::of(mode);
        if belief != Belief::Nothing && belief != line.belief {
            let at = self.layout.stripe_at(stripe).add(stripe::BELIEF);
            let word = line.validity.belief_word(belief);
            // Another client of this node may have remembered the same.
            let _ = swap(&self.endpoint, at, line.belief_word, word).await?;
        }
        Ok(())
    }

    /// Replaces the uncached bytes of a copy by those of the memory node.
    async fn read_uncached(&self, object: &Object, part: &Range<u32>, mut buffer: Buffer) -> Result<Buffer, NearError> {
        let Some(uncached) = object.uncached_of(part) else { return Ok(buffer) };
        let fresh = self.endpoint.read(object.at().add(uncached.start.into()), self.spare(uncached.len())).await?;
        let start = (uncached.start - part.start) as usize;
        buffer.bytes_mut()[start..start + uncached.len()].copy_from_slice(fresh.bytes());
        self.give_back(fresh);
        Ok(buffer)
    }

    async fn judge_due(&self, due: Due) -> Result<(), NearError> {
        match due {
            Some((stripe, counted)) if self.is_due(counted) => {
                let _may_be_dropped = MayBeDropped::begin(&self.may_be_dropped);
                self.judge(stripe).await
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{Row, follow};

    #[test]
    fn one_row_of_the_table_matches_every_read() {
        let rows: [Row<(Belief, Promise), Way>; 4] = [
            ("On", |(belief, _)| *belief == Belief::On, Way::Copy),
            ("Off, or Off for good", |(belief, _)| matches!(belief, Belief::Off | Belief::Pinned), Way::Bypass),
            ("nothing, regular", |case| *case == (Belief::Nothing, Promise::Regular), Way::AskByRead),
            ("nothing, linearizable", |case| *case == (Belief::Nothing, Promise::Linearizable), Way::AskByAtomic),
        ];
        let cases = Belief::ALL.into_iter().flat_map(|belief| Promise::ALL.map(|promise| (belief, promise)));
        follow(&rows, cases, |(belief, promise)| Way::of(*belief, *promise));
    }
}
