//! A client of a compute node's near cache.
//!
//! A compute node begins with a client that [joins](Near::join) the directory and exports the near
//! region. Clients of further threads, and of further processes of the host, [attach](Near::attach)
//! to it.
//!
//! A client has many operations in flight at once, on one thread. Reads may be dropped at any time.
//! One that was making a copy costs the node a segment until the client ends. Any other operation
//! that was polled must be polled to its end: a write invalidates copies after it has changed the
//! object.
//!
//! | what ends | the others of the node |
//! |---|---|
//! | a client that has attached, or its process | go on. Its completed writes stay. [`Near::look_after_members`] ends the copies that an unfinished write may have left old |
//! | the client that joined, or its process | get [`NearError::Ended`] by the next operation once the region has ended. They [detach](Near::detach); one joins, the others attach to it ([`HostNode`](crate::HostNode)) |
//!
//! No operation of theirs succeeds on a region of which any endpoint was told that it is gone
//! ([`Endpoint::reach_export`]). So other nodes need not wait for them. A client whose verb has an
//! unknown outcome is dropped, not detached.

use crate::absence::Seen;
use crate::central::{Asking, OBJECT_BYTES_MAX};
use crate::count::{Counting, Counts};
use crate::directory::{Directory, Stripe};
use crate::error::NearError;
use crate::hole::{Hole, Open};
use crate::members::{MemberWord, View};
use crate::node::{Layout, NodeOptions};
use crate::object::Object;
use crate::profit::{Access, Latencies};
use crate::records::Filling;
use crate::verbs::{read_word, write_word};
use atoll_fabric::shm::HostMemory;
use atoll_fabric::{Address, Buffer, Endpoint, VerbError};
use atoll_pool::loan::Lender;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Buffers that a client keeps.
const SPARE_MAX: usize = 8;
/// Where memory is near, one operation in so many is timed: reading a clock takes a good part of a
/// hit.
const NEAR_TIMED: u32 = 16;

/// What an application asks for instead of waiting for the profit model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// The objects of the stripe may be cached.
    On,
    /// They may not.
    Off,
    /// They may not, for good.
    Pin,
}

/// A client of a compute node's near cache.
pub struct Near<E> {
    pub(crate) endpoint: E,
    pub(crate) directory: Directory,
    pub(crate) layout: Layout,
    /// The place of the compute node in the table of members.
    pub(crate) place: Cell<usize>,
    /// The node's member word when this client joined or attached. It never changes afterwards.
    pub(crate) member: Cell<MemberWord>,
    /// The place of a further client.
    pub(crate) client_place: Cell<Option<usize>>,
    pub(crate) view: RefCell<View>,
    pub(crate) filling: Cell<Filling>,
    /// WRITEs of records that are under way.
    pub(crate) publishing: Cell<u32>,
    /// Segments of which such a WRITE was dropped: it may land at any time.
    pub(crate) abandoned: RefCell<Vec<u64>>,
    /// What this client knows of memory nodes.
    pub(crate) seen: Seen,
    pub(crate) latencies: Latencies,
    pub(crate) counting: Counting,
    /// Stripes of which an operation of this client is the node's writer. A word with this client's
    /// identity may also be what an earlier client of the same identity left.
    pub(crate) writing: RefCell<Vec<u64>>,
    /// Whether an operation of this client buries a member.
    pub(crate) is_burying: Cell<bool>,
    /// Operations under way that may be dropped, and may find a dead member.
    pub(crate) may_be_dropped: Cell<u32>,
    /// By this other processes of the host find the node.
    _host: Option<Arc<HostMemory>>,
    /// The transition that this client saw last: stripe, mode word, and when it first saw that.
    pub(crate) transition: Cell<(u64, u64, u64)>,
    /// For requests to the manager, one at a time.
    pub(crate) asking: Lender<Asking>,
    /// For slots that are replaced by turns.
    pub(crate) turn: Cell<usize>,
    pub(crate) open: Open,
    operations: Cell<u32>,
    spare: RefCell<Vec<Buffer>>,
}

