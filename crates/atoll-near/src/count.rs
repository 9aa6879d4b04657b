//! What a client counts.

use std::cell::Cell;

/// Declares the counts.
macro_rules! counts {
    ($($(#[$what:meta])* $name:ident,)*) => {
        /// What a client has counted since it was made.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[$what])* pub $name: u64,)*
        }

        impl Counts {
            /// The sums of both.
            pub fn plus(&self, other: &Self) -> Self {
                Self { $($name: self.$name + other.$name,)* }
            }

            /// What was counted since an earlier time.
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($name: self.$name - earlier.$name,)* }
            }
        }
    };
}

counts! {
    /// Reads that a copy on this compute node answered.
    hits,
    /// Reads of an object that may be cached, without a valid copy.
    misses,
    /// Reads of an object that may not be cached, or whose mode was unknown.
    bypasses,
    /// Writes of objects of which no copy can exist.
    writes_bypassing,
    /// Writes that invalidated copies.
    writes_invalidating,
    /// Fetch-and-adds to stripes of other compute nodes.
    invalidations_sent,
    /// Copies that were made.
    copies,
    /// Segments of copies that were evicted to make room.
    segments_evicted,
    /// Stripes whose caching this client has switched on.
    switches_on,
    /// Stripes whose caching this client has switched off.
    switches_off,
    /// Dead compute nodes that this client has buried.
    burials,
    /// Compute nodes that this client has orphaned: their region had ended, and a client of theirs
    /// may have lived.
    orphans,
    /// Places of dead further clients that this client has freed or marked as reclaimed.
    reclaimed,
}

/// Counts of a client whose operations share them.
#[derive(Debug, Default)]
pub(crate) struct Counting(Cell<Counts>);

impl Counting {
    #[inline]
    pub(crate) fn add(&self, add: impl FnOnce(&mut Counts)) {
        let mut counts = self.0.get();
        add(&mut counts);
        self.0.set(counts);
    }

    pub(crate) fn get(&self) -> Counts {
        self.0.get()
    }
}
