//! Writes.
//!
//! With [`Promise::Regular`](crate::Promise):
//!
//! | the node believes | round trip 1 | round trip 2 |
//! |---|---|---|
//! | On | WRITE | a change, to every node |
//! | Off, or Off for good | WRITE | none; a change, if the belief has ended meanwhile |
//! | nothing | WRITE, READ the mode | none if that is Off; a change otherwise |
//!
//! Where owners are tracked, round trip 1 READs them behind the WRITE, and round trip 2 tells them
//! alone: see `owners`.
//!
//! The last row needs no second look: the mode was Off after the WRITE had landed. A reader that
//! makes a copy READs the object after the mode was On.
//!
//! With [`Promise::Linearizable`](crate::Promise):
//!
//! | the node believes | round trip 1 | round trip 2 | round trip 3 |
//! |---|---|---|---|
//! | Off for good | WRITE | | |
//! | Off | WRITE, counted as a bypass while it is under way | | |
//! | On, nothing | set the node's bit in the mode | a generation, to every node, unless the mode is Off | WRITE, clear the bit |
//!
//! Where everything is cached, a node believes On. Beside a central manager the manager writes: see
//! [`central`](crate::central).
//!
//! A client that switches a stripe on waits until no bypass is under way. While a bit is set, no
//! copy is made. So no copy exists while an object changes. Clients of one node take turns, because
//! they share the bit. If the outcome of such a write is unknown, it may still change the bit at
//! any time: later writes of the stripe fail until this node or the memory node has ended.

use crate::directory::{DirectoryOptions, Stripe};
use crate::error::NearError;
use crate::hole::Hole;
use crate::mode::ModeWord;
use crate::near::Near;
use crate::node::{LINE_BYTES, Layout};
use crate::object::Object;
use crate::owners::OwnersWord;
use crate::profit::Access;
use crate::protocol::Promise;
use crate::stripe::{self, Belief, CHANGE, GENERATION, StripeLine, Validity};
use crate::switch::ONE_OPERATION;
use crate::verbs::{add, read_word, swap};
use atoll_fabric::{Address, Batch, Buffer, Endpoint, Identity, Messenger, VerbError};
use std::cell::RefCell;

/// How a client writes: a row of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// A WRITE, then a change.
    Change,
    /// A WRITE, then a change if the belief has ended.
    LookAgain,
    /// A WRITE and a READ of the mode, then a change unless that is Off.
    AskMode,
    /// A WRITE.
    Plain,
    /// A WRITE that counts as a bypass.
    Bypass,
    /// A WRITE while no copy exists.
    Exclude,
}

impl Way {
    fn of(belief: Belief, promise: Promise) -> Self {
        match (promise, belief) {
            (Promise::Regular, Belief::On) => Self::Change,
            (Promise::Regular, Belief::Off | Belief::Pinned) => Self::LookAgain,
            (Promise::Regular, Belief::Nothing) => Self::AskMode,
            (Promise::Linearizable, Belief::Pinned) => Self::Plain,
            (Promise::Linearizable, Belief::Off) => Self::Bypass,
            (Promise::Linearizable, Belief::On | Belief::Nothing) => Self::Exclude,
        }
    }
}

/// How long a client waits, at first and at most at a time, for another one of its node that writes
/// an object of the same stripe.
const WRITER_PAUSE_NS: u64 = 500;
const WRITER_PAUSE_NS_MAX: u64 = 1_000_000;

impl<E: Endpoint + Messenger> Near<E> {
    /// Writes a whole object from the buffer, which comes back.
    ///
    /// # Errors
    /// A verb's error: the object may have been written or not. [`NearError::Silent`]: see there.
    /// [`NearError::Ended`]: with [`Promise::Regular`](crate::Promise) other nodes may have old
    /// copies until a client calls [`Near::look_after_members`].
    ///
    /// # Panics
    /// If the buffer's length is not the object's.
    pub async fn write(&self, object: &Object, from: Buffer) -> Result<Buffer, NearError> {
        assert_eq!(from.len(), object.bytes() as usize, "as long as the object");
        self.write_part(object, 0, from).await
    }

