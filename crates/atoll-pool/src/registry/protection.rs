//! A protection names the chunk that an operation relies on. The chunk is not reused while an
//! operation protects it.
//!
//! | where | word | fields | access |
//! |---|---|---|---|
//! | signal | 1 | protection 0: epoch 32, the chunk + 1 32 | owned |
//! | signal | 3 | epoch 32, the most protections that the client has had at once 32 | atomics only |
//! | protections, 1 KiB | n | protection n, as word 1 of the signal; word 0 is unused | owned |
//!
//! An operation publishes its protection, READs the pointing word again, and only then relies on
//! it. A client that wants to reuse a chunk first unlinks every word that points into it. Then it
//! READs all protections ([`protected_chunks`]), and waits if one of them names the chunk. A WRITE
//! orders the READ behind it. So either the operation sees the word changed, or the reuser sees the
//! protection. A protection counts only for a Taken place and its epoch: a client that takes the
//! place later READs pointing words later.
//!
//! A client that has never run two operations at once costs another client one READ, with its
//! signal. It announces its second protection in word 3 before it first uses it. A client that READ
//! word 3 earlier had unlinked the pointing words earlier, too.

use super::place::{EPOCH_MASK, Incarnation, PROTECTIONS, PlaceState, SIGNAL_BYTES, signal_word};
use super::places::{members_ever, read_first_places};
use crate::{ChunkId, Pool, words};
use atoll_fabric::{Address, Batch, Buffer, Endpoint, VerbError};
use std::cell::Cell;

/// The protection of one operation. When the operation ends, the protection keeps its word of the
/// pool for the next one.
#[derive(Debug, Default)]
pub struct Protection {
    /// Its index among the client's protections, after its first use.
    number: Option<u32>,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// It names no chunk.
    #[default]
    None,
    /// It names a chunk.
    Held,
    /// A WRITE to its word may still be under way.
    Unsettled,
}

impl Protection {
    /// Whether it names a chunk.
    pub fn is_held(&self) -> bool {
        self.state == State::Held
    }
}

/// The protections of this client.
#[derive(Debug)]
pub(super) struct Protections {
    /// The addresses of the first two. All but the first lie side by side.
    first: Address,
    second: Address,
    announced_at: Address,
    epoch: u32,
    /// How many were handed out.
    given: Cell<u32>,
    /// How many this client has announced.
    announced: Cell<u32>,
    /// The chunk that each names, plus one.
    chunks: [Cell<u32>; PROTECTIONS as usize],
}

impl Protections {
    pub(super) fn new(pool: &Pool, me: Incarnation) -> Self {
        Self {
            first: pool.layout.protection(me.slot, 0),
            second: pool.layout.protection(me.slot, 1),
            announced_at: pool.layout.protections_announced(me.slot),
            epoch: me.epoch,
            given: Cell::new(0),
            announced: Cell::new(1),
            chunks: [const { Cell::new(0) }; PROTECTIONS as usize],
        }
    }

    /// Makes a protection ready to name a chunk.
    ///
    /// # Panics
    /// If more operations protect a chunk than a client may have.
    #[inline]
    pub(super) async fn prepare<E: Endpoint>(
        &self,
        endpoint: &E,
        protection: &mut Protection,
    ) -> Result<(), VerbError> {
        if protection.state == State::Unsettled {
            // The next WRITE must not be overtaken by the previous one.
            endpoint.flush().await?;
            protection.state = State::None;
        }
        let number = *protection.number.get_or_insert_with(|| {
            let number = self.given.get();
            assert!(number < PROTECTIONS, "a client has no more operations under way than protections");
            self.given.set(number + 1);
            number
        });
        if number >= self.announced.get() {
            Box::pin(self.announce(endpoint, number + 1)).await?;
        }
        Ok(())
    }

    /// Announces that this client has this many protections.
    #[cold]
    async fn announce<E: Endpoint>(&self, endpoint: &E, count: u32) -> Result<(), VerbError> {
        let wanted = u64::from(self.epoch) << 32 | u64::from(count);
        // By compare-and-swap, and never downwards: another operation may announce at the same
        // time.
        let is_less = |found: u64| found >> 32 != u64::from(self.epoch) || found < wanted;
        words::change(endpoint, self.announced_at, |found| is_less(found).then_some(wanted)).await?;
        self.announced.set(self.announced.get().max(count));
        assert!(self.announced.get() <= PROTECTIONS, "no more protections than a client has words for");
        Ok(())
    }

