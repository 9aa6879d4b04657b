//! Holes: ways in which an engine would be wrong if it left out one of its checks. A simulation
//! opens a hole on purpose and shows what goes wrong.
//!
//! Without the feature `holes` (tests only) no hole can be opened and the questions cost nothing.

use std::marker::PhantomData;

/// A hole, by its number among its engine's, below 32.
pub trait Numbered: Copy {
    /// The number.
    fn number(self) -> u32;
}

/// The failure that a linearizability checker reports.
pub const NO_ORDER: &str = "no order of the operations explains";

/// Declares an engine's holes, each with the words of the failures that prove it. A failure with
/// other words proves nothing of the hole.
#[macro_export]
macro_rules! holes {
    ($(#[$doc:meta])* pub enum $Hole:ident { $($(#[$hole_doc:meta])* $Name:ident => [$($harm:expr),+],)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum $Hole {
            $($(#[$hole_doc])* $Name,)+
        }

        #[cfg(feature = "holes")]
        impl $Hole {
            /// Words of the failures that prove the hole.
            pub fn harms(self) -> &'static [&'static str] {
                #[allow(unused_imports, reason = "a hole may have other harms")]
                use $crate::open_holes::NO_ORDER;
                match self {
                    $(Self::$Name => &[$($harm),+],)+
                }
            }

            /// Whether a failure is one that this hole causes.
            pub fn is_shown_by(self, failure: &str) -> bool {
                self.harms().iter().any(|harm| failure.contains(harm))
            }
        }

        impl $crate::open_holes::Numbered for $Hole {
            fn number(self) -> u32 {
                self as u32
            }
        }
    };
}

/// The holes that are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenHoles<H> {
    #[cfg(feature = "holes")]
    bits: u64,
    of: PhantomData<H>,
}

impl<H: Numbered> OpenHoles<H> {
    /// No hole, as in every product.
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
