//! How often chunks began a new life.
//!
//! ```text
//! word n of 64   lives that began of the chunks whose number is n modulo 64    atomics only
//! ```
//!
//! Who has seen a part of a chunk's generation relies on it as long as the chunk cannot have had so
//! many lives that the part comes back. The chunk's word says so only to who READs it together with
//! what it is needed for. These words say it for all chunks by one READ, now and then.
//!
//! The count follows the transition unawaited. A client that dies between the two leaves a few
//! lives uncounted. So who relies on a count leaves room for what is under way and for the dead.

use crate::{ChunkId, Layout};
use atoll_fabric::{Address, Batch, Buffer, Endpoint, VerbError};

/// Words of the table.
const WORDS: usize = 64;
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

/// Counts that these chunks, as many as a batch has verbs at most, begin a new life.
pub(crate) fn count<E: Endpoint>(endpoint: &E, layout: &Layout, chunks: impl Iterator<Item = ChunkId>) {
    let mut batch = Batch::new();
    chunks.for_each(|chunk| {
        batch.fetch_and_add(layout.reuses_of(chunk), 1);
    });
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

    /// Lives that began of this chunk and of the others that share its word.
    #[inline]
    pub fn of(&self, chunk: ChunkId) -> u64 {
        self.0[word_of(chunk)]
    }
}

/// READs the words.
pub async fn read<E: Endpoint>(endpoint: &E, layout: &Layout) -> Result<Buffer, VerbError> {
    endpoint.read(layout.reuses(), Buffer::sized(Reuses::BYTES)).await
}
