//! Owner sets: which compute nodes may have a copy, so that writers need not tell all.
//!
//! ```text
//! owners of a stripe    0 | place of a member mod 40, a bit each | 40 | version | 64
//! tracking              0 everyone, 1 both, 2 owners: 8 bits | version
//! ```
//!
//! | tracking | a client that makes a copy | a writer tells |
//! |---|---|---|
//! | everyone | does nothing | all members |
//! | both | sets its node's bit first | all members |
//! | owners | sets its node's bit first | the members whose bits are set |
//!
//! **A bit is set before the READ of a copy's bytes**: the swap and the READ are one batch, in that
//! order. Each swap makes a new version, even if the bit was set. A writer READs the owners behind
//! its WRITE, tells them, and then clears their bits, unless the version has changed: then a node
//! may have made a copy since it was told. It leaves its own node's bit. A node knows that its bit
//! is set as long as no writer has told it: the writer that clears the bit tells it first.
//!
//! **The tracking changes** with the number of members ([`DirectoryOptions::owners_from`]), when
//! one joins. The newcomer passes through "both", and then adds to `losses` of every member. A
//! client remembers the tracking together with its node's `losses`, and a copy is valid only as
//! long as these are the same. So no copy without a bit outlives the change, and a writer that has
//! told the owners alone looks at `losses` again afterwards. If the newcomer dies in between, the
//! tracking stays at "both" until a later one changes it.
//!
//! [`DirectoryOptions::owners_from`]: crate::DirectoryOptions::owners_from

use crate::directory::Stripe;
use crate::error::NearError;
use crate::members::MemberWord;
use crate::near::Near;
use crate::node::Layout;
use crate::protocol::Promise;
use crate::verbs::{add, read_word, swap};
use atoll_fabric::{Batch, Endpoint};
use atoll_pool::fields::{Fields, Numbers};

const PLACES: usize = 40;
const FIELDS: Fields<2> = Fields::new([PLACES as u32, 24]);
const TRACKINGS: Numbers<Tracking, 3> = Numbers([(0, Tracking::Everyone), (1, Tracking::Both), (2, Tracking::Owners)]);

/// `tracking | version`.
const TRACKING_FIELDS: Fields<2> = Fields::new([8, 56]);

/// How writers find the compute nodes that they tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tracking {
    /// They tell all.
    Everyone,
    /// They tell all, and clients that make copies say so.
    Both,
    /// They tell those that may have a copy.
    Owners,
}

impl Tracking {
    /// Whether a client that makes a copy sets its node's bit first.
    pub(crate) const fn sets_bits(self) -> bool {
        matches!(self, Self::Both | Self::Owners)
    }

    /// Whether a writer tells the members alone whose bits are set.
    pub(crate) const fn tells_owners(self) -> bool {
        matches!(self, Self::Owners)
    }
}

/// The owners of a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnersWord(u64);

impl OwnersWord {
    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Every member may have a copy.
    pub(crate) fn everyone() -> Self {
        Self(FIELDS.pack([FIELDS.max(0), 0]))
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// Whether the member of a place may have a copy.
    pub(crate) fn has(self, place: usize) -> bool {
        FIELDS.unpack(self.0)[0] >> (place % PLACES) & 1 == 1
    }

    /// With the bit of a place, in a new version.
    pub(crate) fn with(self, place: usize) -> Self {
        let [owners, version] = FIELDS.unpack(self.0);
        Self(FIELDS.pack([owners | 1 << (place % PLACES), (version + 1) & FIELDS.max(1)]))
    }

    /// Without any bit but that of a place.
    pub(crate) fn cleared_but(self, place: usize) -> Self {
        let [owners, version] = FIELDS.unpack(self.0);
        Self(FIELDS.pack([owners & 1 << (place % PLACES), version]))
    }
}

impl<E: Endpoint> Near<E> {
    /// The tracking, as this client remembers it for this number of its node's losses.
    pub(crate) async fn tracking(&self, losses: u64) -> Result<Tracking, NearError> {
        let (remembered, tracking) = (self.view.borrow().losses, self.view.borrow().tracking);
        if remembered == losses {
            return Ok(tracking);
        }
        let word = read_word(&self.endpoint, self.directory.tracking_at()).await?;
        let tracking = TRACKINGS.value(TRACKING_FIELDS.unpack(word)[0]).unwrap_or(Tracking::Both);
        let mut view = self.view.borrow_mut();
        (view.losses, view.tracking) = (losses, tracking);
        Ok(tracking)
    }

