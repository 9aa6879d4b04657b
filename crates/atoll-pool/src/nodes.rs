//! The table of memory nodes, and how a node is added while clients run.
//!
//! The table is on the home, with a word for each node from 1 on. The words are for atomics only;
//! formatting the pool writes them plainly. Behind them is a word for each node that says where its
//! region is made: the hash of the [place](Endpoint::place), 0 where the fabric has none. It is
//! data. A client WRITEs it before it makes the node ready or returning, or gives it up.
//!
//! ```text
//! free      0 2 | 0 62
//! claimed   1 2 | 0 2 | owner's slot 12 | owner's epoch, low 16 | 0 32
//! ready     2 2 | identity 30 | chunks 32
//! absent    3 2 | phase 2 | identity 28 | chunks 32         its region is gone: see `loss`
//!
//! a further node's header, 64 B
//! word 0  magic "ATOLLMN" + format version (one byte)      word 1  the pool's id
//! word 2  the node's number                                word 3  chunks
//! word 4  identity                                         word 7  checksum of words 0..7
//! ```
//!
//! | from | to | by | when |
//! |---|---|---|---|
//! | free | claimed | a client that adds a node | all earlier nodes are ready; only this client may create the region now |
//! | claimed | claimed | another client that adds a node | the owner was shut out; its region is removed first |
//! | claimed | free | its owner | the region could not be created |
//! | claimed | ready | its owner | the region exists, with its header: from now on the node's chunks are the pool's |
//!
//! | ready, absent | absent | any client | the region is gone, or comes back: see [`loss`] |
//! | absent | ready | any client | there is a new, empty region, with its header |
//!
//! Nodes become ready in the order of their numbers, and keep their chunks. Their chunks are
//! numbered in that order. The descriptors of those chunks, on the home, were zero (free) from the
//! start. So a process knows the first nodes of the table, and may miss later ones. It looks for
//! more when it opens the pool, sometimes when it checks other clients, when it finds no free
//! chunk, and when it meets an unknown chunk.
//!
//! A client that dies while it adds a node leaves a claimed word, and perhaps a region that no
//! client uses. If it dies between the last swap and the count of the chunks as free, the count is
//! wrong until everything is recounted, as after every death. A client that recounts meanwhile
//! would count the chunks twice. So a client at rest ends its rest before that swap
//! ([`Client::publish_node`](crate::Client::publish_node)).

use crate::error::FORMAT_VERSION;
use crate::fields::Numbers;
use crate::layout::{self, MEMBER_HEADER_BYTES, NODES};
use crate::provision;
use crate::registry::{self, Roll};
use crate::words::{self, read_word};
use crate::{Incarnation, Layout, Pool, PoolError, loss};
use atoll_fabric::{Address, Batch, Buffer, Endpoint, VerbError};

const MAGIC: u64 = u64::from_le_bytes(*b"ATOLLMN\0") | (FORMAT_VERSION as u64) << 56;
const WORDS: usize = 8;
const IDENTITY_MASK: u64 = (1 << 30) - 1;

/// The state of a node in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// There is no such node.
    Free,
    /// A client is about to add it.
    Claimed {
        /// The client's place.
        slot: u32,
        /// Low bits of its epoch.
        epoch: u16,
    },
    /// The node is ready.
    Ready {
        /// The random identity of its region, 30 bits. The region's header has it, too.
        identity: u32,
        /// Its chunks.
        chunks: u32,
    },
    /// The node's region is gone: see [`loss`].
    Absent {
        /// How far the pool has come without it.
        phase: Phase,
        /// The low 28 bits of the identity of the region that is gone, or comes back.
        identity: u32,
        /// Its chunks.
        chunks: u32,
    },
}

/// How far a pool has come without the region of a memory node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The region is gone, and words of the pool may still point into it.
    Lost,
    /// No word points into it, and clients use the pool without it.
    Cleared,
    /// Clients wait until no client is left that uses the pool without it.
    Returning,
}

const PHASES: Numbers<Phase, 3> = Numbers([(0, Phase::Lost), (1, Phase::Cleared), (2, Phase::Returning)]);
const PHASE_SHIFT: u32 = 60;
/// Bits of an identity that an absent node's word has.
pub(crate) const ABSENT_IDENTITY_MASK: u32 = (1 << 28) - 1;

