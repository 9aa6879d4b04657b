//! S3-FIFO: new objects enter a small queue. Objects that are requested again there pass to the
//! main queue. Keys that left the small queue are remembered for a while.
//!
//! With FORGE's additions (section 6.1): the small queue has 10 % of the objects, and frequencies
//! end at 3. The queues are rings without locks, and clients publish accesses in batches. A key
//! that comes back while it is remembered enters the main queue. A remembered key is a history
//! entry in a free slot, as in Ditto. It lasts for as many evictions as the main queue has objects.
//!
//! ```text
//! a node    word 0   mark of the key's hash 16 << 32
//!                    | base 32: the slot's counter of accesses less the object's frequency   data
//!           word 1   main queue 1 << 63 | ticket + 1; 0: never queued                        data
//! ```
//!
//! The client that puts a slot into a queue WRITEs its node, in front of the swap. That client is
//! the inserter of an object, or the evictor that took it from a queue's head. If two clients do so
//! at a time, they put two successive objects of the slot. Then the node is right for one of them.
//! An entry of a queue counts if the node has its ticket. So an object that was deleted while
//! queued costs one look.
//!
//! | taken from | the object | then |
//! |---|---|---|
//! | either | of another ticket, or removed | the next |
//! | small | requested twice or more | put into the main queue, frequency 0 |
//! | small | otherwise | evicted; its key is remembered |
//! | main | requested | put into the main queue again, frequency (at most 3) one less |
//! | main | otherwise | evicted |

use super::area::RingsArea;
use super::ring::Ring;
use arrayvec::ArrayVec;
use atoll_cache::CacheError;
use atoll_cache::ditto::counters::Counters;
use atoll_cache::table::Core;
use atoll_cache::table::layout::BUCKET_SLOTS;
use atoll_cache::table::replacement::{Candidate, Inserted, Victim};
use atoll_cache::table::slot::{HISTORY_IDS, KeyHash, Slot};
use atoll_fabric::{BATCH_VERBS_MAX, Batch, Buffer, Endpoint};

/// The most accesses that count (FORGE, section 6.1).
const FREQUENCY_MAX: u32 = 3;
/// Accesses with which an object passes from the small queue to the main one.
const FREQUENCY_TO_PASS: u32 = 2;
/// One of so many objects is in the small queue.
const SMALL_SHARE: u64 = 10;
/// Accesses that a client far from the pool adds up before it publishes them: as many as matter. It
/// publishes the rest in every round.
const PUBLISHED_TOGETHER: u32 = FREQUENCY_TO_PASS;
/// Objects whose accesses a client adds up.
const COUNTERS: usize = 4_096;
/// The longest time before it publishes them, in microseconds.
const AGE_US_MAX: u64 = 1_000_000;
/// Entries of queues that a client looks at for one victim.
const STEPS_MAX: u32 = 64;
/// Entries that are taken before the counters are looked at again.
const LOOK_EVERY: u32 = 16;
/// Tickets for one object.
const TICKETS_MAX: u32 = 4;
const MAIN: u64 = 1 << 63;

/// A node, as it was READ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Node {
    mark: u16,
    base: u32,
    /// Word 1.
    queued: u64,
}

impl Node {
    fn of(words: &[u64]) -> Self {
        match words {
            [word, queued, ..] => Self { mark: (word >> 32) as u16, base: *word as u32, queued: *queued },
            _ => Self::default(),
        }
    }

    fn words(self) -> [u64; 2] {
        [u64::from(self.mark) << 32 | u64::from(self.base), self.queued]
    }

    fn is_main(self) -> bool {
        self.queued & MAIN != 0
    }

    fn ticket(self) -> Option<u64> {
        (self.queued & !MAIN).checked_sub(1)
    }
}

/// Which queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Small,
    Main,
}

/// One client's side.
pub(super) struct S3Fifo {
    area: RingsArea,
    small: Ring,
    main: Ring,
    /// Accesses that the pool does not know yet.
    counters: Counters,
    /// Entries that may be taken before the next look at the queues' counters.
    steps_to_look: u32,
    /// The last victim that was taken from a queue.
    taken: Option<(u64, Node)>,
}

impl S3Fifo {
    pub(super) fn new(area: RingsArea, is_near: bool) -> Self {
        let (small, main) = (Ring::new(area.ring(0)), Ring::new(area.ring(1)));
        let counters = Counters::new(COUNTERS, if is_near { 1 } else { PUBLISHED_TOGETHER }, AGE_US_MAX);
        Self { area, small, main, counters, steps_to_look: 0, taken: None }
    }