    /// Writes a part of an object, from byte `start` on.
    ///
    /// # Errors
    /// As [`Near::write`].
    ///
    /// # Panics
    /// If the part is empty, is not words, or reaches beyond the object.
    pub async fn write_part(&self, object: &Object, start: u32, from: Buffer) -> Result<Buffer, NearError> {
        self.or_ended(self.write_part_now(object, start, from).await).await
    }

    async fn write_part_now(&self, object: &Object, start: u32, from: Buffer) -> Result<Buffer, NearError> {
        let part = start..start + u32::try_from(from.len()).expect("a part of an object");
        object.check(&part);
        let at = object.at().add(start.into());
        let found = self.stripe_in_use(object).await?;
        let Some((stripe, hash)) = found.filter(|_| !object.is_uncached(&part)) else {
            return self.post_write(at, from).await;
        };
        if self.has_manager() {
            return self.write_by_manager(object, part, (stripe, hash), from).await;
        }
        let begun = self.begun();
        let (line, losses, counted) = self.read_line(stripe).await?;
        let DirectoryOptions { protocol, promise, .. } = self.directory.options();
        let belief = if protocol.is_adaptive() { line.belief } else { Belief::On };
        let (buffer, did_invalidate) = match Way::of(belief, promise) {
            way @ (Way::Change | Way::LookAgain | Way::AskMode) => {
                self.write_then_tell(way, stripe, &line, losses, (at, from)).await?
            }
            Way::Plain => (self.post_write(at, from).await?, false),
            Way::Bypass => self.write_bypassing(stripe, &line, at, from).await?,
            Way::Exclude => self.write_exclusively(stripe, at, from).await?,
        };
        let access = if did_invalidate { Access::WriteInvalidating } else { Access::WriteBypassing };
        self.timed(access, begun);
        self.counting.add(|counts| {
            let count = if did_invalidate { &mut counts.writes_invalidating } else { &mut counts.writes_bypassing };
            *count += 1;
        });
        if self.is_due(counted) {
            self.judge(stripe).await?;
        }
        Ok(buffer)
    }

    /// Writes many objects one after the other, in their order.
    ///
    /// # Errors
    /// As [`Near::write`]; later objects are not written then.
    ///
    /// # Panics
    /// If there are not as many buffers as objects.
    pub async fn write_many(&self, objects: &[Object], from: Vec<Buffer>) -> Result<Vec<Buffer>, NearError> {
        assert_eq!(objects.len(), from.len(), "a buffer for each object");
        let mut buffers = Vec::with_capacity(from.len());
        for (object, buffer) in objects.iter().zip(from) {
            buffers.push(self.write(object, buffer).await?);
        }
        Ok(buffers)
    }
}

impl<E: Endpoint> Near<E> {
    async fn post_write(&self, at: Address, from: Buffer) -> Result<Buffer, NearError> {
        let mut batch = Batch::new();
        let written = batch.write(at, from);
        self.endpoint.post(&mut batch).await?;
        Ok(batch.take(written))
    }

    /// READs a stripe's line and the node's losses, and counts an operation.
    pub(crate) async fn read_line(&self, stripe: Stripe) -> Result<(StripeLine, u64, u64), NearError> {
        let at = self.layout.stripe_at(stripe);
        let mut batch = Batch::new();
        let line = batch.read(at, self.spare(LINE_BYTES as usize));
        let losses = batch.read_word(Layout::losses_on(self.layout.base));
        let is_adaptive = self.directory.options().protocol.is_adaptive();
        let counting = is_adaptive.then(|| batch.fetch_and_add(at.add(stripe::COUNTS), ONE_OPERATION));
        self.endpoint.post(&mut batch).await?;
        let counted = counting.map_or(0, |counting| batch.word(counting).wrapping_add(ONE_OPERATION));
        let words = batch.take(line);
        let line = StripeLine::of(words.words(), self.directory.first_belief());
        self.give_back(words);
        Ok((line, batch.word(losses), counted))
    }

