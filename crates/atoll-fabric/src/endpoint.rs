//! The contract between protocols and fabrics.

use crate::{
    Address, Arrivals, Batch, Buffer, Domain, FabricError, Identity, Kind, Lifetime, Origin, RegionAttributes, Traffic,
    VerbError,
};
use std::future::Future;

/// The limits of a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most verbs of one batch, at most [`BATCH_VERBS_MAX`](crate::BATCH_VERBS_MAX).
    pub batch_verbs_max: usize,
    /// Most batches in flight; a further post waits.
    pub batches_max: usize,
    /// Most bytes of one READ or WRITE.
    pub verb_bytes_max: u64,
}

/// The purpose of a batch. The first four are the parts of FORGE's Fig. 3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Purpose {
    /// The application's operation: GET, SET and their like.
    #[default]
    Request,
    /// Reporting to the pool which objects are hot.
    Hotness,
    /// Making room: queueing full groups, finding victims, evicting them, and regrouping those that
    /// stay.
    Eviction,
    /// Counting dead bytes, and moving live objects out of groups with many dead bytes.
    Collection,
    /// Membership, leases and repair: the cost of an idle deployment.
    Upkeep,
}

impl Purpose {
    /// All purposes, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Request, Self::Hotness, Self::Eviction, Self::Collection, Self::Upkeep];

    /// The name in a report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Hotness => "hotness",
            Self::Eviction => "eviction",
            Self::Collection => "collection",
            Self::Upkeep => "upkeep",
        }
    }
}

/// What a client will do with the bytes that it [expects](Endpoint::expect).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// READ the bytes.
    Read,
    /// Write the bytes, by a WRITE or an atomic.
    Write,
}

/// What a fabric can prove of the region of a memory node, as other clients know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionState {
    /// Nothing: it may be there, whether this endpoint reaches it or not.
    Unknown,
    /// Its agent has not answered for long. It may be there, and clients may agree never to use it
    /// again: see [`Endpoint::forsake`].
    Silent,
    /// It is gone for good, and its agent is not there. No endpoint will reach its bytes again.
    Away,
    /// It is gone for good. Its agent is there and has none for this node, or an empty one: see
    /// [`Endpoint::remake`].
    Gone,
}

/// One thread's access to a fabric.
///
/// A protocol may rely only on the contract below.
///
/// **Order inside a batch, to one node.** All later verbs are in order after a WRITE. A READ is in
/// order after an atomic. All other pairs are unordered: READ then any verb, atomic then WRITE or
/// atomic. A [fence](Batch::fence) on the later verb orders such a pair. It, too, orders verbs to
/// the same node only. A failed compare-and-swap does not stop the verbs behind it. Batches in
/// flight are unordered, unless the fabric [keeps their order](Endpoint::keeps_order), and so are
/// verbs to different nodes.
///
/// **Atomicity.** Compare-and-swap and fetch-and-add act on one aligned word. A READ or WRITE takes
/// effect in aligned words, in any order of the words.
///
/// **Completion.** When [`Endpoint::post`] has ended, the effects of the batch are visible to every
/// verb that any endpoint posts later in the region's atomicity domain.
///
/// **Unawaited verbs.** [`Endpoint::post_unawaited`] sends verbs whose result the client does not
/// need. They take effect before [`Endpoint::flush`] ends. `flush` also returns their errors.
///
/// **Errors.** After an error no result of the batch is valid. A lent buffer may stay with the
/// fabric, so [`Batch::take`] may return an empty one. After [`VerbError::OutcomeUnknown`] every
/// effect of the batch may have taken place, or may take place at any later time, each
/// independently. This ends when the endpoint is known to be [dead](Endpoint::is_dead) or [shut
/// out](Endpoint::shut_out). The same holds for the verbs that a client had in flight when it died.
///
/// **Waiting.** Polling a future of this endpoint sends what waits to be sent and receives what has
/// arrived, for everything that the endpoint has in flight. A poll does not block. Nothing runs in
/// the background, and only polls make progress. A thread that has nothing to poll calls
/// [`Endpoint::wait`].
///
/// **Dropped futures.** Once its future was polled, a batch takes effect whole, even if the future
/// is dropped. Until then the buffers belong to the fabric.
///
/// **Time and randomness** of a protocol come from the endpoint, so that a simulation repeats
/// exactly.
#[allow(async_fn_in_trait)]
pub trait Endpoint {
    /// Posts the batch and waits for its results. The caller reads them from the batch.
    fn post(&self, batch: &mut Batch) -> impl Future<Output = Result<(), VerbError>>;

