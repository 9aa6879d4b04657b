//! What verbs are sent for, so that a fabric that counts can say where its traffic comes from
//! (FORGE, Fig. 3).
//!
//! A protocol opens a [`Scope`] around its housekeeping; what its endpoint posts until the scope
//! ends is counted there. A fabric that does not count ([`Endpoint::purpose`] as it stands)
//! compiles all of it to nothing.

use crate::Endpoint;

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

/// While it lives, what the endpoint posts has its purpose; then it has the one before again.
/// Scopes nest.
#[must_use = "a scope ends where it is dropped"]
pub struct Scope<'e, E: Endpoint> {
    endpoint: &'e E,
    before: Purpose,
}

impl<'e, E: Endpoint> Scope<'e, E> {
    /// Begins here.
    #[inline]
    pub fn new(endpoint: &'e E, purpose: Purpose) -> Self {
        Self { endpoint, before: endpoint.purpose(purpose) }
    }
}

impl<E: Endpoint> Drop for Scope<'_, E> {
    #[inline]
    fn drop(&mut self) {
        self.endpoint.purpose(self.before);
    }
}