    /// Whether no generation has begun since the line was READ.
    async fn is_same_generation(&self, stripe: Stripe, line: &StripeLine) -> Result<bool, NearError> {
        let at = self.layout.stripe_at(stripe);
        let mut batch = Batch::new();
        let invalidations = batch.read_word(at.add(stripe::INVALIDATIONS));
        let own_changes = batch.read_word(at.add(stripe::OWN_CHANGES));
        self.endpoint.post(&mut batch).await?;
        let present = Validity { invalidations: batch.word(invalidations), own_changes: batch.word(own_changes) };
        Ok(present.is_same_generation(line.validity))
    }

    /// Writes, and whether copies were invalidated.
    async fn write_then_tell(
        &self,
        way: Way,
        stripe: Stripe,
        line: &StripeLine,
        losses: u64,
        (at, from): (Address, Buffer),
    ) -> Result<(Buffer, bool), NearError> {
        let is_coherent = self.directory.options().protocol.is_decentralized();
        let is_tracked = is_coherent && self.tracking(losses).await?.tells_owners();
        let mut batch = Batch::new();
        let written = batch.write(at, from);
        let mode = (way == Way::AskMode).then(|| batch.read_word(stripe.mode_at));
        let owners = is_tracked.then(|| batch.read_word(stripe.owners_at()));
        self.endpoint.post(&mut batch).await?;
        let is_off = match way {
            Way::LookAgain if self.open.lacks(Hole::SecondLookOfWrites) => true,
            Way::LookAgain => self.is_same_generation(stripe, line).await?,
            Way::AskMode => {
                let mode = self.directory.mode_of(mode.map_or(0, |mode| batch.word(mode)));
                self.believe(stripe, line, mode).await?;
                !mode.needs_invalidations()
            }
            _ => false,
        };
        match owners.map(|owners| OwnersWord::from_bits(batch.word(owners))) {
            _ if is_off => {}
            Some(owners) => self.invalidate_owners(stripe, owners, losses).await?,
            None => self.invalidate(stripe, CHANGE).await?,
        }
        Ok((batch.take(written), !is_off))
    }

    /// Writes what the node believes to be off, unless the belief has ended.
    async fn write_bypassing(
        &self,
        stripe: Stripe,
        line: &StripeLine,
        at: Address,
        from: Buffer,
    ) -> Result<(Buffer, bool), NearError> {
        let bypasses = self.layout.stripe_at(stripe).add(stripe::BYPASSES);
        add(&self.endpoint, bypasses, 1).await?;
        // A client that switches adds to the stripe before it READs the bypasses.
        let is_off = self.is_same_generation(stripe, line).await?;
        let written = if is_off { self.post_write(at, from).await } else { Ok(from) };
        if written.as_ref().err().is_none_or(has_no_later_effect) {
            add(&self.endpoint, bypasses, 1_u64.wrapping_neg()).await?;
        }
        let from = written?;
        if is_off { Ok((from, false)) } else { self.write_exclusively(stripe, at, from).await }
    }

    /// Writes while no copy exists.
    async fn write_exclusively(&self, stripe: Stripe, at: Address, from: Buffer) -> Result<(Buffer, bool), NearError> {
        let turn = self.begin_writing(stripe).await?;
        let mut bit = Bit::Clear;
        let written = self.write_as_writer(turn, &mut bit, stripe, at, from).await;
        match bit {
            Bit::Clear => self.end_writing(stripe, 0).await?,
            // The error tells more than one of this.
            Bit::Unknown => {
                let _ = self.end_writing(stripe, self.unsettled(stripe)).await;
            }
        }
        written
    }