    /// A batch of one READ: fills `into` from `at` and returns it. Most lookups consist of these.
    fn read(&self, at: Address, into: Buffer) -> impl Future<Output = Result<Buffer, VerbError>> {
        async move {
            let mut batch = Batch::new();
            let read = batch.read(at, into);
            self.post(&mut batch).await?;
            Ok(batch.take(read))
        }
    }

    /// READs `into.len()` bytes from `at` on into memory of the caller. `at` need not be the first
    /// byte of a word. Where memory is [near](Endpoint::is_near) the bytes are copied once. By
    /// default they come through `spare`, which the fabric owns until the READ has ended.
    fn read_into(
        &self,
        at: Address,
        into: &mut [u8],
        spare: &mut Buffer,
    ) -> impl Future<Output = Result<(), VerbError>> {
        async move {
            let (first, skip) = at.whole_word();
            let mut buffer = std::mem::take(spare);
            buffer.resize((skip + into.len()).next_multiple_of(8));
            let buffer = self.read(first, buffer).await?;
            into.copy_from_slice(&buffer.bytes()[skip..skip + into.len()]);
            *spare = buffer;
            Ok(())
        }
    }

    /// WRITEs `from`, padded with zero bytes to whole words, at `at`. Where memory is
    /// [near](Endpoint::is_near) the bytes are copied once. By default they go through `spare`,
    /// which the fabric owns until the WRITE has ended.
    fn write_from(&self, at: Address, from: &[u8], spare: &mut Buffer) -> impl Future<Output = Result<(), VerbError>> {
        async move {
            let mut buffer = std::mem::take(spare);
            buffer.resize(from.len().next_multiple_of(8));
            let (bytes, padding) = buffer.bytes_mut().split_at_mut(from.len());
            bytes.copy_from_slice(from);
            padding.fill(0);
            let mut batch = Batch::new();
            let written = batch.write(at, buffer);
            self.post(&mut batch).await?;
            *spare = batch.take(written);
            Ok(())
        }
    }

    /// Sends the batch without waiting, and leaves it empty. Its results are never read.
    fn post_unawaited(&self, batch: &mut Batch);

    /// Waits until all unawaited verbs have taken effect.
    fn flush(&self) -> impl Future<Output = Result<(), VerbError>>;

    /// A hint that the `bytes` at `at` will soon be READ or written: near memory can start a
    /// prefetch. Only time depends on it, and an address outside every region is no error. Returns
    /// whether the fabric uses hints. If not, the caller need not spend effort on better hints.
    #[inline]
    fn expect(&self, at: Address, bytes: u64, intent: Intent) -> bool {
        let _ = (at, bytes, intent);
        false
    }

    /// Sets the `purpose` of later verbs, and returns the previous purpose. Only a fabric's counts
    /// depend on it, and most fabrics do not count. Protocols open a
    /// [`Scope`](crate::purpose::Scope) instead.
    #[inline]
    fn purpose(&self, purpose: Purpose) -> Purpose {
        purpose
    }

    /// Makes sure that verbs of this endpoint reach `node`, which another client has announced. On
    /// one host this maps the node's region. A control-plane call: it may take long, and callers do
    /// not repeat it for a node that was reached. By default every node is reached from the start.
    ///
    /// # Errors
    /// [`VerbError::NodeAbsent`] if there is no such node.
    fn reach(&self, node: u8) -> impl Future<Output = Result<(), VerbError>> {
        let _ = node;
        std::future::ready(Ok(()))
    }

