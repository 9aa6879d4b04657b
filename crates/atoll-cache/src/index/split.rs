//! How a bucket of a growing index is split, while clients use it.
//!
//! A bucket `b` of depth `d` is split into itself and its child, which the index does not have yet.
//! Both have depth `d + 1` afterwards. Every word of a bucket holds the bucket's depth, so its
//! words alone show which of these steps have been taken:
//!
//! | step | swaps (each a CAS from the word that was seen) | afterwards |
//! |---|---|---|
//! | prepare | the directory's entry: 0 -> an all-zero chunk | the child's memory is there |
//! | freeze | each slot of `b`: `W` -> `W`, frozen; a pending word -> empty, frozen | no client changes it |
//! | birth | each slot of the child: 0 -> as below, of depth `d + 1` | the child has its keys |
//! | count | the pool's splits: `n` -> `n + 1` | **the keys of the child are in the child** |
//! | thaw | each slot of `b`: frozen -> as below, of depth `d + 1` | clients use it again |
//!
//! At birth a slot of the child takes the word of the same place in `b` if that word's key belongs
//! to the child. At the thaw a slot of `b` keeps its word if the key stays. Otherwise the slot is
//! empty.
//!
//! | what a client sees | then |
//! |---|---|
//! | a live word that is not frozen | it is its key's slot, so a CAS from it needs no other check |
//! | a bucket of words of the expected depth, none frozen | a key that is not in it was absent |
//! | a free word of the expected depth | an insertion may begin there |
//! | anything else | it settles the bucket |
//!
//! The first row holds whatever size of the index the client knows. A key was absent at a moment of
//! the READ. To settle a bucket, a client READs the number of splits, continues the split, and
//! begins again.
//!
//! Why no step goes wrong, however late its client is:
//!
//! - Buckets are split in one order. A client begins a split when it has seen the last one thawed.
//! - Depths only increase. So a late swap to freeze, or to thaw, expects a word that does not
//!   return. A late swap in a child expects 0, which does not return either.
//! - Frozen words do not change, and nothing reuses the records that they point to. An evictor
//!   that finds one waits for the thaw. It may also find the same record by the child's slot, so
//!   before it reuses memory, it makes sure that the last split has been thawed. So every client
//!   that continues a split sees the same keys, and swaps to the same words.
//! - A freeze withdraws an undecided insertion. Its client's own swap fails, and it begins again.
//! - Words are READ in any order. If a key leaves its slot during a READ, that slot had been
//!   thawed. The depth of its word shows that.
//! - A client that dies in the middle holds nothing. The next client that meets a frozen word
//!   continues, and so does its repairer.
//!
//! A word that fits none of these rules was not written by a client. It is emptied.

use super::directory::{Directory, Size};
use super::{ATTEMPTS_MAX, BUCKET_SLOTS, Index, SlotWord, copies, first_slot};
use crate::CacheError;
use crate::extent::OpenChunk;
use arrayvec::ArrayVec;
use atoll_fabric::{Address, BATCH_VERBS_MAX, Batch, Buffer, Endpoint, Ticket};
use atoll_pool::repair::Seen;
use atoll_pool::{Chunk, ChunkId, ChunkState, chunks};

const _: () = assert!(BUCKET_SLOTS <= BATCH_VERBS_MAX, "one batch swaps the slots of a bucket");

/// A slot word of an index that may grow.
pub(crate) trait SplitWord: SlotWord {
    /// The bits for depth and frozen.
    const STATE: u64;

    /// These bits of a word that has this depth and is not frozen.
    fn settled(depth: u32) -> u64;

    /// How often the word's bucket has been split.
    fn depth(self) -> u32;

    /// Whether the word's bucket is being split.
    fn is_frozen(self) -> bool;

    /// The word, frozen. A pending word becomes empty.
    fn frozen(self) -> Self;

    /// The word with this depth, not frozen.
    fn moved_to(self, depth: u32) -> Self;
}

/// An index that may grow.
#[allow(async_fn_in_trait)]
pub(crate) trait Splits: Index<Word: SplitWord> {
    /// What this client knows of the index.
    fn directory(&self) -> &Directory;

    /// The pool's number of splits.
    fn splits_at(&self) -> Address;

    /// An entry of the pool's directory.
    fn entry_at(&self, entry: usize) -> Address;

    /// A chunk of the home that this client has as Open and takes for the index. `None` if the
    /// index cannot grow now.
    async fn chunk_for_index(&self) -> Result<Option<OpenChunk>, CacheError>;

