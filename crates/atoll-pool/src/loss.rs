//! A memory node whose region is gone, and which comes back empty.
//!
//! A memory node other than the home may end, and its bytes with it. Its word in the table of nodes
//! (see [`nodes`]) then says that it is absent, and how far the pool has come:
//!
//! | from | to | by | when |
//! |---|---|---|---|
//! | ready | lost | any client | the fabric proves that the region is gone ([`Endpoint::region_state`]), or the user says so ([`Pool::give_up`]) |
//! | ready | lost | a client that joins | the node is [silent](Endpoint::silent), and no other client uses it |
//! | lost | cleared | a client that joins | no client is left that may use the region; dead ones are repaired; the node's chunks are free, and no word points into them |
//! | cleared | returning, a new identity | any client | the node's agent is there again, with no old region; this one is its place now |
//! | returning | ready | a client that joins | no client is left that uses the pool without the node; the new region is all zero and has its header |
//! | returning | cleared | a client that joins | the node's agent is away again |
//!
//! Every step is one compare-and-swap from the word that was seen. So several clients may take the
//! steps at once, and any of them may die.
//!
//! **A client has one view of a node as long as it lives.** It announces its view when it joins, in
//! its account, and ends when the table says something else:
//!
//! | the table says when it joins | the client | it ends when the table says |
//! |---|---|---|
//! | ready, or no such node | may use the node | absent |
//! | lost, cleared | uses the pool without the node, once that is cleared | returning |
//! | returning | waits until the node is ready or cleared | |
//!
//! A client that uses a node which is silent ends, too, and uses it no more when it joins again. If
//! other clients go on using the node, it is there, and this client cannot join. If none does, the
//! node is lost although its region may be there. From then on no client uses that region. Once its
//! agent answers again, a client removes it.
//!
//! A client without a node sees zeros there, which is what the new region will hold (see
//! [`gate`](crate::gate)). So a key whose bucket was on the node is absent, and a lookup of it
//! misses. It cannot be stored before the node is back.
//!
//! | danger | why it does not happen |
//! |---|---|
//! | a client reads old bytes of the node after another client's miss | the region is gone, and its agent refuses verbs on it; or it was silent, and every client that used it has ended |
//! | an ended client goes on using a silent node | the fabric keeps it from that: see [`Endpoint::forsake`] |
//! | a slot that pointed into the old region is followed into the new one | all such slots are empty before "cleared", and only clients that may use the old region write such words |
//! | a client that has not noticed writes such a word later | "cleared" waits until it has ended or was shut out |
//! | a client misses a key that another client has stored on the new region | "ready" waits until every client without the node has ended or was shut out; a client that was shut out sees no zeros any more (see [`gate`](crate::gate)) |
//! | a chunk of the node has two owners | its descriptor is on the home, and changes by the same swaps as ever |
//!
//! A client that joins waits for at most ten seconds, then gets an error. A client that stands
//! still and cannot be shut out keeps the node from being cleared for that time.

use crate::chunks::{self, Chunk, ChunkState, Descriptor};
use crate::in_flight::ROUNDS_PROVING;
use crate::nodes::{self, NodeState, Phase};
use crate::registry::{self, NodeUsers, PlaceState};
use crate::repair::{self, Estate};
use crate::words::{read_word, swap};
use crate::{ChunkId, Client, Pool, PoolError, sharers};
use atoll_fabric::{Address, BATCH_VERBS_MAX, Batch, Endpoint, RegionState, VerbError};

/// What a simulation can leave out, to show the harm.
#[cfg(feature = "holes")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hole {
    /// A node is cleared although slots still point into it.
    KeptSlots,
    /// A node is ready although a client still uses the pool without it.
    HastyReturn,
}

#[cfg(feature = "holes")]
impl Pool {
    /// Opens a hole for all clients of this process.
    pub fn open_hole(&self, hole: Hole) {
        self.layout.nodes.hole.store(hole as u32 + 1, std::sync::atomic::Ordering::Relaxed);
    }

    fn is_hasty(&self, phase: Phase) -> bool {
        let hole = if phase == Phase::Lost { Hole::KeptSlots } else { Hole::HastyReturn };
        self.layout.nodes.hole.load(std::sync::atomic::Ordering::Relaxed) == hole as u32 + 1
    }
}

