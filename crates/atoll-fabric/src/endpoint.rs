//! The contract between protocols and fabrics.

use crate::{Address, Batch, Buffer, FabricError, Identity, Origin, RegionAttributes, VerbError};
use std::future::Future;

/// What a fabric can take at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most verbs of one batch, at most [`BATCH_VERBS_MAX`](crate::BATCH_VERBS_MAX).
    pub batch_verbs_max: usize,
    /// Most batches in flight; a further post waits.
    pub batches_max: usize,
    /// Most bytes of one READ or WRITE.
    pub verb_bytes_max: u64,
}

/// What a batch is sent for. The first four are the parts of FORGE's Fig. 3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Purpose {
    /// What the application asked for: GET, SET and their like.
    #[default]
    Request,
    /// Telling the pool which objects are hot.
    Hotness,
    /// Making room: queueing full groups, finding victims, removing them, and regrouping those of
    /// them that stay.
    Eviction,
    /// Counting what is dead, and moving what lives out of groups of which much is dead.
    Collection,
    /// Membership, leases, repair: what a deployment costs that does nothing.
    Upkeep,
}

impl Purpose {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Request, Self::Hotness, Self::Eviction, Self::Collection, Self::Upkeep];

    /// Its name in a report.
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

/// What a client means to do with the bytes that it [expects](Endpoint::expect).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// READ them.
    Read,
    /// Write them, by a WRITE or an atomic.
    Write,
}

/// One thread's access to a fabric.
///
/// Only what stands here may be relied on.
///
/// **Order inside a batch, to one node.** (A fence flag, too, orders verbs to the same node only.)
/// After a WRITE everything is in order. After an atomic a READ is in order. Everything else (READ
/// then anything, atomic then WRITE or atomic) is unordered unless the later verb is
/// [fenced](Batch::fence). A failed compare-and-swap does not stop the verbs behind it. Between
/// batches in flight, and between nodes, there is no order.
///
/// **Atomicity.** Compare-and-swap and fetch-and-add act on one aligned word. A READ or WRITE takes
/// effect in aligned words, in any order of the words.
///
/// **Completion.** When [`Endpoint::post`] has ended, the effects of the batch are visible to every
/// verb that anyone posts later in the region's atomicity domain.
///
/// **Posted, not awaited.** [`Endpoint::post_unawaited`] sends verbs whose result the client does
/// not need. They take effect before [`Endpoint::flush`] ends, which also reports what went wrong
/// with them.
///
/// **Errors.** After one, no result of the batch counts, and a buffer that was lent may stay with
/// the fabric: what [`Batch::take`] gives back then may be empty. After
/// [`VerbError::OutcomeUnknown`] every effect of the batch may have taken place, or take place at
/// any later time, each by itself, until this endpoint is known to be [dead](Endpoint::is_dead) or
/// [shut out](Endpoint::shut_out). So may the effects of what a client had in flight when it died.
///
/// **Waiting.** A future of this endpoint that is polled sends what waits to be sent and takes in
/// what has arrived, for everything that the endpoint has in flight, and does not block. Nothing
/// else does, and nothing runs in the background. A thread that has nothing to poll calls
/// [`Endpoint::wait`].
///
/// **Dropped futures.** Once polled, a batch takes effect whole even if its future is dropped.
/// Buffers belong to the fabric until then.
///
/// **Time and randomness** of a protocol come from here, so that a simulation repeats to the bit.
#[allow(async_fn_in_trait)]
pub trait Endpoint {
    /// Posts the batch and waits for its results, which are then read from the batch.
    fn post(&self, batch: &mut Batch) -> impl Future<Output = Result<(), VerbError>>;

    /// A batch of one READ: fills `into` from `at` and gives it back. What most lookups are made
    /// of.
    fn read(&self, at: Address, into: Buffer) -> impl Future<Output = Result<Buffer, VerbError>> {
        async move {
            let mut batch = Batch::new();
            let read = batch.read(at, into);
            self.post(&mut batch).await?;
            Ok(batch.take(read))
        }
    }

    /// Sends the batch without waiting; its results are never read. Leaves the batch empty.
    fn post_unawaited(&self, batch: &mut Batch);

    /// Waits until everything that was posted unawaited has taken effect.
    fn flush(&self) -> impl Future<Output = Result<(), VerbError>>;

    /// A hint that the `bytes` at `at` will soon be READ, or written: memory that is near can begin
    /// to come nearer. Nothing but time depends on it, and a place outside every region is no
    /// error. Gives whether the fabric makes use of hints: where it does not, a caller need not go
    /// to any length to give better ones.
    #[inline]
    fn expect(&self, at: Address, bytes: u64, intent: Intent) -> bool {
        let _ = (at, bytes, intent);
        false
    }

    /// From now on, what is posted is for `purpose`; gives what it was before. Nothing but a
    /// fabric's counts depends on it, and most fabrics do not count. Protocols open a
    /// [`Scope`](crate::purpose::Scope) instead.
    #[inline]
    fn purpose(&self, purpose: Purpose) -> Purpose {
        purpose
    }

    /// Makes sure that verbs of this endpoint reach `node`, which another client says is there now:
    /// on one host its region is mapped. Of the control plane: it may take long, and is never asked
    /// for a node that was reached before. By default every node is reached from the start.
    ///
    /// # Errors
    /// [`VerbError::NodeAbsent`] if there is no such node.
    fn reach(&self, node: u8) -> impl Future<Output = Result<(), VerbError>> {
        let _ = node;
        std::future::ready(Ok(()))
    }