    /// Whether a parent is thawed before the split counts: a hole.
    fn thaws_early(&self) -> bool;
}

type Words = [u64; BUCKET_SLOTS];
type Sides = [Side; BUCKET_SLOTS];
type Swaps = ArrayVec<Ticket, BUCKET_SLOTS>;

/// Whether all words of a bucket have this depth, and none is frozen.
#[inline]
pub(crate) fn is_settled<W: SplitWord>(words: &Words, depth: u32) -> bool {
    let settled = W::settled(depth);
    words.iter().fold(0, |differing, word| differing | (word ^ settled)) & W::STATE == 0
}

/// READs how large the index is, and where its buckets are.
pub(crate) async fn learn<I: Splits>(index: &I) -> Result<(), CacheError> {
    let directory = index.directory();
    if !directory.grows() {
        return Ok(());
    }
    let endpoint = &index.member().endpoint;
    let mut batch = Batch::new();
    let splits = batch.read_word(index.splits_at());
    endpoint.post(&mut batch).await?;
    note(index, batch.word(splits)).await
}

/// Notes the number of splits, as it was READ just now.
pub(crate) async fn note<I: Splits>(index: &I, splits: u64) -> Result<(), CacheError> {
    let directory = index.directory();
    if splits == u64::from(directory.size().splits()) || !directory.grows() {
        return Ok(());
    }
    if splits > u64::from(directory.splits_max()) {
        return Err(CacheError::Damaged { what: "the size of the index" });
    }
    note_splits(index, splits as u32).await
}

/// Notes that there have been so many splits, and READs the entries of the directory that name the
/// buckets' chunks.
async fn note_splits<I: Splits>(index: &I, splits: u32) -> Result<(), CacheError> {
    let directory = index.directory();
    let size = directory.size();
    if splits <= size.splits() {
        return Ok(());
    }
    let last = size.count() + (splits - size.splits()) - 1;
    learn_entries(index, directory.place(last).0).await?;
    directory.note_splits(splits);
    Ok(())
}

/// READs the entries of the directory up to one that is there.
async fn learn_entries<I: Splits>(index: &I, last: usize) -> Result<(), CacheError> {
    let (endpoint, directory) = (&index.member().endpoint, index.directory());
    for first in (directory.known_entries()..=last).step_by(BATCH_VERBS_MAX) {
        let mut batch = Batch::new();
        let entries = first..=last.min(first + BATCH_VERBS_MAX - 1);
        let reads: ArrayVec<_, BATCH_VERBS_MAX> =
            entries.clone().map(|entry| batch.read_word(index.entry_at(entry))).collect();
        endpoint.post(&mut batch).await?;
        for (entry, read) in entries.zip(reads) {
            let chunk = checked_entry(index, batch.word(read));
            directory.note_chunk(entry, chunk.ok_or(CacheError::Damaged { what: "the directory of the index" })?);
        }
    }
    Ok(())
}

/// The chunk that an entry names. Chunks of the index are on the home.
fn checked_entry(index: &impl Splits, word: u64) -> Option<ChunkId> {
    let layout = &index.member().pool.layout;
    let chunk = layout.checked_chunk(u32::try_from(word.checked_sub(1)?).ok()?)?;
    (layout.node_of(chunk) == 0).then_some(chunk)
}

/// Makes a bucket settled at the depth that this client knows afterwards.
pub(crate) async fn settle<I: Splits>(index: &I, bucket: u32) -> Result<(), CacheError> {
    for _ in 0..ATTEMPTS_MAX {
        learn(index).await?;
        let size = index.directory().size();
        let words = read(index, bucket).await?;
        let depth = size.depth(bucket);
        if is_settled::<I::Word>(&words, depth) {
            return Ok(());
        }
        if depth > 0 && words.iter().any(|word| is_at::<I>(*word, depth - 1, true)) {
            let sides = sides(index, &words, depth - 1).await?;
            thaw(index, bucket, (&words, &sides), depth).await?;
            continue;
        }
        let may_split = bucket == size.next_parent() && size.count() < index.directory().buckets_max();
        if may_split
            && words.iter().any(|word| is_at::<I>(*word, depth, true))
            && prepare(index, index.directory().place(size.next_child()).0).await?
        {
            split(index, size).await?;
            continue;
        }
        empty_unsound(index, size, bucket, &words, |word| is_at::<I>(word, depth, false)).await?;
    }
    Err(CacheError::Damaged { what: "a bucket that is never settled" })
}

