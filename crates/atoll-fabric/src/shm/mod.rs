//! The fabric of one host: a READ is a copy, a compare-and-swap an atomic instruction, and nobody
//! runs on the other side.
//!
//! A region is a file under `/dev/shm` (`shm:/NAME`), a file elsewhere (a path), or anonymous
//! memory. Its atomicity domain is the processors of the host. Everything is done when
//! [`Endpoint::post`] is called, so that [`run_ready`](crate::run_ready) drives any protocol over
//! this fabric.
//!
//! Verbs execute in program order; `order` says which barriers stand between them.

mod descriptor;
#[cfg(any(test, feature = "fork"))]
pub mod fork;
pub mod host;
mod lock;
mod mapping;
mod nodes;
mod order;
mod pages;
mod process;
mod words;

pub use lock::RegionLock;
pub use mapping::ShmError;
pub use nodes::{NODES_MAX, ShmNodes};
pub use process::{Holders, ProcessState, boot};

use crate::batch::{BATCH_VERBS_MAX, Operation, Verb};
use crate::{
    Address, Batch, Buffer, Clock, Domain, Endpoint, Identity, Intent, Kind, Lifetime, Limits, Origin,
    RegionAttributes, VerbError,
};
use host::Room;
use lock::Presence;
use mapping::{Mapping, PAGE_BYTES};
use order::{Access, LOCKED_ATOMICS, Order};
use pages::Pages;
use process::ForkGuard;
use std::cell::{Cell, OnceCell};
use std::future::ready;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI64, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use words::Words;

/// A region of shared memory that this process has mapped, and has locked as in use.
pub struct ShmRegion {
    mapping: Mapping,
    name: Option<String>,
    presence: Presence,
    pages: Pages,
    /// Bytes that may be provided before the host's limits are looked at again.
    allowance: AtomicI64,
    /// When the host last had no memory left.
    short: Mutex<Option<Instant>>,
}

/// Bytes that are provided at most between two looks at the host's limits.
const ALLOWANCE_BYTES_MAX: u64 = 256 << 20;
/// How long a host that had no memory left is not asked again.
const ASK_AGAIN: Duration = Duration::from_millis(100);

impl ShmRegion {
    /// Anonymous memory, all pages reserved, for one process and its threads.
    pub fn anonymous(bytes: u64) -> Result<Self, ShmError> {
        Self::anonymous_sparse(bytes, bytes)
    }

    /// Anonymous memory of which the first `there` bytes have their pages. Verbs may touch the
    /// others, too; whether the host has memory for them is only known once they are
    /// [reserved](ShmRegion::reserve).
    pub fn anonymous_sparse(bytes: u64, there: u64) -> Result<Self, ShmError> {
        let name = "an anonymous region";
        let region = check_room(name, None, bytes).and_then(|()| Mapping::anonymous(bytes))?;
        Self::new(region, None, Presence::anonymous(), 0).with_pages(name, there)
    }

    /// Creates the region `name` (`shm:/NAME` or a path) of `bytes` zero bytes, all pages reserved.
    pub fn create(name: &str, bytes: u64) -> Result<Self, ShmError> {
        Self::create_sparse(name, bytes, bytes)
    }

    /// Creates a region of which the first `there` bytes have their pages. What a verb touches
    /// beyond that is reserved first; if the host has no memory for it, the verb ends in
    /// [`VerbError::NoMemory`].
    pub fn create_sparse(name: &str, bytes: u64, there: u64) -> Result<Self, ShmError> {
        let directory = mapping::path_of(name)?;
        check_room(name, directory.parent(), bytes)?;
        let (mapping, file) = Mapping::create(name, bytes)?;
        let presence = Presence::shared(name)?;
        // Another process may have removed it already, and made one of this name.
        if !presence.is_of(file) {
            return Err(ShmError::Absent(name.to_owned()));
        }
        let region = Self::new(mapping, Some(name.to_owned()), presence, 0);
        // A region that could not be made whole leaves no file behind.
        region.with_pages(name, there).inspect_err(|_| drop(std::fs::remove_file(&directory)))
    }

    /// Opens a region that exists, and that has all its pages, once no process makes it anew.
    pub fn open(name: &str) -> Result<Self, ShmError> {
        Self::open_there(name, u64::MAX)
    }