    fn ring(&mut self, which: Which) -> &mut Ring {
        match which {
            Which::Small => &mut self.small,
            Which::Main => &mut self.main,
        }
    }

    /// Evictions for which a key is remembered.
    fn remembered(&self) -> u64 {
        let objects = self.small.len() + self.main.len();
        (objects - objects / SMALL_SHARE).min(HISTORY_IDS / 2)
    }

    pub(super) async fn accessed<E: Endpoint>(&mut self, core: &Core<E>, slot: u64) -> Result<(), CacheError> {
        let now_us = core.client.about_us();
        let counted = self.counters.count(slot, now_us).map(|accesses| (slot, accesses));
        for (slot, accesses) in counted.into_iter().chain(self.counters.due(now_us)) {
            Counters::publish(core, slot, accesses);
        }
        Ok(())
    }

    pub(super) async fn inserted<E: Endpoint>(
        &mut self,
        core: &Core<E>,
        inserted: &Inserted<'_>,
    ) -> Result<(), CacheError> {
        let Inserted { object, before, counter, .. } = *inserted;
        self.counters.forget(object.slot);
        let is_remembered =
            before.history_of(object.hash).is_some_and(|(_, id)| core.history_age(id) < self.remembered());
        let which = if is_remembered { Which::Main } else { Which::Small };
        let node = Node { mark: object.hash.mark, base: counter as u32, queued: 0 };
        self.put(core, which, object.slot, node).await
    }

    /// Does nothing: an entry is stale once the slot has no object, or another one.
    pub(super) async fn removed<E: Endpoint>(&mut self, _core: &Core<E>, _slot: u64) -> Result<(), CacheError> {
        Ok(())
    }

    /// Puts a slot into a queue. If all tries fail, the object becomes unqueued.
    async fn put<E: Endpoint>(
        &mut self,
        core: &Core<E>,
        which: Which,
        slot: u64,
        node: Node,
    ) -> Result<(), CacheError> {
        let at = self.area.node(slot);
        let main = if which == Which::Main { MAIN } else { 0 };
        for _ in 0..TICKETS_MAX {
            let ring = self.ring(which);
            let mut put = ring.ticket(core).await?;
            for _ in 0..TICKETS_MAX {
                let mut buffer = Buffer::sized(16);
                let queued = main | (put.ticket.wrapping_add(1) & !MAIN);
                buffer.words_mut().copy_from_slice(&Node { queued, ..node }.words());
                let mut batch = Batch::new();
                batch.write(at, buffer);
                let swap = ring.add_put(&mut batch, put, slot);
                core.client.endpoint.post(&mut batch).await?;
                if batch.swapped(swap) {
                    return Ok(());
                }
                let Some(again) = ring.again(put, batch.word(swap)) else { break };
                put = again;
            }
        }
        Ok(())
    }

    /// Updates this client's view of the counters.
    async fn look<E: Endpoint>(&mut self, core: &Core<E>) -> Result<(), CacheError> {
        let mut batch = Batch::new();
        let tickets = [self.small.add_look(&mut batch), self.main.add_look(&mut batch)];
        core.client.endpoint.post(&mut batch).await?;
        self.small.looked(&batch, tickets[0]);
        self.main.looked(&batch, tickets[1]);
        self.steps_to_look = LOOK_EVERY;
        Ok(())
    }

    /// The queue that gives the next victim.
    fn due(&self) -> Which {
        let (small, main) = (self.small.len(), self.main.len());
        if main == 0 || small >= ((small + main) / SMALL_SHARE).max(1) { Which::Small } else { Which::Main }
    }

    pub(super) async fn victim<E: Endpoint>(&mut self, core: &Core<E>) -> Result<Option<Victim>, CacheError> {
        let mut is_empty = false;
        for _ in 0..STEPS_MAX {
            if self.steps_to_look == 0 {
                self.look(core).await?;
            }
            self.steps_to_look -= 1;
            let which = self.due();
            let Some(taken) = self.ring(which).take(core).await? else {
                if is_empty {
                    return Ok(None);
                }
                (is_empty, self.steps_to_look) = (true, 0);
                continue;
            };
            let Some((ticket, slot)) = taken.filter(|(_, slot)| *slot < self.area.slots()) else { continue };
            if let Some(victim) = self.judge(core, which, (ticket, slot)).await? {
                return Ok(Some(victim));
            }
        }
        Ok(None)
    }