    /// What the control plane can prove of the region of a memory node that was made at this
    /// endpoint's [place](Endpoint::place) of it. It may take long. By default nothing is proven.
    fn region_state(&self, node: u8) -> impl Future<Output = RegionState> {
        let _ = node;
        std::future::ready(RegionState::Unknown)
    }

    /// The memory nodes that are reached and [silent](RegionState::Silent), a bit each. By default
    /// none is.
    fn silent(&self) -> u64 {
        0
    }

    /// Whether an endpoint is dead, but perhaps for its access to silent memory nodes. By default
    /// as [`Endpoint::is_dead`].
    fn has_ended(&self, who: Identity) -> impl Future<Output = Result<bool, VerbError>> {
        self.is_dead(who)
    }

    /// Tells the fabric that no client will use the region of a silent memory node any more, nor
    /// any other region of its agent. From now on an endpoint may be dead although its access to
    /// those regions was not seen to end. By default there is nothing to tell.
    fn forsake(&self, node: u8) -> impl Future<Output = Result<(), VerbError>> {
        let _ = node;
        std::future::ready(Ok(()))
    }

    /// Removes the region of a memory node that was forsaken and answers again, if its first words
    /// show that it is that region. Returns whether it was removed. It may take long. By default
    /// there is none.
    fn remove_forsaken(&self, node: u8, is_it: &dyn Fn(&[u64]) -> bool) -> impl Future<Output = bool> {
        let _ = (node, is_it);
        std::future::ready(false)
    }

    /// Ends this endpoint although it still exists: its owner uses it no more. What is in flight
    /// may take effect or not. Others find it [dead](Endpoint::is_dead) as if it were dropped. By
    /// default it ends when it is dropped.
    fn end(&self) {}

    /// Whether this endpoint has ended, or the fabric has ended it. By default it has not while it
    /// exists.
    fn is_over(&self) -> bool {
        false
    }

    /// The agent that has the region of a memory node, as this process's address names it: the one
    /// whose region this endpoint reaches, or else the one on which it would be made. `None` if no
    /// two processes can differ in it. Processes that give the same text mean the same agent.
    fn place(&self, node: u8) -> Option<String> {
        let _ = node;
        None
    }

    /// Notes which agent has a memory node that this endpoint does not reach: the one whose text
    /// ([`Endpoint::place`]) satisfies `is_it`. Returns whether this process's address names such
    /// an agent. By default it names none.
    fn find_place(&self, node: u8, is_it: &dyn Fn(&str) -> bool) -> bool {
        let _ = (node, is_it);
        false
    }

    /// Creates the region of a memory node whose region is [gone](RegionState::Gone), all zero
    /// bytes, unless another client has created it. Its memory is provided meanwhile, and what a
    /// verb touches earlier is provided first. From now on verbs of this endpoint reach the new
    /// region. By default no region is created.
    ///
    /// # Errors
    /// [`VerbError::NodeAbsent`] if it cannot be created, or this endpoint cannot reach it: the
    /// endpoint reached the region that is gone.
    fn remake(&self, node: u8, bytes: u64) -> impl Future<Output = Result<(), VerbError>> {
        let _ = bytes;
        std::future::ready(Err(VerbError::node_absent(node, "this fabric creates no region anew")))
    }

    /// Exports a region of zero bytes, and returns the address of its first byte, on a compute
    /// node. Other endpoints use that address. From its first export on, the endpoint is that
    /// compute node, and no other living endpoint has the number. The region is removed when its
    /// owner is dropped or has died. A control-plane call. By default a fabric has no exports.
    ///
    /// # Errors
    /// [`FabricError::NoExport`] if the fabric has no region with such attributes.
    fn export(&self, wanted: RegionAttributes) -> Result<Address, FabricError> {
        Err(FabricError::NoExport { wanted, why: "this fabric has no exports" })
    }

