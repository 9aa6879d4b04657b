//! A protection names the chunk that an operation relies on. The chunk is not reused while an
//! operation protects it.
//!
//! | where | word | fields | access |
//! |---|---|---|---|
//! | firsts | a place's two | protections 0 and 1 of a far client: epoch 32, the chunk + 1 32 | owned |
//! | firsts | notices of 64 places | a bit a place: its protections are not only among the firsts | atomics only |
//! | signal | 1 | protection 0 of a near client, with the same fields | owned |
//! | signal | 3 | epoch 32, the most protections that the client has had at once 32 | atomics only |
//! | protections, 1 KiB | n | protection n, with the same fields; those of the firsts are unused | owned |
//!
//! The firsts lie side by side: one READ of sixteen bytes a client shows the protections of all far
//! clients that have at most two. Near clients would pass the lines of those words to
//! and fro between processors, so each has its word in its own line. Their notices are always set.
//!
//! An operation publishes its protection, READs the pointing word again, and only then relies on
//! it. A client that wants to reuse a chunk (the reuser) first unlinks every word that points into
//! it. Then it READs the protections, and waits if one of them names the chunk
//! ([`protected_among`](super::protected_among)). A protection counts only for a Taken place and
//! its epoch: a client that takes the place later READs pointing words later.
//!
//! Each step takes effect after the one above it, for the client in its column:
//!
//! | operation | reuser |
//! |---|---|
//! | 1. announces the protection's number in word 3, at its first use | 1. unlinks the pointing word |
//! | 2. sets its notice, at the first use of a protection outside the firsts | 2. READs the firsts with the notices |
//! | 3. WRITEs the protection | 3. READs the signal of a place with a notice, or of whose first protections one names the chunk |
//! | 4. READs the pointing word behind it | 4. READs the further protections that word 3 announces |
//!
//! An operation relies on the chunk only if its step 4 took effect before the reuser's step 1. Then
//! its steps 1 to 3 took effect before all READs of the reuser, in whatever order those are:
//!
//! | the operation's protection is | the reuser sees it in step | because it also sees |
//! |---|---|---|
//! | a first one | 2 | the place's epoch in step 3; a stale word has another epoch |
//! | near, and the client's only one | 3 | the notice in step 2 |
//! | a further one | 4 | the notice in step 2, its number in step 3 |
//! | ended before that READ | not at all | the operation relies on nothing any more |
//!
//! A notice stays set for the later clients of its place. This costs the reuser one READ.
//!
//! | wrong order, which a simulation finds | harm |
//! |---|---|
//! | the reuser does not look beyond the firsts | it overlooks every near client, and every further protection |
//! | the operation does not wait for its notice | the WRITE of the protection may take effect first |
//! | the reuser READs the protections before it unlinks | it overlooks an operation that began in between |

use super::place::{Incarnation, PROTECTIONS};
use super::protected::{FIRSTS, FirstWords};
use crate::waiters::Waiters;
use crate::{ChunkId, Pool, words};
use atoll_fabric::{Address, Batch, Endpoint, VerbError};
use std::cell::Cell;

/// The protection of one operation. It has a word of the pool from the time it is [made
/// ready](super::Member::prepare) until it [ends](super::Member::unprotect).
#[derive(Debug, Default)]
pub struct Protection {
    /// Its word's index among those of the client.
    number: Option<u32>,
    /// Whether it names a chunk.
    is_held: bool,
}

impl Protection {
    /// Whether it has a word of the pool.
    #[inline(always)]
    pub fn is_ready(&self) -> bool {
        self.number.is_some()
    }

    /// Whether it names a chunk.
    #[inline(always)]
    pub fn is_held(&self) -> bool {
        self.is_held
    }
}

/// A wrong order, which a simulation opens to show its harm.
#[cfg(feature = "holes")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hole {
    /// A reuser does not look beyond the firsts.
    FirstsAlone,
    /// An operation does not wait for its notice.
    LateNotice,
}

/// The protections of this client.
#[derive(Debug)]
pub(super) struct Protections {
    /// The addresses of the first two. All but the first lie side by side.
    first: Address,
    second: Address,
    announced_at: Address,
    notices_at: Address,
    /// Its bit among the notices.
    notice: u64,
    epoch: u32,
    /// The words that protections have, a bit each.
    used: Cell<u128>,
    /// The words to which a WRITE of an ended protection may be under way, a bit each.
    unsettled: Cell<u128>,
    /// Operations that wait for a word.
    waiting: Waiters,
    /// How many this client has announced, with its notice if there is one beyond the firsts.
    announced: Cell<u32>,
    /// How many of its protections are among the firsts, or in its signal.
    firsts: u32,
    #[cfg(feature = "holes")]
    hole: Cell<Option<Hole>>,
    /// The chunk that each names, plus one.
    chunks: [Cell<u32>; PROTECTIONS as usize],
}

const _: () = assert!(PROTECTIONS == u128::BITS, "a bit for each word");

impl Protections {
    pub(super) fn new(pool: &Pool, me: Incarnation, is_near: bool) -> Self {
        let layout = &pool.layout;
        Self {
            first: if is_near { layout.near_protection(me.slot) } else { layout.first_protection(me.slot) },
            second: layout.further_protection(me.slot, 1),
            announced_at: layout.protections_announced(me.slot),
            notices_at: layout.notices(me.slot),
            notice: FirstWords::notice(me.slot),
            epoch: me.epoch,
            used: Cell::new(0),
            unsettled: Cell::new(0),
            waiting: Waiters::new(),
            // The first protections of a far client need no announcement.
            announced: Cell::new(if is_near { 0 } else { FIRSTS }),
            firsts: if is_near { 1 } else { FIRSTS },
            #[cfg(feature = "holes")]
            hole: Cell::new(None),
            chunks: [const { Cell::new(0) }; PROTECTIONS as usize],
        }
    }