    /// Decides about an entry that was taken from a queue.
    async fn judge<E: Endpoint>(
        &mut self,
        core: &Core<E>,
        which: Which,
        (ticket, slot): (u64, u64),
    ) -> Result<Option<Victim>, CacheError> {
        let mut batch = Batch::new();
        let node = batch.read(self.area.node(slot), Buffer::sized(16));
        let word = batch.read_word(core.shared.layout().slot(slot));
        let counter = batch.read_word(core.shared.layout().access(slot));
        core.client.endpoint.post(&mut batch).await?;
        let node = Node::of(batch.take(node).words());
        let (word, counter) = (Slot(batch.word(word)), batch.word(counter) as u32);
        if node.is_main() != (which == Which::Main) || node.ticket() != Some(ticket & !MAIN) {
            return Ok(None);
        }
        if word.is_free() || word.is_pending() {
            return Ok(None);
        }
        self.taken = Some((slot, node));
        if word.is_dead() {
            return Ok(Some(Victim { slot, word, then: Slot::EMPTY }));
        }
        let frequency = counter.wrapping_sub(node.base).min(FREQUENCY_MAX);
        match which {
            Which::Small if frequency >= FREQUENCY_TO_PASS => {
                self.put(core, Which::Main, slot, Node { base: counter, ..node }).await?;
                Ok(None)
            }
            Which::Small => {
                let id = core.history_id().await?;
                let bucket = (slot / BUCKET_SLOTS as u64) as u32;
                let hash = KeyHash { bucket, fingerprint: word.fingerprint(), mark: node.mark, whole: 0 };
                Ok(Some(Victim { slot, word, then: Slot::history(hash, 0, id) }))
            }
            Which::Main if frequency > 0 => {
                let base = counter.wrapping_sub(frequency - 1);
                self.put(core, Which::Main, slot, Node { base, ..node }).await?;
                Ok(None)
            }
            Which::Main => Ok(Some(Victim { slot, word, then: Slot::EMPTY })),
        }
    }

    /// Puts a spared victim to the end of its queue.
    pub(super) async fn spared<E: Endpoint>(&mut self, core: &Core<E>, slot: u64) -> Result<(), CacheError> {
        let Some((_, node)) = self.taken.take().filter(|(taken, _)| *taken == slot) else { return Ok(()) };
        let word = Slot(atoll_pool::read_word(&core.client.endpoint, core.shared.layout().slot(slot)).await?);
        if word.is_live() {
            let which = if node.is_main() { Which::Main } else { Which::Small };
            self.put(core, which, slot, node).await?;
        }
        Ok(())
    }

    /// The nodes of the first candidates.
    async fn nodes<E: Endpoint>(
        &mut self,
        core: &Core<E>,
        candidates: &[Candidate],
    ) -> Result<ArrayVec<Node, BATCH_VERBS_MAX>, CacheError> {
        self.look(core).await?;
        let mut batch = Batch::new();
        for candidate in candidates.iter().take(BATCH_VERBS_MAX) {
            batch.read(self.area.node(candidate.slot), Buffer::sized(16));
        }
        core.client.endpoint.post(&mut batch).await?;
        Ok((0..batch.len()).map(|index| Node::of(batch.take_nth(index).words())).collect())
    }

    /// Whether an object's ticket has been taken already, or it never had one.
    fn is_unqueued(&self, node: Node) -> bool {
        let head = if node.is_main() { self.main.head } else { self.small.head };
        node.ticket().is_none_or(|ticket| ticket < head)
    }

    /// An unqueued object, else the oldest of the small queue, else the oldest of the main queue.
    pub(super) async fn choose<E: Endpoint>(
        &mut self,
        core: &Core<E>,
        candidates: &[Candidate],
    ) -> Result<Option<usize>, CacheError> {
        let nodes = self.nodes(core, candidates).await?;
        Ok((0..nodes.len()).min_by_key(|index| (!self.is_unqueued(nodes[*index]), nodes[*index].queued)))
    }

    pub(super) async fn unqueued<E: Endpoint>(
        &mut self,
        core: &Core<E>,
        candidates: &[Candidate],
    ) -> Result<Option<usize>, CacheError> {
        Ok(self.nodes(core, candidates).await?.iter().position(|node| self.is_unqueued(*node)))
    }

    pub(super) async fn round<E: Endpoint>(&mut self, core: &Core<E>) -> Result<(), CacheError> {
        for (slot, accesses) in self.counters.drain() {
            Counters::publish(core, slot, accesses);
        }
        Ok(())
    }
}