    /// Opens a region that exists and of whose pages nothing is known: see
    /// [`ShmRegion::create_sparse`].
    pub fn open_sparse(name: &str) -> Result<Self, ShmError> {
        Self::open_there(name, 0)
    }

    fn open_there(name: &str, there: u64) -> Result<Self, ShmError> {
        loop {
            let presence = Presence::shared(name)?;
            if let Some(opened) = Self::open_with(name, presence, there)? {
                return Ok(opened);
            }
        }
    }

    /// Opens a region that no other process has open, as [`ShmRegion::open_sparse`], and keeps it
    /// so until [`ShmRegion::share`]; `None` if one has it open.
    pub fn open_alone(name: &str) -> Result<Option<Self>, ShmError> {
        match Presence::alone(name)? {
            Some(presence) => Self::open_with(name, presence, 0),
            None => Ok(None),
        }
    }

    /// `None` if the file that has the name is not the one that was locked any more.
    fn open_with(name: &str, presence: Presence, there: u64) -> Result<Option<Self>, ShmError> {
        let (mapping, file) = Mapping::open(name)?;
        Ok(presence.is_of(file).then(|| Self::new(mapping, Some(name.to_owned()), presence, there)))
    }

    /// Lets other processes open a region that was opened alone.
    pub fn share(&self) -> Result<(), ShmError> {
        let name = self.name.clone().unwrap_or_default();
        self.presence.share().map_err(|source| ShmError::System { name, what: "share the file", source })
    }

    /// The processes that have the region open, as far as this one sees them.
    pub fn holders(&self) -> Holders {
        Holders::of(self.presence.descriptor())
    }

    /// What is known of the process behind an endpoint of this region.
    pub fn process_state(&self, who: Identity, holders: &Holders) -> ProcessState {
        if self.presence.is_dead(who) { ProcessState::Dead } else { holders.state(who) }
    }

    /// Kills the process behind an endpoint of this region, if that is another one and visible
    /// here; whether a signal was sent. For an operator who wants the memory of a client that
    /// stands still.
    pub fn kill(&self, who: Identity, holders: &Holders) -> bool {
        holders.pid(who).is_some_and(|pid| process::kill(self.presence.descriptor(), pid, who))
    }

    /// Whether the region lives in memory, which a restart of the host empties.
    pub fn is_volatile(&self) -> bool {
        self.presence.is_volatile()
    }

    fn new(mapping: Mapping, name: Option<String>, presence: Presence, there: u64) -> Self {
        let pages = Pages::new(mapping.bytes(), there.min(mapping.bytes()));
        Self { mapping, name, presence, pages, allowance: AtomicI64::new(0), short: Mutex::new(None) }
    }

    fn with_pages(self, name: &str, there: u64) -> Result<Self, ShmError> {
        if self.reserve(0, there.min(self.mapping.bytes())) {
            return Ok(self);
        }
        let why = self.room().map_or_else(|| "the host has no memory left".to_owned(), |room| room.to_string());
        Err(ShmError::NoRoom { name: name.to_owned(), bytes: self.mapping.bytes(), why })
    }

    /// What the host has left for this region's pages.
    fn room(&self) -> Option<Room> {
        Room::of_region(self.name.as_deref())
    }

    /// Whether the host's limits leave room for so many bytes. Pages that are there already count
    /// again, since this process cannot tell which those are.
    fn may_take(&self, bytes: u64) -> bool {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        if self.allowance.fetch_sub(bytes, Ordering::Relaxed) >= bytes {
            return true;
        }
        // A file system that is full says so itself.
        let room = Room::of_memory_of_region(self.name.as_deref());
        let usable = room.map_or(u64::MAX, |room| room.usable_bytes());
        let usable = i64::try_from(usable).unwrap_or(i64::MAX);
        let allowance = (usable / 4).min(ALLOWANCE_BYTES_MAX as i64).min(usable.saturating_sub(bytes));
        self.allowance.store(allowance.max(0), Ordering::Relaxed);
        usable >= bytes
    }

    /// Brings everything that was written to the file's disk, if it is on one.
    pub fn sync(&self) -> Result<(), ShmError> {
        match &self.name {
            Some(name) => self.mapping.sync(name),
            None => Ok(()),
        }
    }

