//! A region that outlives its host's boot: a file on a disk.
//!
//! After a crash of the host the file holds some of what was written and not the rest. So a word
//! says whether the pool was **closed**: all clients had left, and everything was on the disk.
//!
//! | word | content | access |
//! |---|---|---|
//! | word 17 of the header | the boot id of the host that formatted the pool, or took it over; 0 if unknown | data, written by a process that is alone |
//! | the closing word | joins so far 63, closed 1 | atomics only |
//!
//! What an opener of the file does ([`judge`]). The pool's boot id or the opener's may be unknown:
//! a container need not have a `/proc`.
//!
//! | boot ids | the file | open elsewhere | closed | verdict |
//! |---|---|---|---|---|
//! | equal and known | any | any | any | opened: dead clients are repaired |
//! | one unknown | in memory | any | any | opened: memory does not outlive a boot |
//! | one unknown | on a disk | yes | any | opened: all processes that have it open are of one boot |
//! | one unknown | on a disk | no | yes | taken over: it is whole |
//! | one unknown | on a disk | no | no | an error: it may not be whole |
//! | different | in memory | any | any | an error: one of the two is not the host's |
//! | different | on a disk | yes | any | an error: the same |
//! | different | on a disk | no | yes | taken over: the pool's time continues (see `clock`), then the boot id becomes this host's |
//! | different | on a disk | no | no | formatted anew: all but the headers and the existing nodes, then the boot id |
//!
//! A process that takes a file over, or formats it anew, has it open alone meanwhile. It WRITEs the
//! boot id last. If it dies before that, the next process repeats all steps.
//!
//! | the closing word | by | when |
//! |---|---|---|
//! | joins + 1, not closed | a client | it has joined, and has changed nothing yet; the word is on the disk before the first change |
//! | closed | a process whose last client has left | all places of the registry are free, and everything is on the disk; by a compare-and-swap from the word before that READ, so no client has joined since |
//!
//! A client occupies a place before it counts its join. So either the READ sees the place, or the
//! swap fails.

use crate::header::BOOT_UNKNOWN;
use crate::layout::MEMBER_HEADER_BYTES;
use crate::provision::Provided;
use crate::words::{self, read_word};
use crate::{Layout, PlaceState, Pool, PoolError, clock, header, layout, nodes, registry};
use atoll_fabric::{Address, Batch, Buffer, Endpoint, VerbError};

const CLOSED: u64 = 1;
/// Bytes that one WRITE makes zero.
const ZEROES_BYTES: u64 = 1 << 20;

/// What an opener does with a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing: the host has not been restarted since.
    GoesOn,
    /// It was closed: it continues in this boot.
    TakenOver,
    /// It was open when its host went down: it is emptied.
    MadeAnew,
    /// The boot id of the opener, or of the pool, is not the host's.
    OtherBoot,
    /// It is unknown whether it is whole.
    Unknown,
}

/// What an opener that reads the boot id `mine` does with a region whose boot id is `found`: a row
/// of the table above. `is_shared` says that another process has the region open.
pub fn judge(found: u64, mine: Option<u64>, is_volatile: bool, is_shared: bool, is_closed: bool) -> Verdict {
    let known = mine.filter(|_| found != BOOT_UNKNOWN);
    match (known, is_volatile || is_shared, is_closed) {
        (Some(mine), ..) if mine == found => Verdict::GoesOn,
        (None, true, _) => Verdict::GoesOn,
        (Some(_), true, _) => Verdict::OtherBoot,
        (_, false, true) => Verdict::TakenOver,
        (None, false, false) => Verdict::Unknown,
        (Some(_), false, false) => Verdict::MadeAnew,
    }
}

/// The verdict on a region that the endpoint reaches.
pub async fn look<E: Endpoint>(
    endpoint: &E,
    layout: &Layout,
    mine: Option<u64>,
    is_volatile: bool,
    is_shared: bool,
) -> Result<Verdict, VerbError> {
    let found = read_word(endpoint, header::BOOT).await?;
    let is_closed = read_word(endpoint, layout.closing()).await? & CLOSED != 0;
    Ok(judge(found, mine, is_volatile, is_shared, is_closed))
}

/// Carries out the verdict; returns whether the region was emptied. To take it over or to format it
/// anew, the caller must have it open alone.
pub async fn settle<E: Endpoint>(
    endpoint: &E,
    pool: &Pool,
    mine: Option<u64>,
    is_volatile: bool,
    verdict: Verdict,
) -> Result<bool, PoolError> {
    let mut batch = Batch::new();
    match verdict {
        Verdict::GoesOn => return Ok(false),
        Verdict::OtherBoot if is_volatile => {
            return Err(PoolError::OtherBoot { proof: "a tmpfs does not outlive a boot" });
        }
        Verdict::OtherBoot => return Err(PoolError::OtherBoot { proof: "other processes have it open" }),
        Verdict::Unknown => return Err(PoolError::UnknownBoot),
        Verdict::TakenOver => {
            let least_ms = read_word(endpoint, pool.layout.clock()).await?;
            clock::add_beginning(&mut batch, endpoint, &pool.layout, least_ms);
        }
        Verdict::MadeAnew => {
            clear(endpoint, &pool.layout).await?;
            nodes::forget_claims(endpoint, pool).await?;
            header::add_beginnings(&mut batch, endpoint, pool);
            batch.write_word(pool.layout.provided_word(), Provided::all(&pool.layout).word());
            pool.layout.note_provided(u32::MAX);
        }
    }
    endpoint.post(&mut batch).await?;
    let mut batch = Batch::new();
    batch.write_word(header::BOOT, mine.unwrap_or(BOOT_UNKNOWN));
    endpoint.post(&mut batch).await?;
    Ok(verdict == Verdict::MadeAnew)
}

