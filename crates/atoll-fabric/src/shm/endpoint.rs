//! One thread's access to the regions of this host.

use super::exports::Exports;
use super::follow::Following;
use super::mailbox::Inbox;
use super::nodes::ShmNodes;
use super::process::{self, ForkGuard};
use super::region::ShmRegion;
use crate::batch::BATCH_VERBS_MAX;
use crate::random::Random;
use crate::{
    Address, Batch, Buffer, Clock, Endpoint, FabricError, Identity, Intent, Limits, Origin, Region, RegionAttributes,
    VerbError,
};
use std::cell::{Cell, OnceCell, RefCell};
use std::future::ready;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// One thread's access to the regions of this host; region `i` of the list is `Address` region `i`
/// of node 0. Further nodes have one region each ([`ShmNodes`]).
pub struct ShmEndpoint {
    /// Never empty.
    pub(super) regions: Vec<Arc<ShmRegion>>,
    /// The regions of further nodes, if there can be any.
    pub(super) nodes: Option<Arc<ShmNodes>>,
    /// Start of node 0's region 0, which nearly every verb touches, and how many of its bytes are
    /// known to be present. Bytes beyond are checked by the slow path.
    pub(super) base: NonNull<u8>,
    pub(super) there: Cell<u64>,
    clock: Clock,
    random: Random,
    /// The process that made it. Only that process may use it.
    pub(super) guard: ForkGuard,
    pub(super) process: u64,
    /// Lent by the first region, at the first request.
    identity: OnceCell<Identity>,
    /// The first error of a batch that was posted unawaited, until a flush reports it.
    unawaited_error: Cell<Option<VerbError>>,
    pub(super) exports: Exports,
    pub(super) following: RefCell<Vec<Following>>,
    pub(super) inbox: Inbox,
}

// SAFETY: `base` points into `regions[0]`, which is `Send`, `Sync` and kept alive by this value.
unsafe impl Send for ShmEndpoint {}

impl ShmEndpoint {
    /// An endpoint over one region, on the host's clocks.
    pub fn new(region: Arc<ShmRegion>) -> Self {
        Self::with_regions(vec![region], Clock::host())
    }

    /// An endpoint over several regions and a given clock.
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
            random: Random::new(process::random_word()),
            guard,
            process,
            identity: OnceCell::new(),
            unawaited_error: Cell::new(None),
            exports: Exports::default(),
            following: RefCell::default(),
            inbox: Inbox::default(),
        }
    }

    /// The same endpoint with random words that `seed` determines, so that a run of one thread can
    /// be repeated.
    pub fn seeded(mut self, seed: u64) -> Self {
        self.random = Random::new(seed);
        self
    }

    /// The same endpoint, which also reaches further memory nodes.
    pub fn with_nodes(mut self, nodes: Arc<ShmNodes>) -> Self {
        self.nodes = Some(nodes);
        self
    }
}

impl Drop for ShmEndpoint {
    /// Its drop is its death: it posts nothing any more.
    fn drop(&mut self) {
        self.end_exports();
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
        // A fork may READ, since that changes nothing. All its other verbs are refused.
        ready(match self.words(at, into.len() as u64) {
            Some(words) => {
                words.load_into(into.words_mut());
                fence(Ordering::Acquire);
                self.check_end(at).map(|()| into)
            }
            None => Err(self.refusal(at, into.len() as u64)),
        })
    }

    fn read_into(
        &self,
        at: Address,
        into: &mut [u8],
        _spare: &mut Buffer,
    ) -> impl Future<Output = Result<(), VerbError>> {
        let (first, skip) = at.whole_word();
        let bytes = (skip + into.len()) as u64;
        ready(match self.words(first, bytes) {
            Some(words) => {
                words.load_bytes(skip, into);
                fence(Ordering::Acquire);
                self.check_end(first)
            }
            None => Err(self.refusal(first, bytes)),
        })
    }

    fn write_from(&self, at: Address, from: &[u8], _spare: &mut Buffer) -> impl Future<Output = Result<(), VerbError>> {
        ready(self.store(at, from))
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

    #[inline]
    fn flush(&self) -> impl Future<Output = Result<(), VerbError>> {
        fence(Ordering::SeqCst);
        ready(self.unawaited_error.take().map_or(Ok(()), Err))
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

    fn boot(&self) -> Option<u64> {
        process::boot()
    }

    fn random(&self) -> u64 {
        self.random.next()
    }

    async fn reach(&self, node: u8) -> Result<(), VerbError> {
        match &self.nodes {
            _ if node == 0 => Ok(()),
            Some(nodes) => nodes.reach(node),
            None => Err(VerbError::node_absent(node, "this endpoint was made for one node")),
        }
    }

    fn region_attributes(&self, node: u8) -> Option<RegionAttributes> {
        self.region_at(Address::new(node, 0, 0)).map(|region| region.attributes())
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

    fn export(&self, wanted: RegionAttributes) -> Result<Address, FabricError> {
        self.export_region(wanted)
    }

    fn reach_export(&self, at: Address) -> Result<RegionAttributes, VerbError> {
        self.reach_exported(at)
    }

    fn reach_export_if(&self, at: Address, word: u64) -> Result<bool, VerbError> {
        self.reach_exported_if(at, word)
    }

    fn follow(&self, at: Address) -> Result<(), FabricError> {
        self.follow_export(at)
    }

    #[inline]
    fn own_word(&self, at: Address) -> Option<u64> {
        self.followed_word(at)
    }

    /// Only messages are ever waited for.
    fn wait(&self) {
        if !self.sleep_for_message() {
            std::thread::yield_now();
        }
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