#[cfg(not(feature = "holes"))]
impl Pool {
    fn is_hasty(&self, _: Phase) -> bool {
        false
    }
}

/// How long a client that joins waits for other clients.
const PATIENCE_NS: u64 = 10_000_000_000;
/// Descriptors of an absent node that are READ at once.
const DESCRIPTORS_AT_ONCE: u32 = 512;
/// Of so many looks at the table, one asks whether an absent node's agent is there again.
const LOOKS_PER_QUESTION: u64 = 4;

/// What is proven of the region of a node with this identity. A process that has not used that
/// region proves nothing unless it names the place where it was made: its user may have named
/// another agent, or the node has moved.
async fn region_state<E: Endpoint>(
    endpoint: &E,
    pool: &Pool,
    (node, identity): (u8, u32),
) -> Result<RegionState, VerbError> {
    let has_used = pool.layout.nodes.has_identity(node, identity);
    // The place first: it is the region there that is asked for.
    match has_used || nodes::is_at_its_place(endpoint, pool, node).await? {
        true => Ok(endpoint.region_state(node).await),
        false => Ok(RegionState::Unknown),
    }
}

/// Makes a node that is ready lost, if its region is proven to be gone, or it is silent and no
/// client but the one with the place `me` uses it. Returns whether it is. A client that has ended,
/// and is not proven to be dead because the node is silent, does not count.
pub(crate) async fn declare<E: Endpoint>(
    endpoint: &E,
    pool: &Pool,
    (node, chunks, identity): (u8, u32, u32),
    me: u32,
) -> Result<bool, VerbError> {
    match region_state(endpoint, pool, (node, identity)).await? {
        RegionState::Gone | RegionState::Away => {}
        RegionState::Silent if !registry::is_node_used(endpoint, pool, node, me).await? => {}
        RegionState::Silent | RegionState::Unknown => return Ok(false),
    }
    // From the next step on, clients miss the keys of the node. No client that used it goes on
    // then, but another one of its process may find the copies. What the node held cannot be READ
    // any more, so that no copy is made later.
    sharers::end_everything(endpoint, pool).await?;
    let ready = NodeState::Ready { identity, chunks };
    let lost = NodeState::Absent { phase: Phase::Lost, identity, chunks };
    // Another client may have been faster.
    swap(endpoint, pool.layout.node(node), ready.word(), lost.word()).await?;
    Ok(true)
}

/// Makes a node lost that the user says is gone, and may be made anew anywhere.
pub(crate) async fn give_up<E: Endpoint>(endpoint: &E, pool: &Pool, node: u8, force: bool) -> Result<(), PoolError> {
    let present = |why| PoolError::Present { node, why };
    if node == 0 || u32::from(node) >= pool.settings.nodes_max {
        return Err(present("the pool has no such node beside its home"));
    }
    if endpoint.place(node).is_none() {
        return Err(present("this fabric makes no node anew; put its region back"));
    }
    // Dead clients are shut out here: without the node no client can join, which would do it.
    for place in registry::places(endpoint, pool).await? {
        registry::fence_dead(endpoint, pool, &place).await?;
    }
    if !force && registry::node_users(endpoint, pool, u32::MAX).await?.used >> node & 1 == 1 {
        return Err(present("clients use it: name the addresses as they do, or end them, or --force"));
    }
    let at = pool.layout.node(node);
    loop {
        let word = read_word(endpoint, at).await?;
        match NodeState::from_word(word) {
            Some(NodeState::Ready { identity, chunks }) => {
                if nodes::reach_and_check(endpoint, pool, (node, chunks, identity)).await.is_ok() {
                    return Err(present("it is there"));
                }
                sharers::end_everything(endpoint, pool).await?;
                // From now on it is made there, and what the old place proves counts no more.
                nodes::write_place(endpoint, pool, node).await?;
                let lost = NodeState::Absent { phase: Phase::Lost, identity, chunks };
                if !swap(endpoint, at, word, lost.word()).await? {
                    continue;
                }
            }
            Some(NodeState::Absent { .. }) => nodes::write_place(endpoint, pool, node).await?,
            _ => return Err(present("the pool has no such node")),
        }
        return Ok(());
    }
}

