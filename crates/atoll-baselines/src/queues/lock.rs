//! Which client changes a list: the client that its lock names.
//!
//! | the lock is | then |
//! |---|---|
//! | free | CAS to this client |
//! | another client's | try again after 5 us (Ditto, section 5.1), for 20 ms; then continue without it, and remember the holder: while the same client holds it, one look is enough |
//! | a dead client's | CAS to this client, and reset the list |
//! | this client's own | its last unlocking has not landed, which it waits for; or an operation was dropped in the middle: reset the list |
//!
//! A client that a look at the registry, later than the look at the lock, shows to be dead never
//! writes again (see `atoll_pool::registry`). So only the holder WRITEs a list, and the lock while
//! it names the holder. Unlocking is a WRITE behind the WRITEs of the change, in one batch, which
//! keeps them in order. So the next holder READs the change. A compare-and-swap would wait behind
//! those of all clients that try to get the lock: a NIC executes atomics on one word one by one.

use super::area::{self, Area, LIST_READ_WORDS, NODE_DATA_WORDS, list_word, node_word};
use super::list::{Locked, Node};
use arrayvec::ArrayVec;
use atoll_cache::CacheError;
use atoll_cache::table::Core;
use atoll_cache::table::replacement::Candidate;
use atoll_cache::table::slot::Slot;
use atoll_fabric::{Batch, Buffer, Endpoint};
use atoll_pool::registry;

/// The pause of a client that did not get a lock (Ditto, section 5.1).
const BACKOFF_NS: u64 = 5_000;
/// How long a client tries before it continues without the lock.
const WAIT_NS_MAX: u64 = 20_000_000;
/// Tries in that time, at most.
const TRIES_MAX: u32 = (WAIT_NS_MAX / BACKOFF_NS) as u32;
/// Tries in a row that find the same holder before a client checks whether the holder is alive.
const QUESTION_EVERY: u32 = 64;
/// Looks at suspects' locks between two checks whether a suspect is alive.
const LOOKS_PER_QUESTION: u32 = 16;

/// How far victims have come in each list, by this client's own victims. The next victim is of the
/// list that is farthest behind. So all lists together give nearly the victims of one list.
pub(super) struct Progress(Vec<(u64, u64)>);

impl Progress {
    pub(super) fn new(lists: u32) -> Self {
        Self(vec![(0, 0); lists as usize])
    }

    /// The list that is farthest behind.
    pub(super) fn last(&self) -> u32 {
        (0..self.0.len()).min_by_key(|list| self.0[*list]).unwrap_or(0) as u32
    }

    /// Notes where a list's victim was: in which sweep, and when it had been linked.
    pub(super) fn note(&mut self, list: u32, at: (u64, u64)) {
        self.0[list as usize] = at;
    }

    /// Passes a list over until the other lists have come as far as any has.
    pub(super) fn skip(&mut self, list: u32) {
        let most = self.0.iter().copied().max().unwrap_or_default();
        self.0[list as usize] = (most.0, most.1 + 1);
    }
}

/// Candidates that are looked at together: their nodes and the turns of their lists fit into one
/// batch.
const LOOKED_AT_MAX: usize = 16;

/// The node of a candidate, as it was READ.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) node: Node,
    pub(super) is_linked: bool,
}

/// One client's way to the lists.
pub(super) struct Lists {
    pub(super) area: Area,
    /// Whether every step is awaited by itself, as in a simple implementation.
    is_straight: bool,
    /// By list: the holder whose lock this client did not get in all its tries.
    suspects: Vec<u64>,
    /// Looks at suspects' locks since the last check whether one is alive.
    looks: u32,
    /// The list whose lock this client holds. Between operations it holds one only if an operation
    /// was dropped in the middle.
    holding: Option<u32>,
    pub(super) progress: Progress,
}

impl Lists {
    pub(super) fn new(area: Area, is_straight: bool) -> Self {
        let suspects = vec![0; area.lists() as usize];
        let progress = Progress::new(area.lists());
        Self { area, is_straight, suspects, looks: 0, holding: None, progress }
    }

    /// Whether every step is awaited by itself.
    pub(super) fn is_straight(&self) -> bool {
        self.is_straight
    }