    /// Brings the tracking to what suits the number of members.
    pub(crate) async fn adjust_tracking(&self) -> Result<(), NearError> {
        let options = self.directory.options();
        if options.promise == Promise::Linearizable || !options.protocol.is_decentralized() {
            return Ok(());
        }
        let members = self.others().len() + 1;
        let wanted = if members >= usize::from(options.owners_from) { Tracking::Owners } else { Tracking::Everyone };
        let at = self.directory.tracking_at();
        let found = read_word(&self.endpoint, at).await?;
        let [tracking, version] = TRACKING_FIELDS.unpack(found);
        let next = |tracking, version: u64| {
            TRACKING_FIELDS.pack([TRACKINGS.number(tracking), (version + 1) & TRACKING_FIELDS.max(1)])
        };
        if TRACKINGS.value(tracking) == Some(wanted) {
            return Ok(());
        }
        // A new version, so that no other client's change is ended by this one.
        let both = next(Tracking::Both, version);
        if swap(&self.endpoint, at, found, both).await?.is_err() {
            return Ok(());
        }
        self.end_copies().await?;
        let _ = swap(&self.endpoint, at, both, next(wanted, version + 1)).await?;
        // From now on it may be remembered.
        self.end_copies().await
    }

    /// No copy of any node is valid any more, and no tracking is remembered.
    pub(crate) async fn end_copies(&self) -> Result<(), NearError> {
        add(&self.endpoint, Layout::losses_on(self.layout.base), 1).await?;
        let mut told: Vec<(usize, MemberWord)> = Vec::new();
        loop {
            let joins = self.view.borrow().joins;
            let mut left = self.others();
            left.retain(|member| !told.contains(member));
            for (place, member) in &left {
                if let Err(error) = add(&self.endpoint, Layout::losses_on(member.base()), 1).await {
                    self.after_silence(*place, *member, error).await?;
                }
            }
            told.extend(left);
            // A newcomer may remember the tracking from before.
            if read_word(&self.endpoint, Layout::joins_on(self.layout.base)).await? == joins {
                return Ok(());
            }
            self.refresh().await?;
        }
    }

    /// Clears the bits of owners that were told, unless a node has made a copy since.
    pub(crate) fn clear_owners(&self, stripe: Stripe, told: OwnersWord) {
        let cleared = told.cleared_but(self.place.get());
        if told != cleared {
            let mut batch = Batch::new();
            batch.compare_and_swap(stripe.owners_at(), told.bits(), cleared.bits());
            self.endpoint.post_unawaited(&mut batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{Row, follow};

    #[test]
    fn one_row_of_the_table_matches_every_tracking() {
        // Whether a copy needs a bit, and whether owners alone are told.
        let rows: [Row<Tracking, (bool, bool)>; 3] = [
            ("everyone", |tracking| *tracking == Tracking::Everyone, (false, false)),
            ("both", |tracking| *tracking == Tracking::Both, (true, false)),
            ("owners", |tracking| *tracking == Tracking::Owners, (true, true)),
        ];
        let known = (0..=u8::MAX).filter_map(|number| TRACKINGS.value(number.into()));
        follow(&rows, known, |tracking| (tracking.sets_bits(), tracking.tells_owners()));
    }

    #[test]
    fn a_bit_that_is_set_again_makes_a_new_version_and_places_share_bits() {
        let none = OwnersWord::from_bits(0);
        let one = none.with(3);
        assert!(one.has(3) && one.has(43) && !one.has(4));
        assert_ne!(one.with(3), one);
        let two = one.with(5);
        assert!(!two.cleared_but(3).has(5) && two.cleared_but(3).has(3) && two.cleared_but(9) != none);
    }
}