    fn word(&self, number: u32) -> Address {
        if number == 0 { self.first } else { self.second.add(8 * u64::from(number - 1)) }
    }

    /// Adds to `batch` the WRITE by which a protection that is ready names `chunk`.
    #[inline]
    pub(super) fn hold(&self, batch: &mut Batch, protection: &mut Protection, chunk: ChunkId) {
        let number = protection.number.expect("it is ready");
        debug_assert!(protection.state != State::Unsettled, "its last WRITE has landed");
        protection.state = State::Held;
        self.chunks[number as usize].set(chunk.0 + 1);
        batch.write_word(self.word(number), u64::from(self.epoch) << 32 | (u64::from(chunk.0) + 1));
    }

    /// Ends a protection, if it names a chunk, without waiting.
    #[inline]
    pub(super) fn release<E: Endpoint>(&self, endpoint: &E, protection: &mut Protection) {
        if let Some(number) = protection.number.filter(|_| protection.state == State::Held) {
            let mut batch = Batch::new();
            batch.write_word(self.word(number), 0);
            endpoint.post_unawaited(&mut batch);
            self.chunks[number as usize].set(0);
            protection.state = State::Unsettled;
        }
    }

    /// The chunks that operations of this client protect.
    pub(super) fn own(&self) -> impl Iterator<Item = ChunkId> + '_ {
        let given = self.chunks.iter().take(self.given.get() as usize);
        given.filter_map(|chunk| chunk.get().checked_sub(1).map(ChunkId))
    }
}

/// The chunk that a word protects, if the word is of this epoch.
fn protected(word: u64, epoch: u64) -> Option<ChunkId> {
    Some(ChunkId((word as u32).checked_sub(1).filter(|_| word >> 32 == epoch)?))
}

/// The chunks that clients other than `but` protect, and how many places were ever taken. The
/// caller READs them after it has unlinked the words that point into a chunk.
pub async fn protected_chunks<E: Endpoint>(
    endpoint: &E,
    pool: &Pool,
    but: Incarnation,
) -> Result<(Vec<ChunkId>, u32), VerbError> {
    let count = members_ever(endpoint, pool).await?;
    let signals = read_first_places(endpoint, pool, |layout| layout.signal(0), SIGNAL_BYTES, count).await?;
    let others = signals
        .words()
        .chunks(8)
        .enumerate()
        .filter(|(slot, signal)| *slot != but.slot as usize && PlaceState::of(signal[0]) == PlaceState::Taken);
    let mut chunks = Vec::new();
    let mut batch = Batch::new();
    let mut further = Vec::new();
    for (slot, signal) in others {
        let epoch = signal[0] & EPOCH_MASK;
        chunks.extend(protected(signal[signal_word::PROTECTION], epoch));
        let announced = signal[signal_word::PROTECTIONS];
        let (of_epoch, count) = (announced >> 32, announced & EPOCH_MASK);
        if of_epoch != epoch || count <= 1 {
            continue;
        }
        further.push((
            epoch,
            batch.read(
                pool.layout.protection(slot as u32, 1),
                Buffer::sized(8 * (count.min(PROTECTIONS.into()) as usize - 1)),
            ),
        ));
        if further.len() == atoll_fabric::BATCH_VERBS_MAX {
            take_further(endpoint, &mut batch, &mut further, &mut chunks).await?;
        }
    }
    take_further(endpoint, &mut batch, &mut further, &mut chunks).await?;
    Ok((chunks, count as u32))
}

async fn take_further<E: Endpoint>(
    endpoint: &E,
    batch: &mut Batch,
    further: &mut Vec<(u64, atoll_fabric::Ticket)>,
    chunks: &mut Vec<ChunkId>,
) -> Result<(), VerbError> {
    if further.is_empty() {
        return Ok(());
    }
    endpoint.post(batch).await?;
    for (epoch, read) in further.drain(..) {
        let words = batch.take(read);
        chunks.extend(words.words().iter().filter_map(|word| protected(*word, epoch)));
    }
    *batch = Batch::new();
    Ok(())
}