    /// Makes a protection ready to name a chunk. It waits while other operations have all words.
    #[inline]
    pub(super) async fn prepare<E: Endpoint>(
        &self,
        endpoint: &E,
        protection: &mut Protection,
    ) -> Result<(), VerbError> {
        if protection.number.is_none() {
            protection.number = self.first_free();
        }
        let number = match protection.number {
            Some(number) => number,
            None => *protection.number.insert(Box::pin(self.free_word()).await),
        };
        if self.unsettled.get() >> number & 1 == 1 {
            // The next WRITE must not be overtaken by the previous one.
            if !endpoint.keeps_order() {
                endpoint.flush().await?;
            }
            self.unsettled.set(self.unsettled.get() & !(1 << number));
        }
        if number >= self.announced.get() {
            // Twice as many each time: an announcement takes several round trips.
            Box::pin(self.announce(endpoint, (number + 1).next_power_of_two())).await?;
        }
        Ok(())
    }

    /// Takes the first word that no operation has. A client that runs one operation at a time uses
    /// the first of all.
    #[inline]
    fn first_free(&self) -> Option<u32> {
        let number = self.used.get().trailing_ones();
        (number < PROTECTIONS).then(|| {
            self.used.set(self.used.get() | 1 << number);
            number
        })
    }

    #[cold]
    async fn free_word(&self) -> u32 {
        self.waiting.until(|| self.first_free()).await
    }

    /// Announces that this client has this many protections.
    #[cold]
    async fn announce<E: Endpoint>(&self, endpoint: &E, count: u32) -> Result<(), VerbError> {
        let wanted = u64::from(self.epoch) << 32 | u64::from(count);
        // By compare-and-swap, and never downwards: another operation may announce at the same
        // time.
        let is_less = |found: u64| found >> 32 != u64::from(self.epoch) || found < wanted;
        words::change(endpoint, self.announced_at, |found| is_less(found).then_some(wanted)).await?;
        self.give_notice(endpoint).await?;
        self.announced.set(self.announced.get().max(count));
        assert!(self.announced.get() <= PROTECTIONS, "no more protections than a client has words for");
        Ok(())
    }

    /// Says that this client has protections beyond the firsts.
    async fn give_notice<E: Endpoint>(&self, endpoint: &E) -> Result<(), VerbError> {
        #[cfg(feature = "holes")]
        if self.hole.get() == Some(Hole::LateNotice) {
            let found = words::read_word(endpoint, self.notices_at).await?;
            let mut batch = Batch::new();
            batch.compare_and_swap(self.notices_at, found, found | self.notice);
            endpoint.post_unawaited(&mut batch);
            return Ok(());
        }
        let is_missing = |found: u64| found & self.notice == 0;
        words::change(endpoint, self.notices_at, |found| is_missing(found).then_some(found | self.notice)).await?;
        Ok(())
    }

    fn word(&self, number: u32) -> Address {
        match number {
            number if number < self.firsts => self.first.add(8 * u64::from(number)),
            number => self.second.add(8 * u64::from(number - 1)),
        }
    }

    /// Adds to `batch` the WRITE by which a protection that is ready names `chunk`.
    #[inline]
    pub(super) fn hold(&self, batch: &mut Batch, protection: &mut Protection, chunk: ChunkId) {
        let number = protection.number.expect("it is ready");
        debug_assert!(self.unsettled.get() >> number & 1 == 0, "its last WRITE has landed");
        protection.is_held = true;
        self.chunks[number as usize].set(chunk.0 + 1);
        batch.write_word(self.word(number), u64::from(self.epoch) << 32 | (u64::from(chunk.0) + 1));
    }

    /// Ends a protection without waiting. Its word is another operation's from now on.
    #[inline]
    pub(super) fn release<E: Endpoint>(&self, endpoint: &E, protection: &mut Protection) {
        let Protection { number, is_held } = std::mem::take(protection);
        let Some(number) = number else { return };
        if is_held {
            let mut batch = Batch::new();
            batch.write_word(self.word(number), 0);
            endpoint.post_unawaited(&mut batch);
            self.chunks[number as usize].set(0);
            self.unsettled.set(self.unsettled.get() | 1 << number);
        }
        self.used.set(self.used.get() & !(1 << number));
        self.waiting.wake();
    }

    /// Opens a hole of this client.
    #[cfg(feature = "holes")]
    pub(super) fn open(&self, hole: Hole) {
        self.hole.set(Some(hole));
    }

    /// Whether this client looks beyond the firsts.
    pub(super) fn looks_beyond_firsts(&self) -> bool {
        #[cfg(feature = "holes")]
        return self.hole.get() != Some(Hole::FirstsAlone);
        #[cfg(not(feature = "holes"))]
        true
    }

    /// The chunks that this client's protections name.
    pub(super) fn own(&self) -> impl Iterator<Item = ChunkId> + '_ {
        let announced = self.chunks.iter().take(self.announced.get() as usize);
        announced.filter_map(|chunk| chunk.get().checked_sub(1).map(ChunkId))
    }
}