    /// Exports a region of zero bytes, which other endpoints address by what this gives: its first
    /// byte, on a compute node. The endpoint is that compute node from its first export on; no
    /// other one that lives has the number. The region goes when its owner is dropped or has died.
    /// Of the control plane. By default a fabric has no exports.
    ///
    /// # Errors
    /// [`FabricError::NoExport`] if the fabric has no region with such attributes.
    fn export(&self, wanted: RegionAttributes) -> Result<Address, FabricError> {
        Err(FabricError::NoExport { wanted, why: "this fabric has no exports" })
    }

    /// Makes sure that verbs of this endpoint reach the exported region of `at`, and gives its
    /// attributes. Of the control plane. A client that learns of a region asks before it uses it,
    /// and asks again once it learns that the owner is another: an endpoint that reached the region
    /// of an owner that is gone goes on to reach its bytes, which no other endpoint sees, or is
    /// told [`VerbError::PeerDead`].
    ///
    /// # Errors
    /// [`VerbError::ExportAbsent`] if there is no such region, or its owner is gone.
    fn reach_export(&self, at: Address) -> Result<RegionAttributes, VerbError> {
        let (node, region) = (at.compute_node().unwrap_or_default(), at.region());
        Err(VerbError::export_absent(node, region, "this fabric has no exports"))
    }

    /// Makes sure that the host has memory for all of a span: nothing that is there changes, and
    /// asking again is harmless. `false` if the host has none left. Of the control plane: it may
    /// take long. By default all memory is there from the start.
    fn provide(&self, at: Address, bytes: u64) -> impl Future<Output = Result<bool, VerbError>> {
        let _ = (at, bytes);
        std::future::ready(Ok(true))
    }

    /// Gives the memory of a span back to the host, as far as it can be; how many bytes. Of the
    /// control plane. No verb may touch the span until it is [provided](Endpoint::provide) again:
    /// its bytes are zero then, and a verb that comes before may kill its process. Only where round
    /// trips are [near](Endpoint::is_near) can that be said of all clients, which else remember
    /// addresses; by default nothing is given back.
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

    /// How many bytes of a node's region the host is known to have memory for, from the first byte
    /// on. By default for all.
    fn provided(&self, node: u8) -> u64 {
        let _ = node;
        u64::MAX
    }

    /// Of a node's region the host has memory for the first `bytes`, as another client has found
    /// out. By default nothing comes of it.
    fn note_provided(&self, node: u8, bytes: u64) {
        let _ = (node, bytes);
    }

    /// Work of the protocol's own that takes a processor so long and passes no fabric: where time
    /// is simulated, and the work itself takes none of it, this client's processor is busy for so
    /// long. Elsewhere the work takes what it takes, and this does nothing.
    #[inline]
    fn charge(&self, ns: u64) {
        let _ = ns;
    }

    /// Blocks the thread until a future of this endpoint that is pending may get further, or for a
    /// short time of the fabric's choice. See [`block_on`](crate::block_on). By default no future
    /// is ever pending because of this endpoint, and this only yields the processor.
    fn wait(&self) {
        std::thread::yield_now();
    }

    /// Lets `ns` nanoseconds pass, so that another client can make progress.
    fn pause(&self, ns: u64) -> impl Future<Output = ()>;

    /// Monotone time of this host in nanoseconds from an arbitrary origin, for durations.
    fn now_ns(&self) -> u64;

    /// Milliseconds since the Unix epoch, as this host believes; may be wrong by any amount, and
    /// jump.
    fn unix_ms(&self) -> u64;

    /// Milliseconds of the clock that the region's agent keeps, from an arbitrary origin: on one
    /// host the kernel's, which counts while the host sleeps. It never goes back until the agent
    /// starts again, and every endpoint that has it reads the same clock. `None` where it cannot be
    /// asked.
    fn agent_ms(&self) -> Option<u64>;

    /// A number of the boot of the region's agent: on one host the kernel's. No other boot has it,
    /// and it is never 0. `None` where it cannot be told.
    fn boot(&self) -> Option<u64>;

    /// A random word.
    fn random(&self) -> u64;

    /// What the fabric can take at once.
    fn limits(&self) -> Limits;

    /// Whether a round trip costs no more than a look at memory of one's own, so that it does not
    /// pay to remember what it gave.
    #[inline]
    fn is_near(&self) -> bool {
        false
    }

    /// Which endpoint this is. What shares words with others puts it there before its first effect,
    /// so that its death can be proven.
    fn identity(&self) -> Identity;

    /// Where this endpoint is, for display.
    fn origin(&self) -> Origin;

    /// Whether `who` is dead: no verb of it will ever take effect again, those in flight and those
    /// with an unknown outcome included. `false` if it may still write, or that cannot be told:
    /// what it could write must not be reused. Observes and never harms, so that a client may ask
    /// it of any other at any time. An identity that no living endpoint has is dead.
    fn is_dead(&self, who: Identity) -> impl Future<Output = Result<bool, VerbError>>;

    /// Shuts `who` out if the fabric can and its lease rule permits it; `true` once it is as good
    /// as dead, in the words of [`is_dead`](Endpoint::is_dead). The caller has seen its lease stand
    /// still. Asking again is harmless.
    ///
    /// A fabric that cannot force observes: on one host a process that merely stands still keeps
    /// what it holds.
    fn shut_out(&self, who: Identity) -> impl Future<Output = Result<bool, VerbError>>;

    /// The fabric's name as users write it: `shm`, `tcp`, `verbs`, `sim`.
    fn fabric(&self) -> &'static str;
}
