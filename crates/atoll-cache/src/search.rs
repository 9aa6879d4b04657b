//! How a change searches for the slot of a key's bucket that has the key's object. Each engine
//! searches in its own way. The steps after the search are here.
//!
//! | step | here | each engine's |
//! |---|---|---|
//! | READ the bucket, then the record of each slot with the key's fingerprint | | [`Searched::search`] |
//! | complete a large object: READ its extents, READ its slot again | [`complete_large`] | |
//! | let the change decide | [`decide`] | |
//! | decide a pending insertion | [`publish_pending`] | |
//!
//! An insertion is pending until its client has seen that no other slot has the key:
//!
//! | other slot with the key | then |
//! |---|---|
//! | live | withdraw (CAS pending -> empty) and retry: the change is a replacement now |
//! | pending | empty that slot by CAS, whichever client it belongs to, and READ the bucket again |
//! | none | CAS pending -> live; if that fails, another client emptied the slot: retry |
//!
//! Of two inserters, the client whose slot became pending later sees the other slot. So at most one
//! slot of a key is ever live. A client that dies while pending leaves a slot that no lookup sees.
//! The next insertion of the key, or a repair, clears it.

use crate::engine::{Change, Old, Verdict, Want};
use crate::extent::Extents;
use crate::index::{ATTEMPTS_MAX, Index, SlotWord};
use crate::operation::Operation;
use crate::record::{Header, LargeBody};
use crate::{CacheError, Meta, Value};
use atoll_fabric::Endpoint;

/// The body of a large object's record, and its checked extents.
#[derive(Clone, Debug)]
pub(crate) struct Large {
    pub(crate) body: LargeBody,
    pub(crate) extents: Extents,
}

/// An object found. `W` is the engine's slot word, `B` the engine's own part.
pub(crate) struct Found<W, B> {
    pub(crate) slot: u64,
    pub(crate) word: W,
    pub(crate) header: Header,
    /// Its body and extents, if the object is large.
    pub(crate) large: Option<Box<Large>>,
    pub(crate) beside: B,
}

/// The result of a search for a key.
pub(crate) enum Search<W, B> {
    Found(Found<W, B>),
    Absent,
    /// The search saw a change by another client, or dropped a damaged object.
    Anew,
    /// As [`Search::Anew`]: the key's object, with this token, was in the slot when the slot's word
    /// was READ. The slot has another word now.
    Overtaken {
        token: u64,
        slot: u64,
        now: W,
    },
}

/// The result of a search in an index.
pub(crate) type SearchOf<I> = Search<<I as Index>::Word, <I as Searched>::Beside>;
/// An object that a search in an index found.
pub(crate) type FoundIn<I> = Found<<I as Index>::Word, <I as Searched>::Beside>;
/// An operation on an index.
type On<I> = Operation<<I as Index>::Word, <I as Index>::Notes>;

/// An index in which changes search for objects.
pub(crate) trait Searched: Index {
    /// The parts of a key's hash.
    type Hash: Copy;
    /// The engine's own part of an object found.
    type Beside;

    /// READs the bucket of a key into the operation.
    fn read_bucket(&self, op: &mut On<Self>, hash: Self::Hash) -> impl Future<Output = Result<(), CacheError>>;

    /// Searches the bucket that was READ after `begun_ns`, among pending slots or live ones. `skip`
    /// is a slot of the caller's own.
    fn search(
        &self,
        op: &mut On<Self>,
        key: (Self::Hash, &[u8]),
        want: Want,
        pending: bool,
        skip: Option<u64>,
        begun_ns: u64,
    ) -> impl Future<Output = Result<SearchOf<Self>, CacheError>>;

    /// Drops an object whose list of extents is unsound, if its slot still has this word. The slot
    /// may have changed before the list was READ.
    fn drop_unlisted(&self, slot: u64, word: Self::Word) -> impl Future<Output = Result<(), CacheError>>;
}