    /// Acquires a list's lock and READs the list and the nodes of these slots, which belong to it;
    /// `None` if another client keeps it.
    pub(super) async fn lock<E: Endpoint>(
        &mut self,
        core: &Core<E>,
        list: u32,
        slots: &[u64],
    ) -> Result<Option<Locked>, CacheError> {
        self.settle(core).await?;
        self.try_lock(core, list, slots).await
    }

    /// Releases a lock that a dropped operation held.
    pub(super) async fn settle<E: Endpoint>(&mut self, core: &Core<E>) -> Result<(), CacheError> {
        if let Some(list) = self.holding.take()
            && let Some(locked) = Box::pin(self.try_lock(core, list, &[])).await?
        {
            self.unlock(core, locked).await?;
        }
        Ok(())
    }

    async fn try_lock<E: Endpoint>(
        &mut self,
        core: &Core<E>,
        list: u32,
        slots: &[u64],
    ) -> Result<Option<Locked>, CacheError> {
        let mine = name(core);
        let at = self.area.at(self.area.list_word(list, 0));
        // The word that the lock is swapped from: 0 if it is free, else a client that no longer
        // holds it.
        let (mut expected, mut tried, mut own) = (0, 0, 0);
        let (mut before, mut same, mut begun_ns) = (0, 0, u64::MAX);
        let mut batch = loop {
            let mut batch = Batch::new();
            let swap = batch.compare_and_swap(at, expected, mine);
            if !self.is_straight {
                self.add_reads(&mut batch, list, slots);
            }
            core.client.endpoint.post(&mut batch).await?;
            if batch.swapped(swap) {
                break batch;
            }
            let found = batch.word(swap);
            expected = 0;
            if found == mine {
                core.client.endpoint.flush().await?;
                own += 1;
                // The unlocking has landed, so only a dropped operation can have left the lock.
                expected = if own > 1 { mine } else { 0 };
                continue;
            }
            if found == 0 {
                continue;
            }
            tried += 1;
            (before, same) = (found, if found == before { same + 1 } else { 1u32 });
            let is_suspect = self.suspects[list as usize] == found;
            self.looks = self.looks.wrapping_add(is_suspect.into());
            let is_due =
                same.is_multiple_of(QUESTION_EVERY) || is_suspect && self.looks.is_multiple_of(LOOKS_PER_QUESTION);
            if is_due && !is_alive(core, found).await? {
                expected = found;
                continue;
            }
            let now_ns = core.client.endpoint.now_ns();
            begun_ns = begun_ns.min(now_ns);
            if is_suspect || tried >= TRIES_MAX || now_ns - begun_ns >= WAIT_NS_MAX {
                self.suspects[list as usize] = found;
                return Ok(None);
            }
            core.client.endpoint.pause(BACKOFF_NS).await;
        };
        self.holding = Some(list);
        if self.is_straight {
            batch = Batch::new();
            self.add_reads(&mut batch, list, slots);
            core.client.endpoint.post(&mut batch).await?;
        }
        let first = usize::from(!self.is_straight);
        let words = batch.take_nth(first);
        let mut locked = Locked::new(list, words.words());
        for (index, slot) in slots.iter().enumerate() {
            locked.know(*slot, Node::of(batch.take_nth(first + 1 + index).words()));
        }
        if expected != 0 {
            locked.begin_anew(&self.area);
        }
        Ok(Some(locked))
    }

    fn add_reads(&self, batch: &mut Batch, list: u32, slots: &[u64]) {
        batch.read(self.area.at(self.area.list_word(list, 0)), words(LIST_READ_WORDS));
        for slot in slots {
            batch.read(self.area.at(self.area.node_word(*slot, 0)), words(NODE_DATA_WORDS + 1));
        }
    }

