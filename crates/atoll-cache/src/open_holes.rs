//! Which of an engine's holes are open: none in any product, and in a test those that it shows.
//!
//! Without the feature `holes` (tests only) no hole can be opened and the questions cost nothing.

use std::marker::PhantomData;

/// A hole, by its number among its engine's, below 32.
pub trait Numbered: Copy {
    /// The number.
    fn number(self) -> u32;
}

/// The holes that are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenHoles<H> {
    #[cfg(feature = "holes")]
    bits: u32,
    of: PhantomData<H>,
}

impl<H: Numbered> OpenHoles<H> {
    /// None, as in every product.
    pub const NONE: Self = Self {
        #[cfg(feature = "holes")]
        bits: 0,
        of: PhantomData,
    };

    /// This one.
    #[cfg(feature = "holes")]
    pub fn only(hole: H) -> Self {
        Self { bits: 1 << hole.number(), of: PhantomData }
    }

    /// Whether `hole` is open.
    #[inline(always)]
    pub fn has(self, hole: H) -> bool {
        #[cfg(feature = "holes")]
        return self.bits & 1 << hole.number() != 0;
        #[cfg(not(feature = "holes"))]
        {
            let _ = hole;
            false
        }
    }
}