/// The nodes that are absent by the table, a bit each, and those of them that are returning.
fn absent_of(table: &[NodeState]) -> (u64, u64) {
    let (mut absent, mut returning) = (0, 0);
    for (node, state) in (1..).zip(table) {
        if let NodeState::Absent { phase, .. } = state {
            absent |= 1_u64 << node;
            returning |= u64::from(*phase == Phase::Returning) << node;
        }
    }
    (absent, returning)
}

/// The memory nodes whose regions are gone, as the table has it. From then on this process knows
/// their agents, if its address names them.
pub async fn absent<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<Vec<u8>, VerbError> {
    let absent = absent_of(&nodes::table(endpoint, pool).await?).0;
    let absent: Vec<u8> = (0..=pool.layout.nodes_known()).filter(|node| absent >> node & 1 == 1).collect();
    for node in &absent {
        nodes::is_at_its_place(endpoint, pool, *node).await?;
    }
    Ok(absent)
}

impl<E: Endpoint> Client<E> {
    /// Whether the region of an address is gone, so that this client sees zeros there.
    #[inline(always)]
    pub fn is_absent(&self, at: Address) -> bool {
        self.endpoint.is_absent(at)
    }

    /// Whether a chunk is on a memory node whose region is gone.
    #[inline]
    pub fn is_chunk_absent(&self, chunk: ChunkId) -> bool {
        self.endpoint.absent() != 0 && self.endpoint.absent() >> self.pool.layout.node_of(chunk) & 1 == 1
    }

    /// Learns which nodes are absent, for a client that only looks at the pool.
    pub async fn learn_absent(&self) -> Result<(), VerbError> {
        if !self.is_member() {
            self.endpoint.set_absent(absent_of(&nodes::table(&self.endpoint, &self.pool).await?).0);
        }
        Ok(())
    }

    /// Takes its view of the memory nodes from the table and announces it. The client has read
    /// nothing of them yet, and relies on nothing that it has read.
    pub(crate) async fn adopt_nodes(&self) -> Result<Vec<NodeState>, PoolError> {
        if self.pool.settings.nodes_max == 1 {
            return Ok(Vec::new());
        }
        let (layout, slot) = (&self.pool.layout, self.me().slot);
        let mut table = nodes::table(&self.endpoint, &self.pool).await?;
        loop {
            let (absent, returning) = absent_of(&table);
            let silent = self.endpoint.silent();
            let mut batch = Batch::new();
            batch.write_word(layout.used_nodes(slot), !(absent | silent));
            batch.write_word(layout.absent_nodes(slot), absent & !returning);
            self.endpoint.post(&mut batch).await?;
            self.endpoint.set_absent(absent);
            // A node that became absent before the announcement was announced too late.
            let again = nodes::table(&self.endpoint, &self.pool).await?;
            let is_gone = again == table && self.declare_lost(&table, silent).await?;
            match again == table && !is_gone {
                true => return Ok(table),
                false if is_gone => table = nodes::table(&self.endpoint, &self.pool).await?,
                false => table = again,
            }
        }
    }

    /// Checks that this endpoint reaches the regions of all nodes that are ready. Returns whether
    /// one of them is gone, which the table says then. The client has not announced that it uses
    /// the `silent` nodes.
    async fn declare_lost(&self, table: &[NodeState], silent: u64) -> Result<bool, PoolError> {
        let mut is_gone = false;
        for (node, state) in (1..self.pool.layout.nodes_known()).zip(table) {
            let NodeState::Ready { identity, chunks } = *state else { continue };
            let ready = (node, chunks, identity);
            let is_silent = silent >> node & 1 == 1;
            let reached = nodes::reach_and_check(&*self.endpoint, &self.pool, ready).await;
            let error = match reached {
                Ok(()) if is_silent => VerbError::node_absent(node, HEARD).into(),
                Ok(()) => continue,
                Err(error) => error,
            };
            let (me, still_ns) = (self.me().slot, self.times().suspect_ns);
            if is_silent && registry::is_node_used(&*self.endpoint, &self.pool, node, me).await? {
                // A client that stands still never finds the node silent.
                registry::fence_still(&*self.endpoint, &self.pool, still_ns, me).await?;
            }
            if declare(&*self.endpoint, &self.pool, ready, me).await? {
                is_gone = true;
                continue;
            }
            if is_silent {
                return Err(error);
            }
            let is_reached = self.endpoint.region_bytes(node).is_some();
            match error {
                // Perhaps the way to it is cut. Other nodes can be used. But what is reached must
                // be the node's: it may have moved.
                PoolError::Member { what, .. } if is_reached && what == nodes::NOT_THERE => {}
                PoolError::Verb(VerbError::NodeAbsent(_)) if is_reached => {}
                error => return Err(error),
            }
        }
        Ok(is_gone)
    }