/// Zeroes everything but headers and the table of nodes.
async fn clear<E: Endpoint>(endpoint: &E, layout: &Layout) -> Result<(), VerbError> {
    clear_span(endpoint, Address::new(0, 0, header::HEADER_BYTES), layout::NODES).await?;
    clear_span(endpoint, Address::new(0, 0, layout.registry()), layout.end()).await?;
    for node in 1..layout.nodes_known() {
        let chunks = layout.chunks_of(node).map_or(0, |chunks| chunks.len() as u32);
        clear_span(endpoint, Address::new(node, 0, MEMBER_HEADER_BYTES), layout.member_end(node, chunks)).await?;
    }
    Ok(())
}

/// Zeroes the bytes from `at` up to the offset `end` of its region. All of their memory is present
/// afterwards.
async fn clear_span<E: Endpoint>(endpoint: &E, mut at: Address, end: u64) -> Result<(), VerbError> {
    let most = ZEROES_BYTES.min(endpoint.limits().verb_bytes_max / 8 * 8);
    while at.offset() < end {
        let bytes = most.min(end - at.offset());
        if !endpoint.provide(at, bytes).await? {
            return Err(VerbError::no_memory(at.node()));
        }
        let mut zeroes = Buffer::sized(bytes as usize);
        zeroes.words_mut().fill(0);
        let mut batch = Batch::new();
        batch.write(at, zeroes);
        endpoint.post(&mut batch).await?;
        at = at.add(bytes);
    }
    Ok(())
}

/// Counts a client that has joined. `true` if the pool had been closed: then the word must be on
/// the disk before the client changes anything.
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

/// The closing word, if the pool has no client now and had one. The caller then writes everything
/// to the disk and calls [`close`]. Before that it has recounted what dead clients left wrong.
pub async fn closing<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<Option<u64>, VerbError> {
    let word = read_word(endpoint, pool.layout.closing()).await?;
    let places = registry::places(endpoint, pool).await?;
    let empty = places.iter().all(|place| place.state == PlaceState::Free);
    Ok((empty && word & CLOSED == 0).then_some(word))
}

/// Marks the pool as closed, if no client has joined since [`closing`] returned `word`; returns
/// whether it did.
pub async fn close<E: Endpoint>(endpoint: &E, layout: &Layout, word: u64) -> Result<bool, VerbError> {
    assert!(word & CLOSED == 0, "a pool is closed once");
    words::swap(endpoint, layout.closing(), word, word | CLOSED).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the header: boot ids equal, unknown or different; in memory; shared; closed;
    /// verdict.
    #[test]
    fn every_case_has_the_verdict_of_exactly_one_row() {
        let (any, yes, no) = (None, Some(true), Some(false));
        let rows = [
            ("equal", any, any, any, Verdict::GoesOn),
            ("unknown", yes, any, any, Verdict::GoesOn),
            ("unknown", no, yes, any, Verdict::GoesOn),
            ("unknown", no, no, yes, Verdict::TakenOver),
            ("unknown", no, no, no, Verdict::Unknown),
            ("different", yes, any, any, Verdict::OtherBoot),
            ("different", no, yes, any, Verdict::OtherBoot),
            ("different", no, no, yes, Verdict::TakenOver),
            ("different", no, no, no, Verdict::MadeAnew),
        ];
        let ids = [
            ("equal", 7, Some(7)),
            ("unknown", 7, None),
            ("unknown", BOOT_UNKNOWN, Some(7)),
            ("unknown", BOOT_UNKNOWN, None),
            ("different", 7, Some(8)),
        ];
        for (which, found, mine) in ids {
            for case in 0..8 {
                let [volatile, shared, closed] = [case & 1 != 0, case & 2 != 0, case & 4 != 0];
                let is = |wanted: Option<bool>, found: bool| wanted.is_none_or(|wanted| wanted == found);
                let mut fitting = rows.iter().filter(|(ids, in_memory, elsewhere, was_closed, _)| {
                    *ids == which && is(*in_memory, volatile) && is(*elsewhere, shared) && is(*was_closed, closed)
                });
                let (row, more) = (fitting.next().expect("a row"), fitting.next());
                assert_eq!(more, None);
                assert_eq!(judge(found, mine, volatile, shared, closed), row.4, "{which} {case}");
            }
        }
    }
}