impl NodeState {
    fn claimed(owner: Incarnation) -> Self {
        Self::Claimed { slot: owner.slot, epoch: owner.epoch as u16 }
    }

    /// The same as a word.
    pub fn word(self) -> u64 {
        match self {
            Self::Free => 0,
            Self::Claimed { slot, epoch } => 1 << 62 | u64::from(slot & 0xfff) << 48 | u64::from(epoch) << 32,
            Self::Ready { identity, chunks } => {
                2 << 62 | (u64::from(identity) & IDENTITY_MASK) << 32 | u64::from(chunks)
            }
            Self::Absent { phase, identity, chunks } => {
                let identity = u64::from(identity & ABSENT_IDENTITY_MASK);
                3 << 62 | PHASES.number(phase) << PHASE_SHIFT | identity << 32 | u64::from(chunks)
            }
        }
    }

    /// The state that a word encodes; `None` if no client wrote it.
    pub fn from_word(word: u64) -> Option<Self> {
        let state = match word >> 62 {
            0 => Self::Free,
            1 => Self::Claimed { slot: (word >> 48) as u32 & 0xfff, epoch: (word >> 32) as u16 },
            2 => Self::Ready { identity: (word >> 32 & IDENTITY_MASK) as u32, chunks: word as u32 },
            _ => Self::Absent {
                phase: PHASES.value(word >> PHASE_SHIFT & 3)?,
                identity: (word >> 32) as u32 & ABSENT_IDENTITY_MASK,
                chunks: word as u32,
            },
        };
        (state.word() == word).then_some(state)
    }
}

/// What is wrong with a region that no verb reaches.
pub(crate) const NOT_THERE: &str = "is not there";

fn checksum(words: &[u64]) -> u64 {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    rapidhash::v3::rapidhash_v3(&bytes)
}

fn member_words(pool: &Pool, node: u8, chunks: u32, identity: u32) -> [u64; WORDS] {
    let mut words = [MAGIC, pool.id, node.into(), chunks.into(), identity.into(), 0, 0, 0];
    words[WORDS - 1] = checksum(&words[..WORDS - 1]);
    words
}

/// The node's number, if these are the first words of a further node's region.
pub(crate) fn member_number(words: &[u64]) -> Option<u64> {
    (words[0] << 8 == MAGIC << 8).then_some(words[2])
}

/// What a region is, of a further node or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberWords {
    /// Its creator has not come to its header.
    Empty,
    /// A further node of the pool with this id.
    OfPool(u64),
    /// Something else.
    Other,
}

impl MemberWords {
    /// What a region is that begins with these two words, or more.
    pub fn of(words: &[u64]) -> Self {
        match words {
            [0, ..] => Self::Empty,
            [magic, id, ..] if magic << 8 == MAGIC << 8 => Self::OfPool(*id),
            _ => Self::Other,
        }
    }
}

/// Whether a region that begins with these words is a node's, and has this identity by the bits
/// that an absent node's word has.
pub(crate) fn is_region_of(pool: &Pool, (node, identity): (u8, u32), words: &[u64]) -> bool {
    let found = words.first_chunk::<WORDS>();
    found.is_some_and(|found| {
        found[..3] == [MAGIC, pool.id, node.into()]
            && found[4] & u64::from(ABSENT_IDENTITY_MASK) == u64::from(identity)
            && found[WORDS - 1] == checksum(&found[..WORDS - 1])
    })
}

/// Bytes at the beginning of a region that tell whether it was used: the engine's words are among
/// them, or the first chunk.
const LOOKED_AT: u64 = 4096;

/// Whether the region of a node, which is to be made anew, seems never to have been used. It may
/// have a header of this node: a client that was slow may have made it for an earlier return.
pub(crate) async fn is_unused<E: Endpoint>(
    endpoint: &E,
    pool: &Pool,
    (node, chunks): (u8, u32),
) -> Result<bool, VerbError> {
    let bytes = LOOKED_AT.min(pool.layout.member_end(node, chunks)) / 8 * 8;
    let found = endpoint.read(Address::new(node, 0, 0), Buffer::sized(bytes as usize)).await?;
    let (header, rest) = found.words().split_at(MEMBER_HEADER_BYTES as usize / 8);
    let ours = [MAGIC, pool.id, node.into()];
    // The magic comes last.
    let is_ours = header.iter().zip(&ours).all(|(word, ours)| *word == 0 || word == ours);
    Ok(is_ours && rest.iter().all(|word| *word == 0))
}