impl<E: Endpoint> Near<E> {
    pub(crate) fn new(endpoint: E, directory: Directory, layout: Layout) -> Self {
        Self {
            endpoint,
            directory,
            layout,
            place: Cell::new(usize::MAX),
            member: Cell::default(),
            client_place: Cell::new(None),
            view: RefCell::new(View::EMPTY),
            filling: Cell::new(Filling::Nothing),
            publishing: Cell::new(0),
            abandoned: RefCell::default(),
            seen: Seen::default(),
            latencies: Latencies::default(),
            counting: Counting::default(),
            writing: RefCell::default(),
            is_burying: Cell::new(false),
            may_be_dropped: Cell::new(0),
            _host: None,
            transition: Cell::new((0, 0, 0)),
            asking: Lender::new(Asking::default()),
            turn: Cell::new(0),
            open: Open::default(),
            operations: Cell::new(0),
            spare: RefCell::new(Vec::new()),
        }
    }

    /// Joins the directory as a new compute node, whose near region this client exports.
    ///
    /// # Errors
    /// [`NearError::Option`], [`NearError::Full`], [`NearError::Export`], or a verb's error. A
    /// compute node that is a member by then is buried, as a dead one.
    pub async fn join(endpoint: E, directory: Directory, options: NodeOptions) -> Result<Self, NearError> {
        Self::join_as(endpoint, directory, options, Open::default(), |_| 0).await
    }

    /// The same, where the region at an address has this nonce.
    pub(crate) async fn join_as_host(
        endpoint: E,
        directory: Directory,
        options: NodeOptions,
        nonce: impl FnOnce(Address) -> u64,
    ) -> Result<Self, NearError> {
        Self::join_as(endpoint, directory, options, Open::default(), nonce).await
    }

    /// Joins with a guard switched off from the beginning.
    ///
    /// # Errors
    /// As [`Near::join`].
    #[cfg(feature = "holes")]
    pub async fn join_with_hole(
        endpoint: E,
        directory: Directory,
        options: NodeOptions,
        hole: Option<crate::Hole>,
    ) -> Result<Self, NearError> {
        let mut open = Open::default();
        open.open(hole);
        Self::join_as(endpoint, directory, options, open, |_| 0).await
    }

    async fn join_as(
        endpoint: E,
        directory: Directory,
        options: NodeOptions,
        open: Open,
        nonce: impl FnOnce(Address) -> u64,
    ) -> Result<Self, NearError> {
        let layout = Layout::of(&options, &directory)?.export(&endpoint, &directory, nonce).await?;
        let near = Self { open, ..Self::new(endpoint, directory, layout) };
        let is_member_first = !near.open.lacks(Hole::MemberBeforeModes);
        if !is_member_first {
            near.learn_modes().await?;
        }
        near.occupy().await?;
        if is_member_first {
            near.learn_modes().await?;
        }
        // What a further client relies on is there.
        write_word(&near.endpoint, near.layout.closed_at(), 0).await?;
        Ok(near)
    }

    /// A further client of the compute node that exports its near region at `region`.
    ///
    /// # Errors
    /// [`NearError::NoDirectory`] if the region is none of the directory's, or has ended, or its
    /// exporter has not joined yet or leaves. [`NearError::Crowded`]. Or a verb's error.
    pub async fn attach(endpoint: E, directory: Directory, region: Address) -> Result<Self, NearError> {
        Self::try_attach(endpoint, &directory, region, None).await.map_err(|(_, error)| error)
    }

    /// The same to the region with this nonce; if it fails, the endpoint comes back.
    pub(crate) async fn try_attach(
        endpoint: E,
        directory: &Directory,
        region: Address,
        nonce: Option<u64>,
    ) -> Result<Self, (E, NearError)> {
        let (layout, member) = match Layout::open(&endpoint, region, directory, nonce).await {
            Ok(opened) => opened,
            Err(NearError::Verb(error)) if error.is_of_ended_export() => {
                return Err((endpoint, NearError::NoDirectory { what: "no near region is there" }));
            }
            Err(error) => return Err((endpoint, error)),
        };
        let near = Self::new(endpoint, directory.clone(), layout);
        match near.or_ended(near.find_place(member).await).await {
            Ok(()) => Ok(near),
            Err(error) => Err((near.endpoint, error)),
        }
    }

    /// Ends a client that has joined, and its compute node. Without it, others find the client
    /// dead, and bury its node. If clients are attached that live, their node ends as if this one
    /// were dropped. One that has attached [detaches](Near::detach).
    ///
    /// # Errors
    /// A verb's error; then others find the node dead.
    pub async fn leave(self) -> Result<(), NearError> {
        if self.client_place.get().is_some() {
            return self.detach().await;
        }
        self.vacate().await
    }

    /// The same, where the endpoint is to be a client of another node: its near region stays until
    /// the endpoint ends, and no other node uses it.
    pub(crate) async fn leave_for_another(self) -> Result<E, NearError> {
        self.vacate().await?;
        Ok(self.endpoint)
    }