    /// READs a further node of the list and the word of its slot. `visited` is a node whose mark is
    /// to be removed, with the word that it had.
    pub(super) async fn read<E: Endpoint>(
        &self,
        core: &Core<E>,
        locked: &mut Locked,
        slot: u64,
        visited: Option<(u64, u64)>,
    ) -> Result<Slot, CacheError> {
        let mut batch = Batch::new();
        let node = batch.read(self.area.at(self.area.node_word(slot, 0)), words(NODE_DATA_WORDS + 1));
        let word = batch.read_word(core.shared.layout().slot(slot));
        if let Some((slot, was)) = visited {
            batch.compare_and_swap(self.area.at(self.area.node_word(slot, node_word::VISITED)), was, 0);
        }
        core.client.endpoint.post(&mut batch).await?;
        let node = Node::of(batch.take(node).words());
        locked.know(slot, locked.edited(&self.area, slot, node));
        Ok(Slot(batch.word(word)))
    }

    /// READs the words of slots, which may be on other nodes than the lock.
    pub(super) async fn slot_word<E: Endpoint>(&self, core: &Core<E>, slot: u64) -> Result<Slot, CacheError> {
        Ok(Slot(atoll_pool::read_word(&core.client.endpoint, core.shared.layout().slot(slot)).await?))
    }

    /// WRITEs the changes so far, if every step is awaited.
    pub(super) async fn step<E: Endpoint>(&self, core: &Core<E>, locked: &mut Locked) -> Result<(), CacheError> {
        if self.is_straight && locked.is_changed() {
            let mut batch = Batch::new();
            locked.add_writes(&self.area, &mut batch);
            core.client.endpoint.post(&mut batch).await?;
        }
        Ok(())
    }

    /// WRITEs the changes and releases the lock. Awaited only if every step is.
    pub(super) async fn unlock<E: Endpoint>(&mut self, core: &Core<E>, mut locked: Locked) -> Result<(), CacheError> {
        self.step(core, &mut locked).await?;
        let mut batch = Batch::new();
        locked.add_writes(&self.area, &mut batch);
        batch.write_word(self.area.at(self.area.list_word(locked.list, 0)), 0);
        // Even if the operation is dropped from here on, the whole batch takes effect.
        self.holding = None;
        if self.is_straight {
            core.client.endpoint.post(&mut batch).await?;
        } else {
            core.client.endpoint.post_unawaited(&mut batch);
        }
        Ok(())
    }

    /// Unlinks the node of a slot whose object was removed, unless another object has come into the
    /// slot.
    pub(super) async fn take_out<E: Endpoint>(&mut self, core: &Core<E>, slot: u64) -> Result<(), CacheError> {
        let Some(mut locked) = self.lock(core, self.area.list_of(slot), &[slot]).await? else { return Ok(()) };
        // A client that puts an object into the slot links the node afterwards, under the lock.
        if locked.has(slot) && !self.slot_word(core, slot).await?.is_live() && locked.unlink(&self.area, slot).is_err()
        {
            locked.begin_anew(&self.area);
        }
        self.unlock(core, locked).await
    }

    /// Links the node of a spared victim at the tail of its list, unless it is linked again or the
    /// object was removed.
    pub(super) async fn put_back<E: Endpoint>(&mut self, core: &Core<E>, slot: u64) -> Result<(), CacheError> {
        let Some(mut locked) = self.lock(core, self.area.list_of(slot), &[slot]).await? else { return Ok(()) };
        if !locked.has(slot) && self.slot_word(core, slot).await?.is_live() {
            locked.link(&self.area, slot, true, core.client.about_us());
        }
        self.unlock(core, locked).await
    }

