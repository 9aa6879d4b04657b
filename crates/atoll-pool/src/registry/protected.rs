//! How a client that wants to reuse chunks READs which of them other clients protect: steps 2 to 4
//! of the reuser in the table of [`protection`](super::protection).
//!
//! ```text
//! firsts:  notices of places 0..64 | first protections of 0..64 | notices of 64..128 | ...
//!          8 B                     | 2 * 8 B a place            | 8 B
//! ```

use super::member::Member;
use super::place::{EPOCH_MASK, PROTECTIONS, PlaceState, signal_word};
use super::places::some_signals;
use crate::{ChunkId, Pool};
use atoll_fabric::{BATCH_VERBS_MAX, Batch, Buffer, Endpoint, Ticket, VerbError};
use std::ops::Range;

/// Places whose notices are in one word.
const BLOCK_PLACES: u32 = u64::BITS;
/// Words of such a block: the notices, and the first protections.
const BLOCK_WORDS: usize = 1 + FIRSTS as usize * BLOCK_PLACES as usize;
/// First protections of a place.
pub(crate) const FIRSTS: u32 = 2;

/// The firsts as they were READ.
pub(crate) struct FirstWords(Buffer);

impl FirstWords {
    /// Bytes of a word of notices and the first protections behind it.
    pub(crate) const BLOCK_BYTES: u64 = 8 * BLOCK_WORDS as u64;

    /// Bytes of the firsts of so many places.
    pub(crate) const fn bytes(places: u32) -> u64 {
        8 * (FIRSTS as u64 * places as u64 + places.div_ceil(BLOCK_PLACES) as u64)
    }

    /// Which word has a place's notice.
    pub(crate) const fn notices(slot: u32) -> usize {
        (slot / BLOCK_PLACES) as usize * BLOCK_WORDS
    }

    /// A place's bit in that word.
    pub(crate) const fn notice(slot: u32) -> u64 {
        1 << (slot % BLOCK_PLACES)
    }

    /// Which word is the first of a place's first protections.
    pub(crate) const fn first(slot: u32) -> usize {
        Self::notices(slot) + 1 + (FIRSTS * (slot % BLOCK_PLACES)) as usize
    }

    /// READs those of all places that were ever taken. `known` is how many the caller knows of.
    /// Returns how many there are, too.
    async fn read<E: Endpoint>(endpoint: &E, pool: &Pool, known: u32) -> Result<(Self, u32), VerbError> {
        let mut batch = Batch::new();
        let ever = batch.read_word(pool.layout.members_ever());
        let read = batch.read(pool.layout.firsts(), Buffer::sized(Self::bytes(known) as usize));
        endpoint.post(&mut batch).await?;
        // Both READs may take effect in any order: a place that was taken after the first of them
        // has no operation that READ a pointing word before that was unlinked.
        let ever = batch.word(ever).min(pool.settings.clients_max.into()) as u32;
        let mut words = batch.take(read);
        if ever > known {
            words = endpoint.read(pool.layout.firsts(), Buffer::sized(Self::bytes(ever) as usize)).await?;
        }
        Ok((Self(words), ever))
    }

    /// Whether a place has a notice.
    fn is_noticed(&self, slot: u32) -> bool {
        self.0.words()[Self::notices(slot)] & Self::notice(slot) != 0
    }

    /// A place's first protections.
    fn of(&self, slot: u32) -> &[u64] {
        &self.0.words()[Self::first(slot)..][..FIRSTS as usize]
    }
}

/// The chunk that a word protects, of whatever epoch the word is.
fn chunk_in(word: u64) -> Option<ChunkId> {
    (word as u32).checked_sub(1).map(ChunkId)
}

/// The chunk that a word protects, if the word is of this epoch.
fn protected(word: u64, epoch: u64) -> Option<ChunkId> {
    chunk_in(word).filter(|_| word >> 32 == epoch)
}

/// What a reuser finds.
struct Found<'w> {
    wanted: &'w [ChunkId],
    protected: Vec<ChunkId>,
}