    /// Gives the memory of a span back to the host, as far as it can be: whole pages, where the
    /// file system can make holes. Gives how many bytes. They read as zeros from then on, for
    /// everybody. A process that writes there gets memory again if the host has some, and is killed
    /// if it has none: see [`ShmRegion::reserve`].
    pub fn discard(&self, offset: u64, bytes: u64) -> u64 {
        self.mapping.discard(offset, bytes)
    }

    /// Makes sure that a span has all its pages; `false` if the host has no memory left for them,
    /// or none that it could give without killing a process. Such a host is asked again only after
    /// 100 ms.
    pub fn reserve(&self, offset: u64, bytes: u64) -> bool {
        let end = offset.saturating_add(bytes).min(self.mapping.bytes());
        if self.was_short() {
            return end <= offset || self.mapping.is_there(offset, end);
        }
        if end > self.pages.there() {
            // No page beyond was given back: whole pieces are quicker.
            let (first, last) = self.pages.around(offset, end);
            if self.provide(first, last) {
                return true;
            }
        }
        let is_there = end <= offset || self.provide(offset, end);
        if !is_there {
            *self.short.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
        is_there
    }

    /// Whether the host had no memory left a moment ago.
    fn was_short(&self) -> bool {
        let short = *self.short.lock().unwrap_or_else(PoisonError::into_inner);
        short.is_some_and(|since| since.elapsed() < ASK_AGAIN)
    }

    fn provide(&self, start: u64, end: u64) -> bool {
        let is_there = self.may_take(end - start) && self.mapping.provide(start, end - start);
        if is_there {
            self.pages.note(start, end);
        }
        is_there
    }

    /// Makes sure that a verb can touch the bytes from `start` to `end`. What is there already is
    /// asked for in whole pieces, since each question is a call of the kernel. What is missing is
    /// provided by the page, since around it may be pages that were given back.
    fn touch(&self, start: u64, end: u64) -> bool {
        // The pages of anonymous memory come by themselves.
        if self.pages.has(start, end) || self.mapping.is_anonymous() {
            return true;
        }
        let (first, last) =
            (start / PAGE_BYTES * PAGE_BYTES, end.next_multiple_of(PAGE_BYTES).min(self.mapping.bytes()));
        for (first, last) in [self.pages.around(start, end), (first, last)] {
            if self.mapping.is_there(first, last) {
                self.pages.note(first, last);
                return true;
            }
        }
        self.provide(first, last)
    }

    /// The first words of the file of that name, zero behind its end, and how many bytes it has. It
    /// need not be a region.
    pub fn beginning(name: &str) -> Result<([u64; 32], u64), ShmError> {
        let path = mapping::path_of(name)?;
        let system = |source| ShmError::System { name: name.to_owned(), what: "look at the file", source };
        if !std::fs::metadata(&path).map_err(system)?.is_file() {
            return Err(ShmError::BadName(name.to_owned()));
        }
        let mut bytes = Vec::new();
        let file = std::fs::File::open(&path).map_err(system)?;
        std::io::Read::read_to_end(&mut std::io::Read::take(&file, 256), &mut bytes).map_err(system)?;
        bytes.resize(256, 0);
        let (words, _) = bytes.as_chunks::<8>();
        let words = std::array::from_fn(|index| u64::from_le_bytes(words[index]));
        Ok((words, file.metadata().map_err(system)?.len()))
    }

    /// Removes the region's name. Processes that have it open keep its memory until they close it.
    pub fn remove(name: &str) -> Result<(), ShmError> {
        std::fs::remove_file(mapping::path_of(name)?).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => ShmError::Absent(name.to_owned()),
            _ => ShmError::System { name: name.to_owned(), what: "remove the file", source },
        })
    }
}

impl crate::region::Region for ShmRegion {
    fn attributes(&self) -> RegionAttributes {
        RegionAttributes {
            bytes: self.mapping.bytes(),
            kind: Kind::Host,
            domain: Domain::Cpu,
            lifetime: if self.name.is_some() { Lifetime::Host } else { Lifetime::Process },
        }
    }

    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

impl std::fmt::Debug for ShmRegion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShmRegion").field("name", &self.name).field("bytes", &self.mapping.bytes()).finish()
    }
}