    /// Makes sure that verbs of this endpoint reach the exported region of `at`, and returns its
    /// attributes. A control-plane call.
    ///
    /// A client calls this before it first uses a region, and again when it learns that the owner
    /// has changed. Once any endpoint was told that a region has ended, a verb to it of an endpoint
    /// that reached it before gets [`VerbError::PeerDead`], or a verb's error that says the same.
    /// So a verb that succeeds has found what all others still reached.
    ///
    /// # Errors
    /// [`VerbError::ExportAbsent`] if there is no such region, or its owner is dropped or dead.
    fn reach_export(&self, at: Address) -> Result<RegionAttributes, VerbError> {
        let (node, region) = (at.compute_node().unwrap_or_default(), at.region());
        Err(VerbError::export_absent(node, region, "this fabric has no exports"))
    }

    /// As [`Endpoint::reach_export`], but only if the word at `at` is this one; whether it is. If
    /// not, verbs of this endpoint reach what they reached before. A control-plane call.
    ///
    /// The number of a compute node is lent again once its endpoint has ended. A word that no other
    /// region has at that place tells a region from one that has its address later.
    ///
    /// # Errors
    /// As [`Endpoint::reach_export`]; also [`VerbError::ExportAbsent`] if there is no such word.
    fn reach_export_if(&self, at: Address, word: u64) -> Result<bool, VerbError> {
        let _ = word;
        let (node, region) = (at.compute_node().unwrap_or_default(), at.region());
        Err(VerbError::export_absent(node, region, "this fabric has no exports"))
    }

    /// From now on this process follows an exported region of its host: [`Endpoint::own_word`]
    /// answers for it. The endpoint that exports the region calls this first; then others of its
    /// process and of further processes of the host can. Another endpoint's verb that changes a
    /// word of it completes once this process sees the change, or will get no answer from
    /// `own_word` any more; so does any verb that finds that the region has ended. So a process
    /// that stands still delays others for a bounded time only. Each endpoint that asks calls this
    /// first. A control-plane call.
    ///
    /// # Errors
    /// [`FabricError::NoExport`] if the region is not of this host, has ended, or the fabric has no
    /// exports that can be followed.
    fn follow(&self, at: Address) -> Result<(), FabricError> {
        let _ = at;
        let bytes = 0;
        let wanted = RegionAttributes { bytes, kind: Kind::Host, domain: Domain::Cpu, lifetime: Lifetime::Process };
        Err(FabricError::NoExport { wanted, why: "this fabric has no exports that their process can follow" })
    }

    /// The present value of a word of a region that this process [follows](Endpoint::follow),
    /// without a verb. `None` from the moment on from which this process is not told of changes
    /// any more, and for as long as it cannot know whether it is.
    #[inline]
    fn own_word(&self, at: Address) -> Option<u64> {
        let _ = at;
        None
    }

    /// Makes sure that the host has memory for all of a span. Present bytes do not change, and
    /// repeated calls are harmless. `false` if the host has no memory left. A control-plane call:
    /// it may take long. By default all memory is present from the start.
    fn provide(&self, at: Address, bytes: u64) -> impl Future<Output = Result<bool, VerbError>> {
        let _ = (at, bytes);
        std::future::ready(Ok(true))
    }

    /// Returns the memory of a span to the host, as far as possible; returns how many bytes. A
    /// control-plane call.
    ///
    /// No verb may touch the span until it is [provided](Endpoint::provide) again. Its bytes are
    /// zero then. A verb that touches it earlier may kill its process. Only where round trips are
    /// [near](Endpoint::is_near) can a caller guarantee that of all clients; elsewhere clients
    /// remember addresses. By default no memory is returned.
    fn discard(&self, at: Address, bytes: u64) -> impl Future<Output = Result<u64, VerbError>> {
        let _ = (at, bytes);
        std::future::ready(Ok(0))
    }

    /// What was fixed when a node's region was created; `None` for a node that this endpoint does
    /// not reach.
    fn region_attributes(&self, node: u8) -> Option<RegionAttributes>;

    /// Bytes of a node's region; `None` for a node that this endpoint does not reach.
    fn region_bytes(&self, node: u8) -> Option<u64> {
        self.region_attributes(node).map(|attributes| attributes.bytes)
    }