/// Completes the split that clients may have left half done.
pub(crate) async fn finish<I: Splits>(index: &I) -> Result<(), CacheError> {
    if !index.directory().grows() {
        return Ok(());
    }
    learn(index).await?;
    thaw_last(index).await?;
    settle(index, index.directory().size().next_parent()).await
}

/// Makes sure that the parents of all splits that this client knows are thawed. Those before the
/// last split are.
#[inline]
pub(crate) async fn thaw_last<I: Splits>(index: &I) -> Result<(), CacheError> {
    let size = index.directory().size();
    if index.directory().has_seen_thawed(size) {
        return Ok(());
    }
    if let Some(parent) = size.last_parent() {
        Box::pin(settle(index, parent)).await?;
    }
    index.directory().note_thawed(size);
    Ok(())
}

/// Frees the chunks that dead clients had taken for the index and had not listed in its directory.
/// Returns how many.
pub(crate) async fn free_unlisted<I: Splits>(index: &I, seen: &Seen) -> Result<u64, CacheError> {
    let is_left =
        |found: &Chunk| found.state == ChunkState::Index && !seen.roll.has(found.owner_slot, found.owner_epoch);
    let numbered = (0..).map(ChunkId).zip(&seen.descriptors).filter_map(|(chunk, each)| Some((chunk, each.chunk?)));
    let left: Vec<_> = numbered.filter(|(_, found)| is_left(found)).collect();
    let known = |chunk: ChunkId| {
        (0..index.directory().known_entries()).any(|entry| index.directory().chunk(entry) == Some(chunk))
    };
    if left.iter().all(|(chunk, _)| known(*chunk)) {
        return Ok(0);
    }
    // The entry behind those of the buckets that there are may name a chunk already.
    let next = index.directory().known_entries();
    let last = index.directory().entries_max().saturating_sub(1).min(next);
    let mut batch = Batch::new();
    let entry = batch.read_word(index.entry_at(last));
    index.member().endpoint.post(&mut batch).await?;
    let listed = checked_entry(index, batch.word(entry));
    let mut freed = 0;
    for (chunk, found) in left {
        if !known(chunk) && listed != Some(chunk) {
            freed +=
                u64::from(chunks::free(&index.member().endpoint, &index.member().pool.layout, chunk, found).await?);
        }
    }
    Ok(freed)
}

/// Adds a bucket. `false` if that is not possible now.
pub(crate) async fn grow<I: Splits>(index: &I) -> Result<bool, CacheError> {
    learn(index).await?;
    let (directory, size) = (index.directory(), index.directory().size());
    if size.count() == directory.buckets_max() {
        return Ok(false);
    }
    thaw_last(index).await?;
    if !prepare(index, directory.place(size.next_child()).0).await? {
        return Ok(false);
    }
    // Otherwise another client, or another operation of this client, has added a bucket meanwhile,
    // and may not have thawed the parent yet.
    if directory.size() == size {
        split(index, size).await?;
    }
    Ok(true)
}

/// Makes sure that an entry of the directory names a chunk. `false` if there is none for it.
async fn prepare<I: Splits>(index: &I, entry: usize) -> Result<bool, CacheError> {
    let (client, directory) = (index.member(), index.directory());
    if directory.chunk(entry).is_some() {
        return Ok(true);
    }
    let mut batch = Batch::new();
    let found = batch.read_word(index.entry_at(entry));
    client.endpoint.post(&mut batch).await?;
    let mut found = batch.word(found);
    if found == 0 {
        let Some((chunk, generation)) = index.chunk_for_index().await? else { return Ok(false) };
        clear(index, chunk).await?;
        let open = Chunk::owned(ChunkState::Open, client.me(), generation);
        let own = Chunk { state: ChunkState::Index, ..open };
        if !chunks::transition(&client.endpoint, &client.pool.layout, chunk, open.word(), own).await? {
            return Err(CacheError::Damaged { what: "another client changed the state of an open chunk" });
        }
        let named = u64::from(chunk.0) + 1;
        let mut batch = Batch::new();
        let swap = batch.compare_and_swap(index.entry_at(entry), 0, named);
        client.endpoint.post(&mut batch).await?;
        found = named;
        if !batch.swapped(swap) {
            found = batch.word(swap);
            chunks::free(&client.endpoint, &client.pool.layout, chunk, own).await?;
        }
    }
    let chunk = checked_entry(index, found).ok_or(CacheError::Damaged { what: "the directory of the index" })?;
    directory.note_chunk(entry, chunk);
    Ok(true)
}