/// One thread's access to the regions of this host; region `i` of the list is `Address` region `i`
/// of node 0. Further nodes have one region each ([`ShmNodes`]).
pub struct ShmEndpoint {
    /// Never empty.
    regions: Vec<Arc<ShmRegion>>,
    /// Those of further nodes, if there can be any.
    nodes: Option<Arc<ShmNodes>>,
    /// Start of node 0's region 0, which nearly every verb is for, and how much of it is known to
    /// be there: what lies beyond is looked at more closely.
    base: NonNull<u8>,
    there: Cell<u64>,
    clock: Clock,
    random: Cell<u64>,
    /// The process that made it, which alone may use it.
    guard: ForkGuard,
    process: u64,
    /// Lent by the first region, when it is asked for.
    identity: OnceCell<Identity>,
    /// The first error of a batch that was posted unawaited, until a flush reports it.
    unawaited_error: Cell<Option<VerbError>>,
}

// SAFETY: `base` points into `regions[0]`, which is `Send`, `Sync` and kept alive by this value.
unsafe impl Send for ShmEndpoint {}

impl ShmEndpoint {
    /// An endpoint over one region, on the host's clocks.
    pub fn new(region: Arc<ShmRegion>) -> Self {
        Self::with_regions(vec![region], Clock::host())
    }

    /// An endpoint over several regions and a clock of choice.
    ///
    /// # Panics
    /// If the list is empty or longer than 64.
    pub fn with_regions(regions: Vec<Arc<ShmRegion>>, clock: Clock) -> Self {
        assert!((1..=64).contains(&regions.len()), "an endpoint reaches 1 to 64 regions");
        let (base, there) = (regions[0].mapping.base(), Cell::new(regions[0].pages.there()));
        let (guard, process) = ForkGuard::new();
        Self {
            regions,
            nodes: None,
            base,
            there,
            clock,
            random: Cell::new(process::random_word() | 1),
            guard,
            process,
            identity: OnceCell::new(),
            unawaited_error: Cell::new(None),
        }
    }

    /// The same endpoint with random words that `seed` decides, so that one thread's run can be
    /// repeated.
    pub fn seeded(self, seed: u64) -> Self {
        self.random.set(seed | 1);
        self
    }

    /// The same endpoint, which reaches further memory nodes, too.
    pub fn with_nodes(mut self, nodes: Arc<ShmNodes>) -> Self {
        self.nodes = Some(nodes);
        self
    }

    /// The start of the region of `at`, if it reaches to `end` and the pages up to there can be
    /// had: for all but what is known to be there of node 0's first region. Out of the way of that,
    /// which it would slow down if it were inlined.
    #[cold]
    #[inline(never)]
    fn base_of(&self, at: Address, end: u64) -> Option<NonNull<u8>> {
        let region = self.region_at(at).filter(|region| end <= region.mapping.bytes())?;
        let is_there = region.touch(at.offset(), end);
        if at.is_home() {
            self.there.set(region.pages.there());
        }
        is_there.then(|| region.mapping.base())
    }

    /// The region of an address.
    fn region_at(&self, at: Address) -> Option<&Arc<ShmRegion>> {
        match (at.node(), at.region()) {
            (0, region) => self.regions.get(region as usize),
            (node, 0) => self.nodes.as_ref()?.region(node),
            _ => None,
        }
    }

    /// The words at `at`, if they are words of a region.
    #[inline(always)]
    fn words(&self, at: Address, bytes: u64) -> Option<Words> {
        let end = at.offset().checked_add(bytes.next_multiple_of(8))?;
        if !at.offset().is_multiple_of(8) {
            return None;
        }
        let base = if at.is_home() && end <= self.there.get() { self.base } else { self.base_of(at, end)? };
        // SAFETY: the span lies in the mapping, which lives as long as `self` (which holds the
        // region, or the nodes that hold it and never let go of one); offsets and the base are
        // multiples of 8; every access to a mapping in this crate goes through `Words`.
        Some(unsafe { Words::new(base.add(at.offset() as usize), bytes.div_ceil(8) as usize) })
    }

    #[inline]
    fn check(&self, verb: &Verb) -> Result<(), VerbError> {
        match self.words(verb.at, verb.len()) {
            Some(_) => Ok(()),
            None => Err(self.refusal(verb.at, verb.len())),
        }
    }