    /// The same, as this node's writer. `bit` says what is known of the node's bit afterwards.
    async fn write_as_writer(
        &self,
        turn: Turn,
        bit: &mut Bit,
        stripe: Stripe,
        at: Address,
        from: Buffer,
    ) -> Result<(Buffer, bool), NearError> {
        let lacks_bit = self.open.lacks(Hole::WriterBits);
        let own = if lacks_bit { 0 } else { ModeWord::writer(self.place.get()) };
        let mode = match turn {
            Turn::Clean => None,
            Turn::AfterDeath => {
                *bit = Bit::Unknown;
                let mode = self.directory.mode_of(read_word(&self.endpoint, stripe.mode_at).await?);
                // The dead writer may have set the bit.
                mode.is_writer(self.place.get()).then_some(mode)
            }
        };
        let mode = match mode {
            Some(mode) => mode,
            None => match add(&self.endpoint, stripe.mode_at, own).await {
                Ok(word) => self.directory.mode_of(word),
                Err(error) => {
                    *bit = if error.took_no_effect() { *bit } else { Bit::Unknown };
                    return Err(error.into());
                }
            },
        };
        *bit = Bit::Unknown;
        let is_off = !mode.needs_invalidations();
        let told = if is_off { Ok(()) } else { self.invalidate(stripe, GENERATION).await };
        if let Err(error) = told {
            // Nothing was written. If the client can go on, the bit must not stay.
            add(&self.endpoint, stripe.mode_at, own.wrapping_neg()).await?;
            *bit = Bit::Clear;
            return Err(error);
        }
        let mut batch = Batch::new();
        let written = batch.write(at, from);
        batch.fetch_and_add(stripe.mode_at, own.wrapping_neg());
        let posted = self.endpoint.post(&mut batch).await;
        if posted.as_ref().is_err_and(VerbError::took_no_effect) {
            add(&self.endpoint, stripe.mode_at, own.wrapping_neg()).await?;
        }
        if posted.as_ref().err().is_none_or(VerbError::took_no_effect) {
            *bit = Bit::Clear;
        }
        posted?;
        Ok((batch.take(written), !is_off))
    }

    /// Gives up this node's turn to write, and leaves this word in the place of the writer.
    async fn end_writing(&self, stripe: Stripe, left: u64) -> Result<(), NearError> {
        let own = u64::from(self.endpoint.identity().bits());
        let ended = swap(&self.endpoint, self.layout.stripe_at(stripe).add(stripe::WRITER), own, left).await;
        self.writing.borrow_mut().retain(|number| *number != stripe.number);
        ended.map(drop).map_err(NearError::from)
    }

    /// Clears the bits that dead clients of this node have left as its writers; whether none is
    /// left, but for those of a write whose outcome is unknown. The caller has ended all copies. A
    /// client tells every node before it WRITEs.
    pub(crate) async fn clear_left_bits(&self) -> Result<bool, NearError> {
        let clear = async |stripe, _| self.clear_left_bit_as_writer(stripe).await;
        Ok(!self.has_bits() || self.for_each_bit(self.place.get(), clear).await?)
    }

    /// The same for one stripe, unless a client of this node that lives writes there.
    async fn clear_left_bit_as_writer(&self, stripe: Stripe) -> Result<(), NearError> {
        if self.writing.borrow().contains(&stripe.number) {
            return Ok(());
        }
        // If this future is dropped, what stands in the writer's place is as after a death.
        let writing = Writing { writing: &self.writing, number: stripe.number };
        let turn = self.try_turn(stripe).await;
        let outcome = match turn {
            Ok(Some(Turn::AfterDeath)) => {
                let cleared = self.clear_left_bit(stripe).await;
                let left = if cleared.is_ok() { 0 } else { self.unsettled(stripe) };
                self.end_writing(stripe, left).await.and(cleared)
            }
            Ok(Some(Turn::Clean)) => self.end_writing(stripe, 0).await,
            // A later client of this node does without.
            Ok(None) | Err(NearError::Unsettled) => Ok(()),
            Err(error) => Err(error),
        };
        drop(writing);
        outcome
    }

    /// Clears this node's bit, if a writer that died has left it.
    async fn clear_left_bit(&self, stripe: Stripe) -> Result<(), NearError> {
        let place = self.place.get();
        let mode = self.directory.mode_of(read_word(&self.endpoint, stripe.mode_at).await?);
        if mode.is_writer(place) {
            add(&self.endpoint, stripe.mode_at, ModeWord::writer(place).wrapping_neg()).await?;
        }
        Ok(())
    }

    /// What stands in the place of a writer of which it is not known whether the bit is set.
    fn unsettled(&self, stripe: Stripe) -> u64 {
        stripe::UNSETTLED | self.incarnation_in_use(stripe.node())
    }