    /// READs the nodes of the first candidates, and whether they are in their lists.
    pub(super) async fn look<E: Endpoint>(
        &self,
        core: &Core<E>,
        candidates: &[Candidate],
    ) -> Result<ArrayVec<Seen, LOOKED_AT_MAX>, CacheError> {
        let mut lists = ArrayVec::<u32, LOOKED_AT_MAX>::new();
        for candidate in candidates.iter().take(LOOKED_AT_MAX) {
            let list = self.area.list_of(candidate.slot);
            if !lists.contains(&list) {
                lists.push(list);
            }
        }
        let mut batch = Batch::new();
        for candidate in candidates.iter().take(LOOKED_AT_MAX) {
            batch.read(self.area.at(self.area.node_word(candidate.slot, 0)), words(NODE_DATA_WORDS + 1));
        }
        let turns: ArrayVec<_, LOOKED_AT_MAX> = lists
            .iter()
            .map(|list| batch.read_word(self.area.at(self.area.list_word(*list, list_word::TURN))))
            .collect();
        core.client.endpoint.post(&mut batch).await?;
        let turn_of = |list: u32| lists.iter().position(|other| *other == list).map(|index| batch.word(turns[index]));
        let turns: ArrayVec<Option<u64>, LOOKED_AT_MAX> =
            candidates.iter().take(LOOKED_AT_MAX).map(|one| turn_of(self.area.list_of(one.slot))).collect();
        Ok(turns
            .into_iter()
            .enumerate()
            .map(|(index, turn)| {
                let node = Node::of(batch.take_nth(index).words());
                Seen { node, is_linked: turn.is_some_and(|turn| area::is_linked(node.word(node_word::MARK), turn)) }
            })
            .collect())
    }

    /// Describes the faults of lists whose lock is free. The next client resets a dead holder's
    /// list.
    pub(super) async fn verify<E: Endpoint>(&self, core: &Core<E>, faults: &mut Vec<String>) -> Result<(), CacheError> {
        for list in 0..self.area.lists() {
            let at = self.area.at(self.area.list_word(list, 0));
            let read = core.client.endpoint.read(at, words(LIST_READ_WORDS)).await?;
            if read.words()[0] == 0
                && let Some(fault) = self.fault(core, Locked::new(list, read.words())).await?
            {
                faults.push(format!("list {list}: {fault}"));
            }
        }
        Ok(())
    }

    /// Walks from the tail to the head.
    async fn fault<E: Endpoint>(&self, core: &Core<E>, mut locked: Locked) -> Result<Option<String>, CacheError> {
        let (Ok(head), Ok(tail)) = (locked.head(&self.area), locked.tail(&self.area)) else {
            return Ok(Some("an end is no slot of it".to_owned()));
        };
        let (mut older, mut at) = (None, tail);
        for _ in 0..=self.area.slots() {
            let Some(slot) = at else {
                return Ok((older != head).then(|| format!("it ends at {older:?} and its head is {head:?}")));
            };
            self.read(core, &mut locked, slot, None).await?;
            let node = locked.node(slot);
            if !locked.has(slot) || node.word(node_word::NEXT) != area::link(older) {
                return Ok(Some(format!("slot {slot} is not linked as its older neighbour {older:?} says")));
            }
            let Ok(newer) = self.area.linked(locked.list, node.word(node_word::PREV)) else {
                return Ok(Some(format!("slot {slot} links to no slot of it")));
            };
            (older, at) = (Some(slot), newer);
            locked.forget();
        }
        Ok(Some("it has no end".to_owned()))
    }

    /// Any list that is not empty, other than this one.
    pub(super) async fn other_list<E: Endpoint>(&self, core: &Core<E>, but: u32) -> Result<Option<u32>, CacheError> {
        let lists = self.area.lists();
        let stride = (self.area.list_word(1, 0) - self.area.list_word(0, 0)) as usize;
        let read = core.client.endpoint.read(self.area.at(0), words(stride * lists as usize)).await?;
        let first = core.client.endpoint.random() as u32 % lists;
        let tail = |list: u32| read.words()[stride * list as usize + list_word::TAIL as usize];
        Ok((0..lists).map(|step| (first + step) % lists).find(|list| *list != but && tail(*list) != 0))
    }
}

fn words(count: usize) -> Buffer {
    Buffer::sized(8 * count)
}

/// The word of a lock that this client holds.
fn name<E: Endpoint>(core: &Core<E>) -> u64 {
    let me = core.client.me();
    u64::from(me.slot + 1) << 32 | u64::from(me.epoch)
}

/// Whether the client that a lock names may still write.
async fn is_alive<E: Endpoint>(core: &Core<E>, holder: u64) -> Result<bool, CacheError> {
    let places = registry::places(&core.client.endpoint, &core.client.pool).await?;
    Ok(places.iter().any(|place| {
        let name = u64::from(place.incarnation.slot + 1) << 32 | u64::from(place.incarnation.epoch);
        name == holder && place.state.is_alive()
    }))
}