/// Makes a chunk all zero.
async fn clear<I: Splits>(index: &I, chunk: ChunkId) -> Result<(), CacheError> {
    let client = index.member();
    let (begin, bytes) = (client.pool.layout.chunk(chunk), client.pool.layout.chunk_bytes);
    let most = bytes.min(client.endpoint.limits().verb_bytes_max / 8 * 8);
    for offset in (0..bytes).step_by(most as usize) {
        let mut zeros = Buffer::sized(most.min(bytes - offset) as usize);
        zeros.words_mut().fill(0);
        let mut batch = Batch::new();
        batch.write(begin.add(offset), zeros);
        client.endpoint.post(&mut batch).await?;
    }
    Ok(())
}

/// Splits the bucket whose turn it is in an index of this size, or continues that. The
/// child's memory is there, and this client knows it.
async fn split<I: Splits>(index: &I, size: Size) -> Result<(), CacheError> {
    let directory = index.directory();
    let (parent, child) = (size.next_parent(), size.next_child());
    let depth = size.depth(parent);
    assert!(child < directory.buckets_max() && child == size.child(parent, depth), "buckets are split in order");
    let Some(words) = freeze(index, size).await? else { return Ok(()) };
    let sides = sides(index, &words, depth).await?;
    let mut batch = Batch::new();
    let _: Swaps = (0..)
        .zip(words.iter().zip(&sides))
        .map(|(place, (word, side))| {
            let word = word_on::<I>(*word, *side, Side::Child, depth + 1);
            batch.compare_and_swap(index.slot_at(first_slot(child) + place), 0, word.bits())
        })
        .collect();
    index.member().endpoint.post(&mut batch).await?;
    if index.thaws_early() {
        thaw(index, parent, (&words, &sides), depth + 1).await?;
    }
    let splits = size.splits();
    let mut batch = Batch::new();
    batch.compare_and_swap(index.splits_at(), splits.into(), u64::from(splits) + 1);
    index.member().endpoint.post(&mut batch).await?;
    // Whichever client has counted it: there are at least so many splits.
    directory.note_splits(splits + 1);
    thaw(index, parent, (&words, &sides), depth + 1).await
}

/// Freezes all slots of the bucket whose turn it is in an index of this size, and returns their
/// words. `None` if the index is larger.
async fn freeze<I: Splits>(index: &I, size: Size) -> Result<Option<Words>, CacheError> {
    let bucket = size.next_parent();
    let depth = size.depth(bucket);
    for _ in 0..ATTEMPTS_MAX {
        let words = read(index, bucket).await?;
        let warm = || (0..).zip(&words).filter(|(_, word)| is_at::<I>(**word, depth, false));
        if words.iter().all(|word| is_at::<I>(*word, depth, true)) {
            return Ok(Some(words));
        }
        let is_sound = |word: &u64| I::Word::from_bits(*word).depth() == depth;
        if !words.iter().all(is_sound) {
            learn(index).await?;
            if index.directory().size() != size {
                return Ok(None);
            }
            let can_be = |word: u64| I::Word::from_bits(word).depth() == depth;
            empty_unsound(index, size, bucket, &words, can_be).await?;
            continue;
        }
        let mut batch = Batch::new();
        for (place, word) in warm() {
            let frozen = I::Word::from_bits(*word).frozen();
            batch.compare_and_swap(index.slot_at(first_slot(bucket) + place), *word, frozen.bits());
        }
        index.member().endpoint.post(&mut batch).await?;
    }
    Err(CacheError::Damaged { what: "a bucket that is never frozen" })
}

/// Thaws the slots that are frozen among these words of a bucket. The bucket has this depth now.
async fn thaw<I: Splits>(
    index: &I,
    bucket: u32,
    (words, sides): (&Words, &Sides),
    depth: u32,
) -> Result<(), CacheError> {
    assert!(depth > 0, "a bucket that was split is not at depth 0");
    for (place, (word, side)) in (0..).zip(words.iter().zip(sides)) {
        if *side == Side::Neither && is_at::<I>(*word, depth - 1, true) {
            copies::end_of_damaged(index, first_slot(bucket) + place, I::Word::from_bits(*word)).await?;
        }
    }
    let mut batch = Batch::new();
    let mut swaps = ArrayVec::<_, BUCKET_SLOTS>::new();
    for (place, (word, side)) in (0..).zip(words.iter().zip(sides)) {
        if is_at::<I>(*word, depth - 1, true) {
            let thawed = word_on::<I>(*word, *side, Side::Parent, depth);
            let swap = batch.compare_and_swap(index.slot_at(first_slot(bucket) + place), *word, thawed.bits());
            swaps.push((*side, swap));
        }
    }
    index.member().endpoint.post(&mut batch).await?;
    let is_lost = |(side, swap): &(Side, Ticket)| *side == Side::Neither && batch.swapped(*swap);
    let lost = swaps.iter().filter(|swapped| is_lost(swapped)).count() as u64;
    if lost > 0 {
        index.counters().damaged.add(lost);
        index.count_removed(lost).await?;
    }
    Ok(())
}

