//! The near region of a compute node: all that its threads share, exported on the fabric.
//!
//! ```text
//!    0  magic, member, sizes                data; member: 0 until it tries to take a place
//!   40  closed                              0 while clients may attach: from when the exporter has
//!                                           joined until it leaves
//!   48  nonce                               data: see `export`; 0 for no host's
//!   64  losses                              atomics by any node: no earlier record is valid
//!  128  joins                               atomics of other nodes: a member has joined
//!  192  cursor of segments                  atomics of this node
//!  256  64 x incarnation of a memory node   atomics of this node: whose modes it believes
//!  768  stripes x 64 bytes                  see `stripe`
//!       buckets x 8 slots                   atomics of this node; see `records`
//!       segments x (generation, owner)      atomics of this node
//!       segments                            owned: the client in the owner word WRITEs
//! ```
//!
//! Other compute nodes change the invalidation words of stripes, `losses` and `joins`, by
//! fetch-and-add alone. This node adds to `losses`, too, through the fabric. All else belongs to
//! the clients of this node. Invalidation words are never reset, and they stay at their place for
//! as long as the region exists. So a late fetch-and-add costs a miss, and harms nothing.

use crate::directory::{Directory, MAGIC, Stripe, TABLES_MAX};
use crate::error::NearError;
use crate::verbs::write_word;
use atoll_fabric::{Address, Batch, Buffer, Endpoint, Kind, Lifetime, RegionAttributes, VerbError};

const MEMBER: u64 = 8;
const SEGMENT_BYTES: u64 = 16;
const SEGMENTS: u64 = 24;
const BUCKETS: u64 = 32;
const CLOSED: u64 = 40;
const NONCE: u64 = 48;
const LOSSES: u64 = 64;
const JOINS: u64 = 128;
const CURSOR: u64 = 192;
const INCARNATIONS: u64 = 256;
const STRIPES: u64 = INCARNATIONS + 8 * TABLES_MAX as u64;
const HEADER_WORDS: usize = 7;
/// Bytes of a stripe, and of a bucket.
pub(crate) const LINE_BYTES: u64 = 64;
const SEGMENT_WORDS_BYTES: u64 = 16;

const SEGMENTS_MIN: u64 = 4;
/// A slot names a segment in 16 bits.
pub(crate) const SEGMENTS_MAX: u64 = 1 << 16;
/// A slot names a record's place in units of 16 bytes, in 16 bits.
const SEGMENT_BYTES_MAX: u64 = 1 << 20;
/// What a record takes on average, for the number of buckets.
const RECORD_BYTES_MEAN: u64 = 256;

/// The near cache of a compute node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeOptions {
    /// Bytes for copies, with their index; 64 MiB by default. It is a hard limit. The stripes of
    /// the directory come on top: see [`DirectoryOptions`](crate::DirectoryOptions).
    pub bytes: u64,
    /// Bytes of a segment, a multiple of 64; the largest object that is cached is 48 bytes
    /// smaller. 64 KiB by default. Each client of the node fills a segment of its own.
    pub segment_bytes: u64,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self { bytes: 64 << 20, segment_bytes: 64 << 10 }
    }
}

/// Where everything of a near region is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub(crate) base: Address,
    pub(crate) stripes: u64,
    pub(crate) buckets: u64,
    pub(crate) segments: u64,
    pub(crate) segment_bytes: u64,
}

impl Layout {
    /// A layout for the options.
    ///
    /// # Errors
    /// [`NearError::Option`] if the segments are too few, too many or too large.
    pub(crate) fn of(options: &NodeOptions, directory: &Directory) -> Result<Self, NearError> {
        let NodeOptions { bytes, segment_bytes } = *options;
        if !segment_bytes.is_multiple_of(LINE_BYTES) || !(LINE_BYTES..=SEGMENT_BYTES_MAX).contains(&segment_bytes) {
            let wanted = "a multiple of 64 from 64 to 1048576";
            return Err(NearError::Option { what: "the size of a segment in bytes", found: segment_bytes, wanted });
        }
        // Half of the slots are in use when all records have the mean size.
        let buckets = (bytes / RECORD_BYTES_MEAN / 4).max(1).next_power_of_two();
        let index_bytes = buckets * LINE_BYTES;
        let segments = bytes.saturating_sub(index_bytes) / (segment_bytes + SEGMENT_WORDS_BYTES);
        if !(SEGMENTS_MIN..=SEGMENTS_MAX).contains(&segments) {
            let wanted = "a size of 6 to 65536 segments (see NodeOptions::segment_bytes)";
            return Err(NearError::Option { what: "the near cache in bytes", found: bytes, wanted });
        }
        Ok(Self { base: Address::on_compute(0, 0, 0), stripes: directory.stripes(), buckets, segments, segment_bytes })
    }

