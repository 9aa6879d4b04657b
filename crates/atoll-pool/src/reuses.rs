//! How often chunks began a new life.
//!
//! ```text
//! word n of 64   lives that began of the chunks whose number is n modulo 64    atomics only
//! ```
//!
//! Every eighth life of a chunk, by its generation, counts for eight: an atomic costs a NIC about
//! four READs.
//!
//! Who has seen a part of a chunk's generation relies on it as long as the chunk cannot have had so
//! many lives that the part comes back. The chunk's word says so only to who READs it together with
//! what it is needed for. These words say it for all chunks by one READ, now and then.
//!
//! The count follows the transition unawaited. A client that dies between the two leaves a few
//! lives uncounted, [`STEP`] for each count that is lost. So who relies on a count leaves room for
//! [`STEP`] lives, for what is under way and for the dead.

use crate::{Chunk, ChunkId, Layout};
use atoll_fabric::{Address, Batch, Buffer, Endpoint, VerbError};

/// Words of the table.
const WORDS: usize = 64;
/// One life in so many is counted.
pub const STEP: u64 = 8;
/// Bytes of the table.
pub(crate) const TABLE_BYTES: u64 = 8 * WORDS as u64;

const fn word_of(chunk: ChunkId) -> usize {
    chunk.0 as usize % WORDS
}

impl Layout {
    fn reuses_of(&self, chunk: ChunkId) -> Address {
        self.reuses().add(8 * word_of(chunk) as u64)
    }
}

/// Counts the lives that these transitions, as many as a batch has verbs at most, began.
pub(crate) fn count<E: Endpoint>(
    endpoint: &E,
    layout: &Layout,
    changes: impl Iterator<Item = (ChunkId, Chunk, Chunk)>,
) {
    let mut batch = Batch::new();
    for (chunk, from, to) in changes {
        // The upper half of the generation tells apart what happens within a life.
        let begins_life = from.generation as u16 != to.generation as u16;
        if begins_life && u64::from(to.generation).is_multiple_of(STEP) {
            batch.fetch_and_add(layout.reuses_of(chunk), STEP);
        }
    }
    if !batch.is_empty() {
        endpoint.post_unawaited(&mut batch);
    }
}

/// The counts, as a client last READ them; zero before that.
#[derive(Debug)]
pub struct Reuses([u64; WORDS]);

impl Default for Reuses {
    fn default() -> Self {
        Self([0; WORDS])
    }
}

impl Reuses {
    /// Bytes to READ from [`Layout::reuses`] on.
    pub const BYTES: usize = TABLE_BYTES as usize;

    /// Notes the words as they were READ.
    pub fn note(&mut self, words: &[u64]) {
        self.0.copy_from_slice(words);
    }

    /// How many lives have begun, of this chunk and of the others that share its word.
    #[inline]
    pub fn of(&self, chunk: ChunkId) -> u64 {
        self.0[word_of(chunk)]
    }
}

/// READs the words.
pub async fn read<E: Endpoint>(endpoint: &E, layout: &Layout) -> Result<Buffer, VerbError> {
    endpoint.read(layout.reuses(), Buffer::sized(Reuses::BYTES)).await
}