/// Empties the words of a bucket that no client can have written there while the index has this
/// size. The words were READ after the size.
async fn empty_unsound<I: Splits>(
    index: &I,
    size: Size,
    bucket: u32,
    words: &Words,
    can_be: impl Fn(u64) -> bool,
) -> Result<(), CacheError> {
    learn(index).await?;
    if index.directory().size() != size {
        return Ok(());
    }
    let depth = size.depth(bucket);
    for (place, word) in (0..).zip(words).filter(|(_, word)| !can_be(**word)) {
        copies::end_of_damaged(index, first_slot(bucket) + place, I::Word::from_bits(*word)).await?;
    }
    let mut batch = Batch::new();
    let mut swaps = ArrayVec::<_, BUCKET_SLOTS>::new();
    for (place, word) in (0..).zip(words).filter(|(_, word)| !can_be(**word)) {
        let empty = I::Word::from_bits(0).moved_to(depth);
        let swap = batch.compare_and_swap(index.slot_at(first_slot(bucket) + place), *word, empty.bits());
        swaps.push((I::Word::from_bits(*word).is_live(), swap));
    }
    index.member().endpoint.post(&mut batch).await?;
    let lost = swaps.iter().filter(|(is_live, swap)| *is_live && batch.swapped(*swap)).count() as u64;
    if lost > 0 {
        index.counters().damaged.add(lost);
        index.count_removed(lost).await?;
    }
    Ok(())
}

/// Where the word of a frozen slot belongs after the split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Parent,
    Child,
    /// A free word. If it is a ghost, its key may belong to either bucket.
    Both,
    /// The record is damaged.
    Neither,
}

/// The word of a slot that was frozen, in one of the two buckets.
fn word_on<I: Splits>(frozen: u64, side: Side, bucket: Side, depth: u32) -> I::Word {
    let word = I::Word::from_bits(frozen).moved_to(depth);
    if side == bucket || side == Side::Both { word } else { word.emptied() }
}

/// The sides of the frozen words of a bucket whose depth was `depth`. The others count as free.
async fn sides<I: Splits>(index: &I, words: &Words, depth: u32) -> Result<Sides, CacheError> {
    let mut sides = [Side::Both; BUCKET_SLOTS];
    let mut batch = Batch::new();
    let mut reads = ArrayVec::<_, BUCKET_SLOTS>::new();
    for (place, bits) in words.iter().enumerate() {
        let word = I::Word::from_bits(*bits);
        if !is_at::<I>(*bits, depth, true) || word.is_free() {
            continue;
        }
        sides[place] = Side::Neither;
        if let Some((at, bytes, chunk)) = index.find_record(word).await?
            && !index.member().is_chunk_absent(chunk)
        {
            let mut buffer = Buffer::new();
            buffer.resize(bytes);
            reads.push((place, word, batch.read(at, buffer)));
        }
    }
    if !reads.is_empty() {
        index.member().endpoint.post(&mut batch).await?;
    }
    for (place, word, read) in reads {
        let mut record = batch.take(read);
        if let Some(record) = index.judged(word, &mut record) {
            let hash = record.large().map_or_else(|| index.hasher().hash(record.key), |body| body.key_hash);
            let is_childs = super::split_of(hash) >> depth & 1 == 1;
            sides[place] = if is_childs { Side::Child } else { Side::Parent };
        }
    }
    Ok(sides)
}

fn is_at<I: Splits>(bits: u64, depth: u32, frozen: bool) -> bool {
    let word = I::Word::from_bits(bits);
    word.depth() == depth && word.is_frozen() == frozen
}

/// READs the words of a bucket.
async fn read<I: Splits>(index: &I, bucket: u32) -> Result<Words, CacheError> {
    let slots = Buffer::sized(8 * BUCKET_SLOTS);
    let slots = index.member().endpoint.read(index.slot_at(first_slot(bucket)), slots).await?;
    Ok(*slots.words().first_chunk().expect("a bucket is READ whole"))
}