impl Found<'_> {
    fn note(&mut self, word: u64, epoch: u64) {
        self.protected.extend(protected(word, epoch).filter(|chunk| self.wanted.contains(chunk)));
    }
}

/// Which of the `wanted` chunks operations protect, those of `me` among them, and how many places
/// were ever taken. The caller knew of `known` places. It has unlinked the words that point into
/// the chunks.
pub async fn protected_among<E: Endpoint>(
    endpoint: &E,
    pool: &Pool,
    (me, known): (&Member, u32),
    wanted: &[ChunkId],
) -> Result<(Vec<ChunkId>, u32), VerbError> {
    let (firsts, ever) = FirstWords::read(endpoint, pool, known.min(pool.settings.clients_max)).await?;
    let mut found = Found { wanted, protected: Vec::new() };
    let is_wanted = |word: &u64| chunk_in(*word).is_some_and(|chunk| wanted.contains(&chunk));
    let names_wanted = |slot| firsts.of(slot).iter().any(is_wanted);
    let is_to_see = |slot: &u32| firsts.is_noticed(*slot) && me.looks_beyond_firsts() || names_wanted(*slot);
    let own = me.incarnation.slot;
    let ranges = ranges((0..ever).filter(|slot| *slot != own).filter(is_to_see));
    let mut further = Vec::new();
    some_signals(endpoint, pool, &ranges, |slot, signal| {
        if slot == own || PlaceState::of(signal[0]) != PlaceState::Taken {
            return;
        }
        let epoch = signal[0] & EPOCH_MASK;
        firsts.of(slot).iter().for_each(|word| found.note(*word, epoch));
        found.note(signal[signal_word::PROTECTION], epoch);
        let announced = signal[signal_word::PROTECTIONS];
        let count = (announced & EPOCH_MASK).min(PROTECTIONS.into()) as u32;
        if announced >> 32 == epoch && count > 1 {
            further.push((slot, epoch, count));
        }
    })
    .await?;
    for places in further.chunks(BATCH_VERBS_MAX) {
        let mut batch = Batch::new();
        let read = |(slot, epoch, count): &(u32, u64, u32)| -> (u64, Ticket) {
            let words = Buffer::sized(8 * (*count as usize - 1));
            (*epoch, batch.read(pool.layout.further_protection(*slot, 1), words))
        };
        let reads: Vec<_> = places.iter().map(read).collect();
        endpoint.post(&mut batch).await?;
        for (epoch, read) in reads {
            batch.take(read).words().iter().for_each(|word| found.note(*word, epoch));
        }
    }
    // After the READs: an operation of this client may have begun to protect a chunk meanwhile.
    found.protected.extend(me.protected().filter(|chunk| wanted.contains(chunk)));
    Ok((found.protected, ever))
}

/// Places in ascending order, as ranges. A single place between two, most often the caller's own,
/// costs less than a verb more.
fn ranges(slots: impl Iterator<Item = u32>) -> Vec<Range<u32>> {
    let mut ranges: Vec<Range<u32>> = Vec::new();
    for slot in slots {
        match ranges.last_mut() {
            Some(last) if slot <= last.end + 1 => last.end = slot + 1,
            _ => ranges.push(slot..slot + 1),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_has_words_of_its_own_within_the_firsts() {
        for places in [1, 63, 64, 65, 300] {
            let words = FirstWords::bytes(places) as usize / 8;
            let mut of_notices: Vec<_> = (0..places).map(FirstWords::notices).collect();
            of_notices.dedup();
            let firsts =
                (0..places).flat_map(|slot| (0..FIRSTS as usize).map(move |nth| FirstWords::first(slot) + nth));
            let mut all: Vec<_> = firsts.chain(of_notices).collect();
            all.sort_unstable();
            assert_eq!(all, (0..words).collect::<Vec<_>>(), "{places} places");
        }
    }

    #[test]
    fn ranges_cover_the_places_and_at_most_single_others() {
        assert_eq!(ranges([0, 1, 3, 7, 10].into_iter()), [0..4, 7..8, 10..11]);
    }
}