    /// Ends a client that has attached, also after [`NearError::Ended`].
    ///
    /// # Errors
    /// A verb's error; then others find its segment's owner dead.
    pub async fn detach(self) -> Result<(), NearError> {
        // A WRITE of a dropped read may still be under way: then the segment keeps its owner.
        let filling = self.filling.replace(Filling::Nothing);
        if self.publishing.get() == 0 {
            match self.release(filling).await {
                // With its region the segment has ended, too.
                Err(error) if !error.is_of_ended_export() => return Err(error.into()),
                Ok(()) | Err(_) => {}
            }
        }
        self.vacate_client().await
    }

    /// The same client, which keeps the memory of its host.
    pub(crate) fn known_to(self, host: Arc<HostMemory>) -> Self {
        Self { _host: Some(host), ..self }
    }

    /// Switches a guard off.
    #[cfg(feature = "holes")]
    pub fn open_hole(&mut self, hole: Option<crate::Hole>) {
        self.open.open(hole);
    }

    /// The near region of the compute node, for [`Near::attach`].
    pub fn region(&self) -> Address {
        self.layout.base
    }

    /// What this client has counted.
    pub fn counts(&self) -> Counts {
        self.counting.get()
    }

    /// The client's endpoint.
    pub fn endpoint(&self) -> &E {
        &self.endpoint
    }

    /// The stripe of an object, with the hash of its address, for an operation of the application.
    /// `None` if the object is never cached.
    ///
    /// # Errors
    /// [`NearError::NodeAway`] if its memory node has ended.
    pub(crate) async fn stripe_in_use(&self, object: &Object) -> Result<Option<(Stripe, u64)>, NearError> {
        let found = self.stripe(object);
        if let Some((stripe, _)) = found
            && !self.uses(stripe.node())
        {
            self.look_before_use(stripe.node()).await?;
        }
        Ok(found)
    }

    /// The stripe of an object, with the hash of its address. `None` if it is never cached.
    pub(crate) fn stripe(&self, object: &Object) -> Option<(Stripe, u64)> {
        let protocol = self.directory.options().protocol;
        if !protocol.caches() || protocol.has_manager() && object.bytes() > OBJECT_BYTES_MAX {
            return None;
        }
        let hash = rapidhash::v3::rapidhash_v3(&object.at().to_bits().to_le_bytes());
        Some((self.directory.stripe(object, hash)?, hash))
    }

    /// An operation's outcome, where an error tells whether this node's own region has ended.
    #[inline]
    pub(crate) async fn or_ended<T>(&self, outcome: Result<T, NearError>) -> Result<T, NearError> {
        match outcome {
            Ok(found) => Ok(found),
            // Boxed: its state would enlarge every operation.
            Err(error) => Err(Box::pin(self.ended_or(error)).await),
        }
    }

    /// Tells the end of this node's own region from that of a memory node.
    async fn ended_or(&self, error: NearError) -> NearError {
        let NearError::Verb(verb) = &error else { return error };
        let may_be =
            verb.is_of_ended_export() && self.look_at_own_region().await.is_err_and(|own| own.is_of_ended_export());
        if may_be { NearError::Ended } else { error }
    }

    /// A verb that fails once this node's own region has ended.
    pub(crate) async fn look_at_own_region(&self) -> Result<(), VerbError> {
        read_word(&self.endpoint, Layout::losses_on(self.layout.base)).await.map(drop)
    }

    pub(crate) fn spare(&self, bytes: usize) -> Buffer {
        let mut buffer = self.spare.borrow_mut().pop().unwrap_or_default();
        buffer.resize(bytes);
        buffer
    }

    pub(crate) fn give_back(&self, buffer: Buffer) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE_MAX {
            spare.push(buffer);
        }
    }

    /// When an operation began, if it is timed.
    #[inline]
    pub(crate) fn begun(&self) -> Option<u64> {
        let operations = self.operations.get().wrapping_add(1);
        self.operations.set(operations);
        let is_timed = !self.endpoint.is_near() || operations.is_multiple_of(NEAR_TIMED);
        is_timed.then(|| self.endpoint.now_ns())
    }

    pub(crate) fn timed(&self, access: Access, begun: Option<u64>) {
        if let Some(begun) = begun {
            self.latencies.add(access, self.endpoint.now_ns().saturating_sub(begun));
        }
    }
}