    /// Executes one checked verb behind what `order` has seen of its batch.
    #[inline]
    fn execute(&self, verb: &mut Verb, order: &mut Order<LOCKED_ATOMICS>) {
        let Some(words) = self.words(verb.at, verb.len()) else {
            unreachable!("verbs are checked before any executes")
        };
        match &mut verb.operation {
            Operation::Read { into } => {
                order.before(Access::Read, verb.fenced).stand();
                words.load_into(into.words_mut());
            }
            Operation::ReadWord { value } => {
                order.before(Access::Read, verb.fenced).stand();
                *value = words.word().load(Ordering::Relaxed);
            }
            Operation::Write { from } => {
                order.before(Access::Write, verb.fenced).stand();
                words.store_from(from.words());
            }
            Operation::WriteWord { value } => {
                order.before(Access::Write, verb.fenced).stand();
                words.word().store(*value, Ordering::Relaxed);
            }
            Operation::CompareAndSwap { expected, desired, found } => {
                order.before(Access::Atomic, verb.fenced).stand();
                let outcome = words.word().compare_exchange(*expected, *desired, Ordering::SeqCst, Ordering::SeqCst);
                *found = outcome.unwrap_or_else(|other| other);
                Order::<LOCKED_ATOMICS>::behind_atomic().stand();
            }
            Operation::FetchAndAdd { addend, found } => {
                order.before(Access::Atomic, verb.fenced).stand();
                *found = words.word().fetch_add(*addend, Ordering::SeqCst);
                Order::<LOCKED_ATOMICS>::behind_atomic().stand();
            }
        }
    }

    /// Why a verb cannot be executed.
    #[cold]
    fn refusal(&self, at: Address, bytes: u64) -> VerbError {
        let end = at.offset().checked_add(bytes.next_multiple_of(8)).filter(|_| at.offset().is_multiple_of(8));
        let is_inside = |end| self.region_at(at).is_some_and(|region| end <= region.mapping.bytes());
        match end.is_some_and(is_inside) {
            true => VerbError::NoMemory { node: at.node() },
            false => VerbError::Unreachable { at: format!("{at:?}"), bytes },
        }
    }

    /// Whether this process is a fork of the one that made the endpoint.
    #[inline(always)]
    fn is_fork(&self) -> bool {
        self.guard.number() != self.process
    }

    /// Executes the batch; `settled` says whether its effects are to be seen by every verb that is
    /// posted later.
    #[inline]
    fn execute_all(&self, batch: &mut Batch, settled: bool) -> Result<(), VerbError> {
        if self.is_fork() {
            return Err(VerbError::Forked);
        }
        for verb in batch.verbs() {
            self.check(verb)?;
        }
        let mut order = Order::default();
        for verb in batch.verbs_mut() {
            self.execute(verb, &mut order);
        }
        order.at_end(settled).stand();
        Ok(())
    }
}

/// An error if the host has no room for a region.
fn check_room(name: &str, directory: Option<&std::path::Path>, bytes: u64) -> Result<(), ShmError> {
    match Room::of(directory) {
        Some(room) if room.usable_bytes() < bytes => {
            Err(ShmError::NoRoom { name: name.to_owned(), bytes, why: room.to_string() })
        }
        _ => Ok(()),
    }
}

impl Drop for ShmEndpoint {
    /// It posts nothing any more, which is its death.
    fn drop(&mut self) {
        if let Some(identity) = self.identity.get() {
            self.regions[0].presence.release(*identity);
        }
    }
}

impl Endpoint for ShmEndpoint {
    #[inline]
    fn post(&self, batch: &mut Batch) -> impl Future<Output = Result<(), VerbError>> {
        ready(self.execute_all(batch, true))
    }

    #[inline(always)]
    fn read(&self, at: Address, mut into: Buffer) -> impl Future<Output = Result<Buffer, VerbError>> {
        // A fork may read: it changes nothing. Everything else that it posts is refused.
        ready(match self.words(at, into.len() as u64) {
            Some(words) => {
                words.load_into(into.words_mut());
                fence(Ordering::Acquire);
                Ok(into)
            }
            None => Err(self.refusal(at, into.len() as u64)),
        })
    }

    #[inline]
    fn post_unawaited(&self, batch: &mut Batch) {
        if let Err(error) = self.execute_all(batch, false) {
            self.unawaited_error.set(Some(self.unawaited_error.take().unwrap_or(error)));
        }
        batch.clear();
    }