/// Completes a large object, if it has the wanted key. `Absent` if it has another key. With
/// [`Want::Value`] the operation holds the value afterwards. Otherwise only the key is READ.
pub(crate) async fn complete_large<I: Searched>(
    index: &I,
    op: &mut On<I>,
    found: FoundIn<I>,
    body: LargeBody,
    key: &[u8],
    want: Want,
) -> Result<SearchOf<I>, CacheError> {
    assert!(found.header.large, "only a large object has extents");
    let io = index.extent_io();
    if body.key_hash != io.hasher.hash(key) || found.header.key_bytes != key.len() {
        return Ok(Search::Absent);
    }
    let Some(extents) = io.extents(&found.header, &body).await? else {
        index.drop_unlisted(found.slot, found.word).await?;
        return Ok(Search::Anew);
    };
    let bytes = if want == Want::Value { found.header.body_bytes() } else { key.len() };
    let buffer = std::mem::take(&mut op.old.buffer);
    op.old.buffer = io.read_extents(&extents, bytes, buffer).await?;
    (op.old.start, op.old.meta) = (key.len(), Meta { value_bytes: bytes - key.len(), ..Meta::of(&found.header) });
    // The extents may pass to a copy of the record and be freed with that copy. They belong to this
    // object as long as the slot keeps its word.
    if index.slot_word(found.slot).await? != found.word {
        return Ok(Search::Anew);
    }
    let (read_key, value) = op.old.buffer.bytes().split_at(key.len());
    if read_key != key {
        return Ok(Search::Absent);
    }
    // Something else than a client wrote to the pool. A change must not give these bytes a new,
    // right checksum.
    if want == Want::Value && !io.is_sound(&body, read_key, value) {
        index.drop_damaged(found.slot, found.word).await?;
        return Ok(Search::Anew);
    }
    Ok(Search::Found(Found { large: Some(Box::new(Large { body, extents })), ..found }))
}

/// The change's verdict, and the token of the live object that it was shown.
pub(crate) fn decide<C: Change, W, B>(
    change: &mut C,
    now_ms: u64,
    found: Option<&Found<W, B>>,
    old: &Value,
) -> (Verdict, Option<u64>) {
    let live = found.filter(|found| !found.header.is_expired(now_ms));
    let value = if live.is_some() && change.wants() == Want::Value { old.bytes() } else { &[] };
    let verdict = change.decide(now_ms, live.map(|found| Old { meta: Meta::of(&found.header), value }));
    (verdict, live.map(|found| found.header.token))
}

/// Makes this client's pending slot live, if no other slot has the key. Returns whether it is live
/// now. The bucket was READ after the slot became pending, and not before `begun_ns`.
pub(crate) async fn publish_pending<I: Searched>(
    index: &I,
    op: &mut On<I>,
    key: (I::Hash, &[u8]),
    slot: u64,
    (pending, live): (I::Word, I::Word),
    mut begun_ns: u64,
) -> Result<bool, CacheError> {
    assert!(pending != live, "an insertion is pending before it is live");
    for _ in 0..ATTEMPTS_MAX {
        let mut seen = index.search(op, key, Want::Meta, false, Some(slot), begun_ns).await?;
        if let Search::Found(_) = seen {
            index.swap_slot(slot, pending, pending.emptied()).await?;
            return Ok(false);
        }
        if let Search::Absent = seen {
            seen = index.search(op, key, Want::Meta, true, Some(slot), begun_ns).await?;
        }
        match seen {
            Search::Absent => return index.swap_slot(slot, pending, live).await,
            Search::Found(other) => {
                index.swap_slot(other.slot, other.word, other.word.emptied()).await?;
            }
            Search::Anew | Search::Overtaken { .. } => {}
        }
        begun_ns = index.member().endpoint.now_ns();
        index.read_bucket(op, key.0).await?;
    }
    Err(CacheError::Damaged { what: "an object that stays unsound" })
}