    /// Checks that the table, which it returns, agrees with this client's view of the nodes, and
    /// that none which it uses is silent. Otherwise the client is lost.
    pub(crate) async fn check_nodes(&self) -> Result<Vec<NodeState>, PoolError> {
        if self.pool.settings.nodes_max == 1 {
            return Ok(Vec::new());
        }
        let table = nodes::table(&self.endpoint, &self.pool).await?;
        let (absent, returning) = absent_of(&table);
        if absent != self.endpoint.absent() || returning != 0 || self.endpoint.silent() & !absent != 0 {
            self.endpoint.note(&VerbError::Fenced);
            return Err(VerbError::Fenced.into());
        }
        if absent != 0 && self.endpoint.random().is_multiple_of(LOOKS_PER_QUESTION) {
            self.call_back(&table).await?;
        }
        Ok(table)
    }

    /// Makes cleared nodes returning whose agents are there again.
    async fn call_back(&self, table: &[NodeState]) -> Result<(), PoolError> {
        for (node, state) in (1..).zip(table) {
            let NodeState::Absent { phase: Phase::Cleared, chunks, identity } = *state else { continue };
            let mut state_of_region = region_state(&*self.endpoint, &self.pool, (node, identity)).await?;
            if state_of_region == RegionState::Unknown && self.remove_forsaken(node, identity).await? {
                state_of_region = region_state(&*self.endpoint, &self.pool, (node, identity)).await?;
            }
            if state_of_region == RegionState::Gone {
                // Where it returns to.
                nodes::write_place(&*self.endpoint, &self.pool, node).await?;
                let identity = self.endpoint.random() as u32 & nodes::ABSENT_IDENTITY_MASK;
                let returning = NodeState::Absent { phase: Phase::Returning, identity, chunks };
                swap(&self.endpoint, self.pool.layout.node(node), state.word(), returning.word()).await?;
            }
        }
        Ok(())
    }

    /// Removes the region of a cleared node that was forsaken and answers again. Returns whether
    /// there was one. Only clients that have ended may still think that they use it. A process that
    /// names another place leaves it alone.
    async fn remove_forsaken(&self, node: u8, identity: u32) -> Result<bool, VerbError> {
        let is_forsaken = |words: &[u64]| nodes::is_region_of(&self.pool, (node, identity), words);
        Ok(nodes::is_at_its_place(&*self.endpoint, &self.pool, node).await?
            && self.endpoint.remove_forsaken(node, &is_forsaken).await)
    }

    /// Frees all chunks of a node that is lost. `false` if living clients still own some.
    async fn free_chunks_of(&self, node: u8) -> Result<bool, VerbError> {
        let (layout, mut are_free) = (&self.pool.layout, true);
        let of_node = layout.chunks_of(node).unwrap_or_default();
        for first in of_node.clone().step_by(DESCRIPTORS_AT_ONCE as usize) {
            let count = DESCRIPTORS_AT_ONCE.min(of_node.end - first);
            let descriptors = chunks::descriptors(&self.endpoint, layout, ChunkId(first), count).await?;
            let chunks: Vec<_> = (first..).map(ChunkId).zip(descriptors).collect();
            for some in chunks.chunks(BATCH_VERBS_MAX) {
                are_free &= self.free_lost(some).await?;
            }
        }
        Ok(are_free)
    }