/// The difference between a header and the one `expected`.
fn compare(found: &[u64], expected: &[u64; WORDS]) -> Option<String> {
    if found == expected {
        return None;
    }
    Some(match () {
        () if found[0] == 0 => "holds nothing".to_owned(),
        () if found[0] << 8 != MAGIC << 8 => "is no memory node of a pool".to_owned(),
        () if found[0] != MAGIC => format!("has format {}, this version reads {FORMAT_VERSION}", found[0] >> 56),
        () if found[WORDS - 1] != checksum(&found[..WORDS - 1]) => "is damaged".to_owned(),
        () if found[1] != expected[1] => "belongs to another pool".to_owned(),
        () if found[2] != expected[2] => format!("is memory node {} of this pool", found[2]),
        () => "is not the one that was added".to_owned(),
    })
}

/// The word of the place where this endpoint's process makes the region of a node.
pub(crate) fn place_word<E: Endpoint>(endpoint: &E, node: u8) -> u64 {
    endpoint.place(node).map_or(0, |place| word_of_place(&place))
}

fn word_of_place(place: &str) -> u64 {
    rapidhash::v3::rapidhash_v3(place.as_bytes()).max(1)
}

/// Whether this endpoint's process names the place where the region of a node is made. If so, it
/// has noted that place.
pub(crate) async fn is_at_its_place<E: Endpoint>(endpoint: &E, pool: &Pool, node: u8) -> Result<bool, VerbError> {
    let noted = read_word(endpoint, pool.layout.place(node)).await?;
    Ok(noted == place_word(endpoint, node) || endpoint.find_place(node, &|place| word_of_place(place) == noted))
}

/// Notes this endpoint's place of a node.
pub(crate) async fn write_place<E: Endpoint>(endpoint: &E, pool: &Pool, node: u8) -> Result<(), VerbError> {
    let mut batch = Batch::new();
    batch.write_word(pool.layout.place(node), place_word(endpoint, node));
    endpoint.post(&mut batch).await
}

/// WRITEs a further node's header, its magic last, and where the node was made.
pub(crate) async fn write_header<E: Endpoint>(
    endpoint: &E,
    pool: &Pool,
    node: u8,
    chunks: u32,
    identity: u32,
) -> Result<(), VerbError> {
    let words = member_words(pool, node, chunks, identity);
    let mut buffer = Buffer::sized(8 * (WORDS - 1));
    buffer.words_mut().copy_from_slice(&words[1..]);
    let mut batch = Batch::new();
    batch.write(Address::new(node, 0, 8), buffer);
    batch.write_word(Address::new(node, 0, 0), words[0]);
    batch.write_word(pool.layout.place(node), place_word(endpoint, node));
    endpoint.post(&mut batch).await
}

/// Prepares the nodes that a pool is formatted with, all but the home.
pub(crate) async fn write_first<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<(), PoolError> {
    let chunks = layout::member_chunks(&pool.settings, pool.layout.engine_area);
    for node in 1..pool.settings.nodes as u8 {
        let identity = (endpoint.random() & IDENTITY_MASK) as u32;
        endpoint.reach(node).await?;
        write_header(endpoint, pool, node, chunks, identity).await?;
        let mut batch = Batch::new();
        batch.write_word(pool.layout.node(node), NodeState::Ready { identity, chunks }.word());
        endpoint.post(&mut batch).await?;
        pool.layout.nodes.add(node, chunks);
    }
    Ok(())
}

/// Looks for nodes that this process does not know, reaches their regions and checks them. Returns
/// whether it found any.
pub async fn learn<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<bool, PoolError> {
    let layout = &pool.layout;
    let mut learned = false;
    loop {
        let node = layout.nodes_known();
        let is_first = u32::from(node) < pool.settings.nodes;
        if !is_first && !layout.may_grow() {
            return Ok(learned);
        }
        let state = NodeState::from_word(read_word(endpoint, layout.node(node)).await?);
        let (identity, chunks) = match state {
            Some(NodeState::Ready { identity, chunks }) => (Some(identity), chunks),
            Some(NodeState::Absent { chunks, .. }) => (None, chunks),
            _ if is_first => return Err(PoolError::Damaged { what: "the table of memory nodes" }),
            _ => return Ok(learned),
        };
        // Not of all chunks that are known: others may have learned of this node meanwhile.
        if chunks == 0 || chunks > layout.chunks_max - layout.nodes.end(node - 1) {
            return Err(PoolError::Damaged { what: "a memory node with an impossible number of chunks" });
        }
        if let Some(identity) = identity
            && let Err(error) = reach_and_check(endpoint, pool, (node, chunks, identity)).await
        {
            if !loss::declare(endpoint, pool, (node, chunks, identity), u32::MAX).await? {
                return Err(error);
            }
            continue;
        }
        if !is_first {
            // The node was added with all its memory.
            endpoint.note_provided(node, u64::MAX);
        }
        layout.nodes.add(node, chunks);
        learned = true;
    }
}