    /// How many bytes of a node's region are known to have memory, from the first byte on. By
    /// default all.
    fn provided(&self, node: u8) -> u64 {
        let _ = node;
        u64::MAX
    }

    /// Notes that the first `bytes` of a node's region have memory, as another client has found
    /// out. By default it does nothing.
    fn note_provided(&self, node: u8, bytes: u64) {
        let _ = (node, bytes);
    }

    /// Reports work of the protocol that occupies a processor for this long and uses no fabric. If
    /// time is simulated, and the work itself takes no simulated time, this client's processor is
    /// busy for that long. Elsewhere this does nothing, because the work takes its real time.
    #[inline]
    fn charge(&self, ns: u64) {
        let _ = ns;
    }

    /// Blocks the thread until a pending future of this endpoint may make progress, or for a short
    /// time of the fabric's choice. See [`block_on`](crate::block_on). By default no future is ever
    /// pending because of this endpoint, and this only yields the processor.
    fn wait(&self) {
        std::thread::yield_now();
    }

    /// How a thread waits for this endpoint that waits for other things, too. By default it can
    /// only poll.
    #[inline]
    fn arrivals(&self) -> Option<&dyn Arrivals> {
        None
    }

    /// Waits `ns` nanoseconds, so that another client can make progress.
    fn pause(&self, ns: u64) -> impl Future<Output = ()>;

    /// Monotone time of this host in nanoseconds from an arbitrary origin, for durations.
    fn now_ns(&self) -> u64;

    /// Milliseconds since the Unix epoch, by this host's wall clock. It may be wrong by any amount,
    /// and may jump.
    fn unix_ms(&self) -> u64;

    /// Milliseconds of the agent's clock, from an arbitrary origin. On one host it is the kernel's
    /// clock, which counts while the host sleeps. It never goes back until the agent restarts, and
    /// every endpoint that can read it reads the same clock. `None` if the endpoint cannot read it.
    fn agent_ms(&self) -> Option<u64>;

    /// The id of the boot of the region's agent; on one host, of the kernel. No other boot has it,
    /// and it is never 0. `None` if it is unknown.
    fn boot(&self) -> Option<u64>;

    /// A random word.
    fn random(&self) -> u64;

    /// The limits of the fabric.
    fn limits(&self) -> Limits;

    /// What this endpoint has sent to other hosts. Zeros where memory is near: nothing is counted.
    #[inline]
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }

    /// Whether a round trip costs no more than an access to local memory. Then remembering its
    /// result does not pay.
    #[inline]
    fn is_near(&self) -> bool {
        false
    }

    /// Whether batches that this endpoint posts to one memory node take effect in the order of
    /// their posts. By default they may overtake each other.
    #[inline]
    fn keeps_order(&self) -> bool {
        false
    }

    /// The identity of this endpoint. An endpoint that shares words with other endpoints publishes
    /// it there before its first effect, so that its death can be proven.
    fn identity(&self) -> Identity;

    /// The location of this endpoint, for display.
    fn origin(&self) -> Origin;

    /// Whether `who` is dead. Then no verb of it will ever take effect again, including verbs in
    /// flight and verbs with an unknown outcome. `false` if it may still write, or if its state is
    /// unknown: memory that it could write must not be reused. The call only observes, so a client
    /// may ask about any endpoint at any time. An identity that no living endpoint has is dead.
    fn is_dead(&self, who: Identity) -> impl Future<Output = Result<bool, VerbError>>;

    /// Shuts `who` out, if the fabric can and its lease rule permits it. `true` once it is as good
    /// as dead, as [`is_dead`](Endpoint::is_dead) defines it. The caller has seen the lease of
    /// `who` stand still. Repeated calls are harmless.
    ///
    /// A fabric that cannot force a shutout only observes. On one host a process that is merely
    /// paused keeps what it holds.
    fn shut_out(&self, who: Identity) -> impl Future<Output = Result<bool, VerbError>>;

    /// The fabric's name as users write it: `shm`, `tcp`, `verbs`, `sim`.
    fn fabric(&self) -> &'static str;
}