    /// Frees these chunks of a node that is lost: as many as a batch has verbs, at most. `false` if
    /// living clients still own some.
    async fn free_lost(&self, found: &[(ChunkId, Descriptor)]) -> Result<bool, VerbError> {
        let (endpoint, layout) = (&self.endpoint, &self.pool.layout);
        let (mut are_free, mut bound, mut queued) = (true, Vec::new(), Vec::new());
        for (number, descriptor) in found {
            let Some(chunk) = descriptor.chunk else { continue };
            match chunk.state {
                ChunkState::Free | ChunkState::Retired | ChunkState::Discarded => {}
                ChunkState::Bound => bound.push((*number, chunk)),
                ChunkState::Queued => {
                    queued.push((*number, chunk, Chunk::owned(ChunkState::Leaving, self.me(), chunk.generation)));
                }
                ChunkState::Open
                | ChunkState::Leaving
                | ChunkState::Extent
                | ChunkState::Discarding
                | ChunkState::Index => are_free = false,
            }
        }
        let own = chunks::transition_together(endpoint, layout, &queued).await?;
        are_free &= own.iter().all(|is_own| *is_own);
        let leaving = queued.into_iter().zip(own).filter(|(_, is_own)| *is_own);
        bound.extend(leaving.map(|((number, _, leaving), _)| (number, leaving)));
        are_free &= chunks::free_together(endpoint, layout, &bound).await?.into_iter().all(|is_freed| is_freed);
        if are_free {
            // Their next lives begin without dead bytes.
            let mut batch = Batch::new();
            for (number, descriptor) in found.iter().filter(|(_, descriptor)| descriptor.dead_bytes != 0) {
                batch.compare_and_swap(layout.dead_bytes(*number), descriptor.dead_bytes, 0);
            }
            if !batch.is_empty() {
                endpoint.post(&mut batch).await?;
            }
        }
        Ok(are_free)
    }
}

/// The first node that keeps a client from using the pool. Nodes that return come first: while a
/// client waits for them, it reads nothing that could be on one of them.
fn undecided(table: &[NodeState]) -> Option<(u8, NodeState)> {
    let is = |wanted| {
        let is_wanted = move |state: &NodeState| matches!(state, NodeState::Absent { phase, .. } if *phase == wanted);
        (1..).zip(table.iter().copied()).find(|(_, state)| is_wanted(state))
    };
    is(Phase::Returning).or_else(|| is(Phase::Lost))
}

/// Whether all memory nodes that are at the same place as this one are absent.
fn is_agent_lost<E: Endpoint>(client: &Client<E>, table: &[NodeState], node: u8) -> bool {
    let place = client.endpoint.place(node);
    let mut there = (1..).zip(table).filter(|(_, state)| matches!(state, NodeState::Ready { .. }));
    place.is_some() && !there.any(|(other, _)| client.endpoint.place(other) == place)
}

/// Brings a pool to use again, of which a node was lost or returns. The client joins, and has not
/// used the pool yet.
pub(crate) async fn recover<S: Estate>(estate: &S) -> Result<(), S::Error> {
    let client = estate.client();
    if client.pool.settings.nodes_max == 1 {
        return Ok(());
    }
    let (begun_ns, mut has_read) = (client.endpoint.now_ns(), false);
    loop {
        let client = estate.client();
        client.check_membership().await?;
        // Once it has read what its view shows, it keeps its view.
        let table = if has_read { client.check_nodes().await? } else { client.adopt_nodes().await? };
        let Some((node, state)) = undecided(&table) else { return Ok(()) };
        has_read |= matches!(state, NodeState::Absent { phase: Phase::Lost, .. });
        if matches!(state, NodeState::Absent { phase: Phase::Lost, .. })
            && nodes::is_at_its_place(&*client.endpoint, &client.pool, node).await?
            && is_agent_lost(client, &table, node)
        {
            // Ended clients count as dead although the silent node does not say that they have
            // ended.
            client.endpoint.forsake(node).await?;
        }
        if let Step::Waits(why) = Box::pin(take_step(estate, node, state)).await? {
            let client = estate.client();
            if client.endpoint.now_ns().wrapping_sub(begun_ns) > PATIENCE_NS {
                return Err(VerbError::node_absent(node, why).into());
            }
            // It relies on nothing that it has read so far.
            client.member().renew(&client.endpoint, ROUNDS_PROVING);
            client.endpoint.pause(client.times().look_ns.max(1)).await;
        }
    }
}