/// The states of all nodes that the pool may have, from node 1 on.
/// A damaged word says that there is no such node.
pub(crate) async fn table<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<Vec<NodeState>, VerbError> {
    let further = pool.settings.nodes_max.saturating_sub(1) as usize;
    if further == 0 {
        return Ok(Vec::new());
    }
    let words = endpoint.read(pool.layout.node(1), Buffer::sized(8 * further)).await?;
    Ok(words.words().iter().map(|word| NodeState::from_word(*word).unwrap_or(NodeState::Free)).collect())
}

/// Whether there is a node that this process does not know.
pub(crate) async fn has_more<E: Endpoint>(endpoint: &E, layout: &Layout) -> Result<bool, VerbError> {
    Ok(layout.may_grow() && read_word(endpoint, layout.node(layout.nodes_known())).await? >> 62 >= 2)
}

/// Makes sure that the endpoint reaches a node's region, and that this is the one of the table.
pub(crate) async fn reach_and_check<E: Endpoint>(
    endpoint: &E,
    pool: &Pool,
    (node, chunks, identity): (u8, u32, u32),
) -> Result<(), PoolError> {
    endpoint.reach(node).await?;
    check(endpoint, pool, node, chunks, identity).await?;
    pool.layout.nodes.note_identity(node, identity);
    Ok(())
}

/// Checks that a region is the node's by the table.
async fn check<E: Endpoint>(endpoint: &E, pool: &Pool, node: u8, chunks: u32, identity: u32) -> Result<(), PoolError> {
    let found = match endpoint.read(Address::new(node, 0, 0), Buffer::sized(8 * WORDS)).await {
        Err(VerbError::Unreachable(_)) => {
            return Err(PoolError::Member { node, what: NOT_THERE.to_owned() });
        }
        outcome => outcome?,
    };
    if let Some(what) = compare(found.words(), &member_words(pool, node, chunks, identity)) {
        return Err(PoolError::Member { node, what });
    }
    // Read from the attributes, not by a verb: the last chunk's memory may have been returned to
    // the host.
    match endpoint.region_bytes(node) {
        Some(bytes) if bytes >= pool.layout.member_end(node, chunks) => Ok(()),
        _ => Err(PoolError::Member { node, what: "is too small".to_owned() }),
    }
}

/// A node that a client is about to add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its number.
    pub node: u8,
    /// Its chunks.
    pub chunks: u32,
    /// Bytes that its region must have.
    pub bytes: u64,
    owner: Incarnation,
}

