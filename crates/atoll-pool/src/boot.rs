//! A region that outlives its host's boot: a file on a disk.
//!
//! After a crash of the host the file holds some of what was written and not the rest. So a word says whether the pool was **closed**: everybody had
//! left, and everything was on the disk.
//!
//! ```text
//! word 17 of the header   the boot id of the host that formatted the pool, or took it over     data, written under the region's lock
//! the closing word        joins so far 63 | closed 1                                           atomics only
//! ```
//!
//! | found on open | what is done |
//! |---|---|
//! | this boot | nothing: who has died is repaired |
//! | another boot, closed | the pool's time goes on (see `clock`), then the boot id becomes this one's |
//! | another boot, not closed | everything but the headers and the nodes that there are is made as new, then the boot id becomes this one's |
//!
//! Whoever does the last two holds the region's lock; the boot id comes last, so that one that dies before is followed by another that does all of it.
//!
//! | the closing word | by | when |
//! |---|---|---|
//! | joins + 1, not closed | a client | it has joined, and has not changed anything; the word is on the disk before it does |
//! | closed | a process whose last client has left | no place of the registry is anybody's, and everything is on the disk; by a compare-and-swap from what the word was before that look, so that nobody has joined since |
//!
//! Who joins takes a place before it counts: either the look sees the place or the swap fails.

use crate::nodes::MEMBER_HEADER_BYTES;
use crate::{Layout, PlaceState, Pool, PoolError, clock, header, layout, nodes, read_word, registry};
use atoll_fabric::{Address, Batch, Buffer, Endpoint, VerbError};

const CLOSED: u64 = 1;
/// Bytes that one WRITE makes zero.
const ZEROES_BYTES: u64 = 1 << 20;

/// What became of a region that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is of this boot.
    Present,
    /// It is of another boot and was closed: it goes on.
    Closed,
    /// It is of another boot and was not closed: all objects are gone.
    Reformatted,
}

/// Whether the region is of this boot, so that nothing needs to be done and nobody locked out.
pub async fn is_present<E: Endpoint>(endpoint: &E, boot: u64) -> Result<bool, VerbError> {
    Ok(read_word(endpoint, header::BOOT).await? == boot)
}

/// Makes a region of another boot one of `boot`. The caller holds the region's lock.
pub async fn take_over<E: Endpoint>(endpoint: &E, pool: &Pool, boot: u64) -> Result<Found, PoolError> {
    if is_present(endpoint, boot).await? {
        return Ok(Found::Present);
    }
    let closed = read_word(endpoint, pool.layout.closing()).await? & CLOSED != 0;
    let mut batch = Batch::new();
    if closed {
        let least_ms = read_word(endpoint, pool.layout.clock()).await?;
        clock::add_beginning(&mut batch, endpoint, &pool.layout, least_ms);
    } else {
        clear(endpoint, &pool.layout).await?;
        nodes::forget_claims(endpoint, pool).await?;
        header::add_beginnings(&mut batch, endpoint, pool);
    }
    endpoint.post(&mut batch).await?;
    let mut batch = Batch::new();
    batch.write_word(header::BOOT, boot);
    endpoint.post(&mut batch).await?;
    Ok(if closed { Found::Closed } else { Found::Reformatted })
}

/// Makes everything zero but headers and the table of nodes.
async fn clear<E: Endpoint>(endpoint: &E, layout: &Layout) -> Result<(), VerbError> {
    clear_span(endpoint, Address::new(0, 0, header::HEADER_BYTES), layout::NODES).await?;
    clear_span(endpoint, Address::new(0, 0, layout.registry()), layout.end()).await?;
    for node in 1..layout.nodes_known() {
        let chunks = layout.chunks_of(node).map_or(0, |chunks| chunks.len() as u32);
        clear_span(endpoint, Address::new(node, 0, MEMBER_HEADER_BYTES), layout.member_end(node, chunks)).await?;
    }
    Ok(())
}

/// Makes the bytes from `at` up to the offset `end` of its region zero.
async fn clear_span<E: Endpoint>(endpoint: &E, mut at: Address, end: u64) -> Result<(), VerbError> {
    let most = ZEROES_BYTES.min(endpoint.limits().verb_bytes_max / 8 * 8);
    while at.offset() < end {
        let bytes = most.min(end - at.offset());
        let mut zeroes = Buffer::new();
        zeroes.resize(bytes as usize);
        zeroes.words_mut().fill(0);
        let mut batch = Batch::new();
        batch.write(at, zeroes);
        endpoint.post(&mut batch).await?;
        at = at.add(bytes);
    }
    Ok(())
}

/// Counts a client that has joined; `true` if the pool had been closed: then the word must be on the disk before the client changes anything.
pub async fn count_join<E: Endpoint>(endpoint: &E, layout: &Layout) -> Result<bool, VerbError> {
    let mut found = read_word(endpoint, layout.closing()).await?;
    loop {
        let mut batch = Batch::new();
        let swap = batch.compare_and_swap(layout.closing(), found, (found & !CLOSED).wrapping_add(2));
        endpoint.post(&mut batch).await?;
        if batch.swapped(swap) {
            return Ok(found & CLOSED != 0);
        }
        found = batch.word(swap);
    }
}

/// What the closing word is, if nobody is in the pool now and somebody was: then everything is to be brought to the disk, and [`close`] called. What
/// dead clients left miscounted has been counted anew before.
pub async fn closing<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<Option<u64>, VerbError> {
    let word = read_word(endpoint, pool.layout.closing()).await?;
    let places = registry::places(endpoint, pool).await?;
    let empty = places.iter().all(|place| place.state == PlaceState::Free);
    Ok((empty && word & CLOSED == 0).then_some(word))
}

/// Says that the pool is closed, if nobody has joined since [`closing`] gave `word`; whether it is.
pub async fn close<E: Endpoint>(endpoint: &E, layout: &Layout, word: u64) -> Result<bool, VerbError> {
    let mut batch = Batch::new();
    let swap = batch.compare_and_swap(layout.closing(), word, word | CLOSED);
    endpoint.post(&mut batch).await?;
    Ok(batch.swapped(swap))
}