/// How far a step with a node has come.
enum Step {
    /// It is taken, by this client or another one.
    Taken,
    /// Something is in the way, in words for the user.
    Waits(&'static str),
}

const HEARD: &str = "it was silent, and answers again: try again";
const IN_USE: &str = "its region is gone, and a client that stands still may still use it";
const WITHOUT_IT: &str = "it comes back, and a client that stands still may still use the pool without it";
const HELD: &str = "its region is gone, and what dead clients held is not reclaimed yet";
const OWNED: &str = "its region is gone, and a client that stands still may still own parts of it";
const NAMED: &str = "its region is gone, and not all that was there is forgotten yet";
const ELSEWHERE: &str = "it comes back at another address than this process names";

/// Takes the next step with a node, if nothing is in the way.
async fn take_step<S: Estate>(estate: &S, node: u8, state: NodeState) -> Result<Step, S::Error> {
    let NodeState::Absent { phase, identity, chunks } = state else { return Ok(Step::Taken) };
    let client = estate.client();
    let NodeUsers { used, absent } = registry::node_users(&client.endpoint, &client.pool, client.me().slot).await?;
    let waited_for = if phase == Phase::Lost { used } else { absent };
    if waited_for >> node & 1 == 1 && (phase == Phase::Lost || !client.pool.is_hasty(phase)) {
        // Clients that are alive end by themselves. What dead ones held is not read yet.
        Box::pin(repair::fence(estate, true, &mut 0)).await?;
        return Ok(Step::Waits(if phase == Phase::Lost { IN_USE } else { WITHOUT_IT }));
    }
    let next = match phase {
        Phase::Lost => match Box::pin(clear(estate, node)).await? {
            Step::Taken => NodeState::Absent { phase: Phase::Cleared, identity, chunks },
            waits => return Ok(waits),
        },
        // A process that names another agent leaves it to one that names the right one.
        Phase::Returning if !nodes::is_at_its_place(&*client.endpoint, &client.pool, node).await? => {
            return Ok(Step::Waits(ELSEWHERE));
        }
        Phase::Returning => match remake(estate.client(), node, identity, chunks).await? {
            true => NodeState::Ready { identity, chunks },
            false => NodeState::Absent { phase: Phase::Cleared, identity, chunks },
        },
        Phase::Cleared => return Ok(Step::Taken),
    };
    let client = estate.client();
    // Another client may have been faster.
    swap(&client.endpoint, client.pool.layout.node(node), state.word(), next.word()).await?;
    Ok(Step::Taken)
}

/// Makes sure that no word points into a node that is lost. No client is left that may use it.
async fn clear<S: Estate>(estate: &S, node: u8) -> Result<Step, S::Error> {
    Box::pin(repair::repair(estate)).await?;
    // Chunks that this client took over and that were protected when it emptied them.
    estate.end_look().await?;
    let client = estate.client();
    let places = registry::places(&client.endpoint, &client.pool).await?;
    let is_settled = places.iter().all(|place| place.state != PlaceState::Fenced) && !estate.has_unsettled();
    // First the chunks, so that no repairer names anything in them again.
    if !is_settled {
        return Ok(Step::Waits(HELD));
    }
    if !client.free_chunks_of(node).await? {
        return Ok(Step::Waits(OWNED));
    }
    if !client.pool.is_hasty(Phase::Lost) && !estate.forget_absent().await? {
        return Ok(Step::Waits(NAMED));
    }
    // What was counted there is not known: everything is recounted.
    let client = estate.client();
    registry::count_death(&client.endpoint, client.pool.layout.deaths()).await?;
    client.endpoint.flush().await?;
    Ok(Step::Taken)
}

/// Makes a node's region anew and writes its header; `false` if its agent is away again.
///
/// # Errors
/// [`VerbError::NodeAbsent`] if this endpoint cannot reach the new region, and a later one can.
async fn remake<E: Endpoint>(client: &Client<E>, node: u8, identity: u32, chunks: u32) -> Result<bool, VerbError> {
    // The client's own view is that of a client without the node.
    let (endpoint, pool) = (&*client.endpoint, &client.pool);
    if let Err(error) = endpoint.remake(node, pool.layout.member_end(node, chunks)).await {
        return match endpoint.region_state(node).await {
            RegionState::Away => Ok(false),
            _ => Err(error),
        };
    }
    if !nodes::is_unused(endpoint, pool, (node, chunks)).await? {
        let why = "its agent has an old region of it: start `atoll node` there again";
        return Err(VerbError::node_absent(node, why));
    }
    nodes::write_header(endpoint, pool, node, chunks, identity).await?;
    Ok(true)
}