/// Claims the next node for `me`, with at most this many bytes. A client that died while it added
/// the node was shut out before.
///
/// # Errors
/// [`PoolError::Growth`] if the pool was not made for that much more, has all its nodes, or another
/// client is adding one.
pub async fn claim<E: Endpoint>(endpoint: &E, pool: &Pool, me: Incarnation, bytes: u64) -> Result<Claim, PoolError> {
    let refused = |why: String| PoolError::Growth { wanted_bytes: bytes, why };
    if !provision::provide_all(endpoint, &pool.layout).await? {
        return Err(refused("the host has no memory left for what the pool has already; free some".to_owned()));
    }
    loop {
        learn(endpoint, pool).await?;
        let (layout, settings) = (&pool.layout, &pool.settings);
        let node = layout.nodes_known();
        if u32::from(node) >= settings.nodes_max {
            return Err(refused(format!(
                "it has its {} memory nodes; create it anew with more capacity (--capacity-max, --nodes-max)",
                settings.nodes_max
            )));
        }
        let chunks = bytes.saturating_sub(layout.member_end(node, 0)) / layout.chunk_bytes;
        let room = layout.chunks_max - layout.chunks();
        if chunks == 0 && room > 0 {
            return Err(refused(format!("choose at least {}", layout.member_end(node, 1))));
        }
        let Some(chunks) = u32::try_from(chunks).ok().filter(|chunks| (1..=room).contains(chunks)) else {
            let room_bytes = u64::from(room) * layout.chunk_bytes;
            return Err(refused(format!(
                "it was made for at most {room_bytes} more; add that, or create it anew with more (--capacity-max)"
            )));
        };
        let word = read_word(endpoint, layout.node(node)).await?;
        match NodeState::from_word(word) {
            Some(NodeState::Free) => {}
            Some(NodeState::Ready { .. } | NodeState::Absent { .. }) => continue,
            Some(NodeState::Claimed { slot, epoch }) => {
                let roll = Roll::of(&registry::places(endpoint, pool).await?);
                if roll.has(slot, epoch) {
                    return Err(refused(
                        "another client is adding a memory node; try again when it is there".to_owned(),
                    ));
                }
            }
            None => return Err(PoolError::Damaged { what: "the table of memory nodes" }),
        }
        if words::swap(endpoint, layout.node(node), word, NodeState::claimed(me).word()).await? {
            return Ok(Claim { node, chunks, bytes: layout.member_end(node, chunks), owner: me });
        }
    }
}

impl Claim {
    fn word(&self) -> u64 {
        NodeState::claimed(self.owner).word()
    }

    /// Writes the header of the region, which the endpoint reaches; returns its identity. The
    /// region is all zero, or left by a client that was shut out. Where regions outlive the host's
    /// boot, the region is written to the disk before the node is published.
    pub async fn prepare<E: Endpoint>(&self, endpoint: &E, pool: &Pool) -> Result<u32, PoolError> {
        let identity = (endpoint.random() & IDENTITY_MASK) as u32;
        endpoint.reach(self.node).await?;
        write_header(endpoint, pool, self.node, self.chunks, identity).await?;
        Ok(identity)
    }

    /// Publishes the node's chunks.
    pub async fn publish<E: Endpoint>(&self, endpoint: &E, pool: &Pool, identity: u32) -> Result<(), PoolError> {
        assert!(self.chunks > 0 && self.node > 0, "a further node has chunks");
        let ready = NodeState::Ready { identity, chunks: self.chunks };
        if !words::swap(endpoint, pool.layout.node(self.node), self.word(), ready.word()).await? {
            // Another client has taken the claim over: this one was shut out.
            return Err(PoolError::Verb(VerbError::Fenced));
        }
        let mut batch = Batch::new();
        batch.fetch_and_add(pool.layout.free_chunks(), self.chunks.into());
        endpoint.post(&mut batch).await?;
        learn(endpoint, pool).await?;
        Ok(())
    }

    /// Frees the claim: the region could not be created, and does not exist.
    pub async fn release<E: Endpoint>(&self, endpoint: &E, pool: &Pool) -> Result<(), VerbError> {
        words::swap(endpoint, pool.layout.node(self.node), self.word(), NodeState::Free.word()).await.map(drop)
    }
}

/// Frees claims, for a pool without clients that is formatted anew.
pub(crate) async fn forget_claims<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<(), VerbError> {
    for node in pool.layout.nodes_known()..pool.settings.nodes_max as u8 {
        let word = read_word(endpoint, pool.layout.node(node)).await?;
        if word != 0 {
            words::swap(endpoint, pool.layout.node(node), word, NodeState::Free.word()).await?;
        }
    }
    Ok(())
}

const _: () = assert!(MEMBER_HEADER_BYTES >= 8 * WORDS as u64 && NODES.is_multiple_of(64));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_word_says_what_was_put_in() {
        let owner = Incarnation { slot: 0xfff, epoch: 0xdead_beef };
        let ready = NodeState::Ready { identity: (1 << 30) - 1, chunks: u32::MAX };
        let absent = |phase| NodeState::Absent { phase, identity: ABSENT_IDENTITY_MASK, chunks: u32::MAX };
        let absent = [Phase::Lost, Phase::Cleared, Phase::Returning].map(absent);
        for state in [NodeState::Free, NodeState::claimed(owner), ready].into_iter().chain(absent) {
            assert_eq!(NodeState::from_word(state.word()), Some(state));
        }
        assert_eq!((NodeState::from_word(u64::MAX), NodeState::from_word(1)), (None, None));
    }
}