    /// Bytes of the region.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments_at() + self.segments * self.segment_bytes
    }

    fn buckets_at(&self) -> u64 {
        STRIPES + self.stripes * LINE_BYTES
    }

    fn segment_words_at(&self) -> u64 {
        self.buckets_at() + self.buckets * LINE_BYTES
    }

    fn segments_at(&self) -> u64 {
        (self.segment_words_at() + self.segments * SEGMENT_WORDS_BYTES).next_multiple_of(LINE_BYTES)
    }

    pub(crate) fn stripe_at(&self, stripe: Stripe) -> Address {
        debug_assert!(stripe.number < self.stripes);
        self.base.add(STRIPES + stripe.number * LINE_BYTES)
    }

    /// The line of a stripe on another compute node, whose region begins at `base`.
    pub(crate) fn stripe_on(base: Address, stripe: Stripe) -> Address {
        base.add(STRIPES + stripe.number * LINE_BYTES)
    }

    pub(crate) fn losses_on(base: Address) -> Address {
        base.add(LOSSES)
    }

    pub(crate) fn joins_on(base: Address) -> Address {
        base.add(JOINS)
    }

    /// Where a near region has its member's word; 0 until its exporter tries to take a place.
    pub(crate) fn member_on(base: Address) -> Address {
        base.add(MEMBER)
    }

    /// Not 0 until the client that exported the region has joined, and once it leaves.
    pub(crate) fn closed_at(&self) -> Address {
        self.base.add(CLOSED)
    }

    pub(crate) fn cursor_at(&self) -> Address {
        self.base.add(CURSOR)
    }

    /// The incarnation of a memory node whose modes this compute node believes; 0 for none.
    pub(crate) fn incarnation_at(&self, node: u8) -> Address {
        self.base.add(INCARNATIONS + 8 * u64::from(node))
    }

    pub(crate) fn bucket_at(&self, bucket: u64) -> Address {
        debug_assert!(bucket < self.buckets);
        self.base.add(self.buckets_at() + bucket * LINE_BYTES)
    }

    pub(crate) fn generation_at(&self, segment: u64) -> Address {
        debug_assert!(segment < self.segments);
        self.base.add(self.segment_words_at() + segment * SEGMENT_WORDS_BYTES)
    }

    pub(crate) fn owner_at(&self, segment: u64) -> Address {
        self.generation_at(segment).add(8)
    }

    pub(crate) fn segment_at(&self, segment: u64) -> Address {
        debug_assert!(segment < self.segments);
        self.base.add(self.segments_at() + segment * self.segment_bytes)
    }

    /// Exports a region of this layout, with the nonce for its address. No client can attach to it
    /// yet.
    pub(crate) async fn export<E: Endpoint>(
        self,
        endpoint: &E,
        directory: &Directory,
        nonce: impl FnOnce(Address) -> u64,
    ) -> Result<Self, NearError> {
        let home = directory.home().memory_node().unwrap_or_default();
        let domain = endpoint.region_attributes(home).map(|attributes| attributes.domain);
        let domain = domain.ok_or(NearError::NoDirectory { what: "its memory node is not reached" })?;
        let wanted = RegionAttributes { bytes: self.bytes(), kind: Kind::Host, domain, lifetime: Lifetime::Process };
        let base = endpoint.export(wanted)?;
        let mut header = Buffer::sized(8 * HEADER_WORDS);
        header.words_mut().copy_from_slice(&[
            MAGIC,
            0,
            self.segment_bytes,
            self.segments,
            self.buckets,
            1,
            nonce(base),
        ]);
        let mut batch = Batch::new();
        batch.write(base, header);
        endpoint.post(&mut batch).await?;
        Ok(Self { base, ..self })
    }

    /// Tells clients that attach which member the region is of.
    pub(crate) async fn name_member<E: Endpoint>(&self, endpoint: &E, member: u64) -> Result<(), VerbError> {
        write_word(endpoint, Self::member_on(self.base), member).await
    }

    /// The layout of a near region that another client of this compute node has exported, and its
    /// member's word. `nonce` is that of a host's export.
    pub(crate) async fn open<E: Endpoint>(
        endpoint: &E,
        base: Address,
        directory: &Directory,
        nonce: Option<u64>,
    ) -> Result<(Self, u64), NearError> {
        let attributes = endpoint.reach_export(base)?;
        let mut batch = Batch::new();
        let header = batch.read(base, Buffer::sized(8 * HEADER_WORDS));
        endpoint.post(&mut batch).await?;
        let header = batch.take(header);
        let [magic, member, segment_bytes, segments, buckets, _, found_nonce] = *header.words() else {
            unreachable!("a header")
        };
        let layout = Self { base, stripes: directory.stripes(), buckets, segments, segment_bytes };
        if magic == MAGIC && nonce.is_some_and(|nonce| nonce != found_nonce) {
            return Err(NearError::NoDirectory { what: "another near region has the address by now" });
        }
        let is_valid = magic == MAGIC
            && segment_bytes.is_multiple_of(LINE_BYTES)
            && (LINE_BYTES..=SEGMENT_BYTES_MAX).contains(&segment_bytes)
            && (SEGMENTS_MIN..=SEGMENTS_MAX).contains(&segments)
            && buckets.is_power_of_two()
            && buckets <= attributes.bytes
            && layout.bytes() <= attributes.bytes;
        if !is_valid {
            return Err(NearError::NoDirectory { what: "the near region has another form" });
        }
        let places = (MEMBER, SEGMENT_BYTES, SEGMENTS, BUCKETS, CLOSED, NONCE);
        debug_assert_eq!(places, (8, 16, 24, 32, 40, 48), "as `export` writes them");
        Ok((layout, member))
    }
}