    #[inline]
    fn expect(&self, at: Address, bytes: u64, intent: Intent) -> bool {
        if let Some(words) = self.words(at, bytes) {
            words.expect(intent);
        }
        true
    }

    #[inline]
    fn is_near(&self) -> bool {
        true
    }

    async fn flush(&self) -> Result<(), VerbError> {
        fence(Ordering::SeqCst);
        self.unawaited_error.take().map_or(Ok(()), Err)
    }

    async fn pause(&self, ns: u64) {
        if ns < 20_000 {
            std::hint::spin_loop();
            std::thread::yield_now();
        } else {
            std::thread::sleep(std::time::Duration::from_nanos(ns));
        }
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn unix_ms(&self) -> u64 {
        self.clock.unix_ms()
    }

    fn agent_ms(&self) -> Option<u64> {
        self.clock.agent_ms()
    }

    /// Vigna's xorshift64*: a seed that is not zero walks all words but zero.
    fn random(&self) -> u64 {
        let mut x = self.random.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random.set(x);
        x.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    async fn reach(&self, node: u8) -> Result<(), VerbError> {
        match &self.nodes {
            _ if node == 0 => Ok(()),
            Some(nodes) => nodes.reach(node),
            None => Err(VerbError::NodeAbsent { node, why: "this endpoint was made for one node".to_owned() }),
        }
    }

    fn region_bytes(&self, node: u8) -> Option<u64> {
        Some(self.region_at(Address::new(node, 0, 0))?.mapping.bytes())
    }

    fn provided(&self, node: u8) -> u64 {
        self.region_at(Address::new(node, 0, 0)).map_or(0, |region| region.pages.there())
    }

    fn note_provided(&self, node: u8, bytes: u64) {
        if let Some(region) = self.region_at(Address::new(node, 0, 0)) {
            region.pages.note_there(bytes);
        }
    }

    async fn provide(&self, at: Address, bytes: u64) -> Result<bool, VerbError> {
        if self.is_fork() {
            return Err(VerbError::Forked);
        }
        Ok(self.region_at(at).is_some_and(|region| region.reserve(at.offset(), bytes)))
    }

    async fn discard(&self, at: Address, bytes: u64) -> Result<u64, VerbError> {
        if self.is_fork() {
            return Err(VerbError::Forked);
        }
        Ok(self.region_at(at).map_or(0, |region| region.discard(at.offset(), bytes)))
    }

    fn limits(&self) -> Limits {
        Limits { batch_verbs_max: BATCH_VERBS_MAX, batches_max: usize::MAX, verb_bytes_max: u64::MAX }
    }

    fn identity(&self) -> Identity {
        if self.is_fork() {
            return Identity::NOBODY;
        }
        *self.identity.get_or_init(|| self.regions[0].presence.lend())
    }

    fn origin(&self) -> Origin {
        process::origin()
    }

    async fn is_dead(&self, who: Identity) -> Result<bool, VerbError> {
        if self.is_fork() {
            return Err(VerbError::Forked);
        }
        Ok(self.regions[0].presence.is_dead(who))
    }

    async fn shut_out(&self, who: Identity) -> Result<bool, VerbError> {
        self.is_dead(who).await
    }

    fn fabric(&self) -> &'static str {
        "shm"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_checked_before_any_file_is_touched() {
        for name in ["", "x", "shm:", "shm:/", "shm:/a/b", "shm:/..%", "shm:/a b"] {
            assert!(matches!(ShmRegion::open(name), Err(ShmError::BadName(_))), "{name}");
        }
        assert!(matches!(ShmRegion::open("shm:/surely-nobody-made-this"), Err(ShmError::Absent(_))));
    }

    #[test]
    fn a_region_that_does_not_fit_is_an_error_and_leaves_no_file() {
        let name = format!("shm:/atoll-huge-{}", std::process::id());
        assert!(matches!(ShmRegion::create(&name, 1 << 50), Err(ShmError::NoRoom { .. })));
        assert!(matches!(ShmRegion::open(&name), Err(ShmError::Absent(_))));
    }

    #[test]
    fn what_a_verb_touches_of_a_sparse_region_has_its_pages_first_and_the_rest_has_none() {
        let name = format!("shm:/atoll-sparse-{}", std::process::id());
        let pages = || {
            use std::os::unix::fs::MetadataExt;
            std::fs::metadata(format!("/dev/shm/atoll.atoll-sparse-{}", std::process::id())).unwrap().blocks() * 512
        };
        const BYTES: u64 = 64 << 20;
        let region = Arc::new(ShmRegion::create_sparse(&name, BYTES, 4096).unwrap());
        let opened = ShmRegion::open_sparse(&name);
        assert!(pages() <= 2 << 20, "{} bytes", pages());
        let endpoint = ShmEndpoint::new(region.clone());
        let add = |endpoint: &ShmEndpoint, offset| {
            let mut batch = Batch::new();
            let found = batch.fetch_and_add(Address::new(0, 0, offset), 1);
            crate::run_ready(endpoint.post(&mut batch)).map(|()| batch.word(found))
        };
        let provided = endpoint.provided(0);
        assert_eq!((add(&endpoint, 40 << 20), add(&endpoint, 40 << 20)), (Ok(0), Ok(1)));
        assert!(pages() <= 6 << 20, "{} bytes", pages());
        assert_eq!(endpoint.provided(0), provided, "there is a gap");
        let other = ShmEndpoint::new(Arc::new(opened.unwrap()));
        assert_eq!((add(&other, 40 << 20), add(&other, 0)), (Ok(2), Ok(0)));
        assert!(matches!(add(&endpoint, BYTES), Err(VerbError::Unreachable { .. })));
        assert!(region.reserve(0, BYTES));
        ShmRegion::remove(&name).unwrap();
        assert_eq!((endpoint.provided(0), add(&endpoint, BYTES - 8)), (BYTES, Ok(0)));
    }

    #[test]
    fn a_fork_is_told_so_and_changes_nothing() {
        let name = format!("shm:/atoll-fork-{}", std::process::id());
        let region = Arc::new(ShmRegion::create(&name, 1 << 16).unwrap());
        let endpoint = ShmEndpoint::new(region.clone());
        let add = |endpoint: &ShmEndpoint| {
            let mut batch = Batch::new();
            let found = batch.fetch_and_add(Address::new(0, 0, 8), 1);
            crate::run_ready(endpoint.post(&mut batch)).map(|()| batch.word(found))
        };
        assert_eq!(add(&endpoint), Ok(0));
        let status = fork::in_fork(|| {
            let refused = add(&endpoint) == Err(VerbError::Forked);
            let again = add(&ShmEndpoint::new(region.clone())) == Ok(1);
            if refused && again { 7 } else { 8 }
        });
        ShmRegion::remove(&name).unwrap();
        assert_eq!(status.unwrap(), 7);
        assert_eq!(add(&endpoint), Ok(2), "the parent goes on");
    }

    #[test]
    fn an_endpoint_lives_until_it_is_dropped_whichever_mapping_asks() {
        let name = format!("shm:/atoll-lives-{}", std::process::id());
        let regions = [ShmRegion::create(&name, 1 << 16).unwrap(), ShmRegion::open(&name).unwrap()].map(Arc::new);
        ShmRegion::remove(&name).unwrap();
        let asked =
            |who: Identity| regions.clone().map(|region| crate::run_ready(ShmEndpoint::new(region).is_dead(who)));
        let endpoints = [0, 0, 1].map(|region: usize| ShmEndpoint::new(regions[region].clone()));
        let who = endpoints.each_ref().map(Endpoint::identity);
        assert!(who[0] != who[1] && who[1] != who[2] && who[0] != who[2]);
        for who in who {
            assert_eq!(asked(who), [Ok(false), Ok(false)]);
        }
        let holders = regions[0].holders();
        assert_eq!((holders.pid(who[2]), holders.pids()), (Some(std::process::id()), vec![std::process::id()]));
        drop(endpoints);
        for who in who.into_iter().chain([Identity::NOBODY]) {
            assert_eq!(asked(who), [Ok(true), Ok(true)]);
        }
    }

    #[test]
    fn an_endpoint_of_memory_without_a_name_lives_until_it_is_dropped() {
        let region = Arc::new(ShmRegion::anonymous(1 << 16).unwrap());
        let [one, other] = [(); 2].map(|()| ShmEndpoint::new(region.clone()));
        let who = one.identity();
        assert_eq!(crate::run_ready(other.is_dead(who)), Ok(false));
        drop(one);
        assert_eq!(crate::run_ready(other.is_dead(who)), Ok(true));
    }

    #[test]
    fn a_fork_does_not_keep_its_parent_alive() {
        let name = format!("shm:/atoll-parent-{}", std::process::id());
        let observer = ShmEndpoint::new(Arc::new(ShmRegion::create(&name, 1 << 16).unwrap()));
        let at = Address::new(0, 0, 8);
        let poke = |endpoint: &ShmEndpoint, at: Address, value: u64| {
            let mut batch = Batch::new();
            batch.write_word(at, value);
            crate::run_ready(endpoint.post(&mut batch)).unwrap();
        };
        let peek = |endpoint: &ShmEndpoint, at: Address| {
            let mut batch = Batch::new();
            let word = batch.read_word(at);
            crate::run_ready(endpoint.post(&mut batch)).unwrap();
            batch.word(word)
        };
        // The child opens the region for itself and has a child of its own, which lives until it is
        // told to end.
        let status = fork::in_fork(|| {
            let parent = ShmEndpoint::new(Arc::new(ShmRegion::open(&name).unwrap()));
            poke(&parent, at, parent.identity().bits().into());
            fork::leave_fork(|| {
                let own = ShmEndpoint::new(Arc::new(ShmRegion::open(&name).unwrap()));
                let refused = parent.identity() == Identity::NOBODY || own.identity() == Identity::NOBODY;
                poke(&own, at.add(8), if refused && own.identity() != Identity::NOBODY { 1 } else { 2 });
                while peek(&own, at.add(16)) == 0 {
                    std::thread::yield_now();
                }
            });
            while peek(&parent, at.add(8)) == 0 {
                std::thread::yield_now();
            }
            7
        });
        let who = Identity::from_bits(peek(&observer, at) as u32);
        let is_dead = crate::run_ready(observer.is_dead(who));
        let grandchild = peek(&observer, at.add(8));
        poke(&observer, at.add(16), 1);
        ShmRegion::remove(&name).unwrap();
        assert_eq!((status.unwrap(), grandchild, is_dead), (7, 1, Ok(true)));
    }

    #[test]
    fn endpoints_of_a_fork_have_random_words_of_their_own() {
        let region = Arc::new(ShmRegion::anonymous(1 << 16).unwrap());
        let name = format!("shm:/atoll-random-{}", std::process::id());
        let shared = Arc::new(ShmRegion::create(&name, 1 << 16).unwrap());
        ShmRegion::remove(&name).unwrap();
        // What the thread has drawn before must not decide what it draws next.
        let _ = ShmEndpoint::new(region.clone()).random();
        let status = fork::in_fork(|| {
            let mut batch = Batch::new();
            batch.write_word(Address::new(0, 0, 8), ShmEndpoint::new(region.clone()).random());
            crate::run_ready(ShmEndpoint::new(shared.clone()).post(&mut batch)).map_or(8, |()| 7)
        });
        assert_eq!(status.unwrap(), 7);
        let mut batch = Batch::new();
        let word = batch.read_word(Address::new(0, 0, 8));
        crate::run_ready(ShmEndpoint::new(shared).post(&mut batch)).unwrap();
        assert_ne!(batch.word(word), ShmEndpoint::new(region).random());
    }

    #[test]
    fn what_one_mapping_writes_another_reads() {
        let name = format!("shm:/atoll-two-{}", std::process::id());
        let first = Arc::new(ShmRegion::create(&name, 1 << 16).unwrap());
        assert!(matches!(ShmRegion::create(&name, 1 << 16), Err(ShmError::Exists(_))));
        let second = Arc::new(ShmRegion::open(&name).unwrap());
        ShmRegion::remove(&name).unwrap();
        let (first, second) = (ShmEndpoint::new(first), ShmEndpoint::new(second));
        let mut batch = Batch::new();
        batch.write_word(Address::new(0, 0, 8), 42);
        crate::run_ready(first.post(&mut batch)).unwrap();
        let mut batch = Batch::new();
        let word = batch.read_word(Address::new(0, 0, 8));
        crate::run_ready(second.post(&mut batch)).unwrap();
        assert_eq!(batch.word(word), 42);
    }
}