    /// Becomes the writer of this node.
    async fn begin_writing(&self, stripe: Stripe) -> Result<Turn, NearError> {
        let mut pause_ns = WRITER_PAUSE_NS;
        loop {
            let is_own = self.writing.borrow().contains(&stripe.number);
            if !is_own && let Some(turn) = self.try_turn(stripe).await? {
                return Ok(turn);
            }
            self.endpoint.pause(pause_ns).await;
            pause_ns = (2 * pause_ns).min(WRITER_PAUSE_NS_MAX);
        }
    }

    /// Becomes the writer of this node, unless a living client is.
    async fn try_turn(&self, stripe: Stripe) -> Result<Option<Turn>, NearError> {
        self.writing.borrow_mut().push(stripe.number);
        let turn = self.take_turn(stripe).await;
        if !matches!(turn, Ok(Some(_))) {
            self.writing.borrow_mut().retain(|number| *number != stripe.number);
        }
        turn
    }

    /// Writes this client's identity into the stripe's writer word, unless a living client's is
    /// there.
    async fn take_turn(&self, stripe: Stripe) -> Result<Option<Turn>, NearError> {
        let at = self.layout.stripe_at(stripe).add(stripe::WRITER);
        let own = u64::from(self.endpoint.identity().bits());
        match swap(&self.endpoint, at, 0, own).await? {
            Ok(()) => Ok(Some(Turn::Clean)),
            // An earlier client of the same identity is dead.
            Err(found) if found == own => Ok(Some(Turn::AfterDeath)),
            Err(found) if found & stripe::UNSETTLED != 0 => {
                if found == self.unsettled(stripe) {
                    return Err(NearError::Unsettled);
                }
                // The bit was in a region that is gone.
                Ok(swap(&self.endpoint, at, found, own).await?.is_ok().then_some(Turn::Clean))
            }
            Err(found) => {
                let is_dead = self.endpoint.is_dead(Identity::from_bits(found as u32)).await?;
                let is_taken = is_dead && swap(&self.endpoint, at, found, own).await?.is_ok();
                Ok(is_taken.then_some(Turn::AfterDeath))
            }
        }
    }
}

/// A stripe of which an operation is the node's writer, or is about to be.
struct Writing<'n> {
    writing: &'n RefCell<Vec<u64>>,
    number: u64,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.writing.borrow_mut().retain(|number| *number != self.number);
    }
}

/// How a client became its node's writer of a stripe.
#[derive(Clone, Copy, Debug)]
enum Turn {
    /// No other one was.
    Clean,
    /// After one that died.
    AfterDeath,
}

/// What is known of the node's bit in a mode after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bit {
    Clear,
    /// It may be set, or be changed later.
    Unknown,
}

/// Whether nothing of a WRITE that has failed takes effect later.
fn has_no_later_effect(error: &NearError) -> bool {
    match error {
        NearError::Verb(VerbError::PeerDead | VerbError::NodeAbsent(_)) => true,
        NearError::Verb(error) => error.took_no_effect(),
        // Nothing was posted.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{Row, follow};

    #[test]
    fn one_row_of_the_tables_matches_every_write() {
        use Promise::{Linearizable, Regular};
        let rows: [Row<(Belief, Promise), Way>; 6] = [
            ("regular: On", |case| *case == (Belief::On, Regular), Way::Change),
            (
                "regular: Off, or Off for good",
                |(belief, promise)| *promise == Regular && matches!(belief, Belief::Off | Belief::Pinned),
                Way::LookAgain,
            ),
            ("regular: nothing", |case| *case == (Belief::Nothing, Regular), Way::AskMode),
            ("linearizable: Off for good", |case| *case == (Belief::Pinned, Linearizable), Way::Plain),
            ("linearizable: Off", |case| *case == (Belief::Off, Linearizable), Way::Bypass),
            (
                "linearizable: On, nothing",
                |(belief, promise)| *promise == Linearizable && matches!(belief, Belief::On | Belief::Nothing),
                Way::Exclude,
            ),
        ];
        let cases = Belief::ALL.into_iter().flat_map(|belief| Promise::ALL.map(|promise| (belief, promise)));
        follow(&rows, cases, |(belief, promise)| Way::of(*belief, *promise));
    }
}
